package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.wire.Frame;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// What becomes of frames that were cut and do not go out any more.
class ResendingTest {
    private static final int CHUNK = 64 * 1024;
    private static final long TOKEN = 77;

    private EndpointImpl endpoint;
    private ConnectionCore core;

    @BeforeEach
    void open() {
        endpoint = Loopback.open();
        core = Loopback.connection(endpoint, 1);
    }

    @AfterEach
    void close() {
        core.close();
        endpoint.close();
    }

    /// The last frame of an answer, which counts as its end, has gone out over one lane; the first
    /// was on another one, which died, when the region was closed.
    @Test
    void aReaderHearsThatAFrameInTheMiddleDoesNotCome() {
        StubLane control = new StubLane(CHUNK);
        StubLane slow = new StubLane(CHUNK);
        StubLane quick = new StubLane(CHUNK);
        slow.room = 0;
        control.addTo(core, 0);
        LaneState dying = slow.addTo(core, 1);
        LaneState live = quick.addTo(core, 2);
        RegionImpl region = (RegionImpl) endpoint.allocate(3 * CHUNK);
        assertThat(core.serving.serve(region, 0, 3 * CHUNK, TOKEN, 0, false)).isZero();
        core.pump.turn(dying); // has the first frame encoded, and takes it not
        core.pump.turn(live);
        assertThat(quick.sent).extracting(StubLane.Sent::a).containsExactly(1L * CHUNK, 2L * CHUNK);
        assertThat(quick.sent.getLast().flags() & Frame.COUNTED).isNotZero();

        core.keeper.died(dying);
        core.keeper.settle();
        core.lock.lock();
        try {
            assertThat(core.keeper.fenced(dying, 0, 0)).isTrue();
            core.endings.revokeUsers(region, op -> true);
        } finally {
            core.lock.unlock();
        }
        core.afterwards();

        assertThat(control.sent)
                .filteredOn(frame -> frame.type() == Frame.ABORT)
                .as("the end of the answer was counted by its last frame")
                .singleElement()
                .isEqualTo(new StubLane.Sent(Frame.ABORT, 0, 0, TOKEN, 0, 0));
        assertThat(slow.sent).isEmpty();
        assertThat(quick.sent).hasSize(2);
    }
}
