package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// As [RecordedBytesTest], with frames that carry checksums: they are replayed without a change,
/// and answered by frames whose checksums are right.
class RecordedChecksumsTest extends Replay {
    private static final Map<String, byte[]> RECORDED = FrozenPeer.recordingWithChecksums(1);

    /// Can check frames, and wants it.
    private static final long CAPABILITIES = 3;

    RecordedChecksumsTest() {
        super(RECORDED, CAPABILITIES);
    }

    @Test
    void theRecordedChecksumsAreThoseOfTheProtocol() {
        List<String> frames = List.of("TAIL_INLINE", "TAIL", "WRITE", "APPLIED");
        assertThat(RECORDED).containsKeys(frames.toArray(String[]::new));
        for (String name : frames) {
            byte[] frame = RECORDED.get(name);
            assertThat(FrozenPeer.little(frame).getInt(FrozenPeer.CHECKSUM))
                    .as(name)
                    .isEqualTo(FrozenPeer.checksum(frame));
        }
    }

    @Test
    void recordedFramesHaveTheirEffectAndAreAnsweredInKind() {
        assertThat(connection.explain()).contains("checked by CRC32C");
        byte[] inline = RECORDED.get("TAIL_INLINE");
        peer.send(inline);
        assertThat(connection.awaitNotification(LIMIT).payload())
                .isEqualTo(Arrays.copyOfRange(inline, 24, 24 + 20));
        byte[] tail = RECORDED.get("TAIL");
        peer.send(tail);
        assertThat(connection.awaitNotification(LIMIT).payload())
                .isEqualTo(Arrays.copyOfRange(tail, 64, tail.length));
        FrozenPeer.Frame applied = peer.await(Frame.APPLIED);
        assertThat(applied.header().getInt(FrozenPeer.CHECKSUM))
                .isEqualTo(FrozenPeer.checksum(applied.bytes()));
        assertThat(connection.metrics().checksumFailures()).isZero();
    }

    @Test
    void aRecordedFrameWithAnotherBitIsNotTaken() {
        byte[] tail = RECORDED.get("TAIL").clone();
        tail[100] ^= 4;
        peer.send(tail);
        assertThatThrownBy(() -> connection.awaitNotification(LIMIT))
                .isInstanceOf(TelpherException.PeerLost.class)
                .hasMessageContaining("CRC32C");
        assertThat(connection.metrics().checksumFailures()).isEqualTo(1);
    }
}
