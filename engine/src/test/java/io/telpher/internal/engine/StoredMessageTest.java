package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// What the sender hears of a message that it has stored into a receive's memory by itself.
class StoredMessageTest {
    private static final int SIZE = 64 << 10;

    private EndpointImpl endpoint;
    private ConnectionCore core;
    private final StubLane lane = new StubLane(Lane.LEAST_PAYLOAD);
    private LaneState state;
    private Transfer receive;
    private long token;

    @BeforeEach
    void post() {
        endpoint = Loopback.open();
        core = Loopback.connection(endpoint, 1);
        state = lane.addTo(core, 0);
        MemoryRegion region = endpoint.allocate(SIZE);
        receive = new ConnectionImpl(core).receive(1, region.all());
        token = core.table.at(0).token();
    }

    @AfterEach
    void close() {
        core.close();
        endpoint.close();
    }

    /// Brings the word that it is stored.
    private void bringStored() {
        MemorySegment header = stored();
        Placement placement = new Placement();
        assertThat(state.inbound.begin(header, 0, placement)).isTrue();
        state.inbound.end(header, 0, MemorySegment.NULL, 0, placement);
        core.afterwards();
    }

    private MemorySegment stored() {
        MemorySegment header = Arena.ofAuto().allocate(Lane.HEADER, 64);
        Frame.start(header, 0, Frame.SEND_STORED, Frame.URGENT, 0, 0, token);
        Frame.set(header, 0, Frame.C, SIZE);
        return header;
    }

    @Test
    void aPendingReceiveIsDone() {
        bringStored();
        assertThat(receive.state()).isEqualTo(TransferState.DONE);
        assertThat(receive.bytesMoved()).isEqualTo(SIZE);
        assertThat(lane.sent).extracting(StubLane.Sent::type).doesNotContain(Frame.REFUSED);
        assertThat(state.reportable()).isEqualTo(1);
    }

    /// The peer hears of the end, not of a receive that was cancelled.
    @Test
    void aConnectionThatIsOverRefusesNothing() {
        core.fail(new TelpherException.PeerLost("the test ends it"));
        MemorySegment header = stored();
        Placement placement = new Placement();
        if (state.inbound.begin(header, 0, placement)) {
            state.inbound.end(header, 0, MemorySegment.NULL, 0, placement);
        }
        core.afterwards();
        assertThat(lane.sent).extracting(StubLane.Sent::type).doesNotContain(Frame.REFUSED);
        assertThat(state.reportable()).as("confirmed: the sender would be DONE").isZero();
        assertThat(receive.state()).isEqualTo(TransferState.FAILED);
    }

    /// Its owner had it back before that word came: what is there is nobody's message.
    @Test
    void theSenderHearsThatTheReceiveHadEnded() {
        receive.cancel();
        bringStored();
        assertThat(lane.sent).extracting(StubLane.Sent::type).contains(Frame.REFUSED);
        assertThat(state.reportable()).as("confirmed: the sender would be DONE").isZero();
    }
}
