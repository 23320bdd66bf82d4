package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// As [RecordedBytesTest], with frames that carry checksums: they are replayed without a change,
/// and answered by frames whose checksums are right.
class RecordedChecksumsTest {
    private static final Map<String, byte[]> RECORDED = FrozenPeer.recordingWithChecksums(1);
    private static final Duration LIMIT = Duration.ofSeconds(10);

    /// Can check frames, and wants it.
    private static final long CAPABILITIES = 3;

    private final int port = Ports.free();
    private Endpoint endpoint;
    private FrozenPeer peer;
    private Connection connection;

    @BeforeEach
    void connect() throws IOException {
        endpoint =
                Endpoint.open(
                        EndpointOptions.DEFAULTS
                                .withTransports(List.of("tcp"))
                                .withPort(port)
                                .withSecret(RecordWire.SECRET)
                                .withDeadline(LIMIT));
        peer = FrozenPeer.dial(port, RECORDED, false, CAPABILITIES);
        connection = endpoint.accept(LIMIT);
    }

    @AfterEach
    void close() throws IOException {
        peer.close();
        endpoint.close();
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
