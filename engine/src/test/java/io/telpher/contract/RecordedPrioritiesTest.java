package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.MemoryRegion;
import io.telpher.internal.wire.Frame;
import java.io.ByteArrayOutputStream;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// As [RecordedBytesTest], of which requests are answered first.
class RecordedPrioritiesTest extends Replay {
    private static final Map<String, byte[]> RECORDED = FrozenPeer.recordingOfPriorities(1);

    /// Longer than what goes out at once.
    private static final int LONG = 1 << 20;

    private static final int TABLE = 64;
    private static final int URGENT = 77;

    RecordedPrioritiesTest() {
        super(RECORDED, 0);
    }

    /// All requests come by one write, so that the urgent one is there before the first answer.
    @ParameterizedTest
    @ValueSource(strings = {"READ_HIGH", "READ_PIECES_HIGH"})
    void theUrgentRequestIsAnsweredFirst(String name) {
        MemoryRegion region = endpoint.allocate(LONG);
        ByteArrayOutputStream requests = new ByteArrayOutputStream();
        for (int i = 0; i < 8; i++) {
            byte[] usual = request("READ_HIGH", region, i);
            usual[1] = 0;
            requests.writeBytes(usual);
        }
        requests.writeBytes(request(name, region, URGENT));
        peer.send(requests.toByteArray());
        assertThat(peer.await(Frame.DATA).field(FrozenPeer.TRANSFER)).isEqualTo(URGENT);
    }

    /// The recorded frame about all of a region of this endpoint, or a first piece that is.
    private static byte[] request(String name, MemoryRegion region, long transfer) {
        byte[] frame = RECORDED.get(name).clone();
        FrozenPeer.little(frame)
                .putLong(Frame.CONFIRM, 0)
                .putLong(FrozenPeer.TRANSFER, transfer)
                .putInt(FrozenPeer.A, region.remote().region())
                .putInt(FrozenPeer.A + 4, region.remote().generation())
                .putLong(FrozenPeer.B, region.remote().key())
                .putLong(frame.length > TABLE ? TABLE + 8 : FrozenPeer.D, LONG);
        return frame;
    }
}
