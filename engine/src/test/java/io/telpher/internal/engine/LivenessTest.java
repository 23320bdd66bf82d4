package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Which lanes of a connection are given up, on lanes that are as silent as the test says.
@Timeout(60)
class LivenessTest {
    private static final long MILLI = 1_000_000;

    private EndpointImpl endpoint;
    private ConnectionCore core;
    private Liveness liveness;
    private long now;

    private static final class Quiet extends StubLane {
        private final long patience;
        private long silence;

        Quiet(long patience) {
            super(1 << 20);
            this.patience = patience;
        }

        @Override
        public long silence() {
            return silence;
        }

        @Override
        public long patience() {
            return patience;
        }
    }

    @BeforeEach
    void open() {
        endpoint = Loopback.open();
        core = Loopback.connection(endpoint, 1);
        liveness = new Liveness(core, core.outbound, core.keeper);
        now = core.platform.nanoTime();
    }

    @AfterEach
    void close() {
        core.close();
        endpoint.close();
    }

    private boolean isGivenUp(LaneState lane, LaneState heard) {
        core.lock.lock();
        try {
            now += 100 * MILLI;
            heard.framesReceived++;
            liveness.tick(now);
            return lane.dead;
        } finally {
            core.lock.unlock();
        }
    }

    /// What was lost on its way is sent again by the link, which is not dead before that.
    @Test
    void aLaneIsNotGivenUpBeforeItsLinkHasSentAgain() {
        Quiet slow = new Quiet(2000 * MILLI);
        Quiet quick = new Quiet(0);
        LaneState slowState = slow.addTo(core, 0);
        LaneState quickState = quick.addTo(core, 1);
        LaneState heard = new Quiet(0).addTo(core, 2);
        slow.silence = 1900 * MILLI;
        quick.silence = 900 * MILLI;
        assertThat(isGivenUp(slowState, heard)).isFalse();
        assertThat(isGivenUp(quickState, heard)).isFalse();
        quick.silence = 1000 * MILLI;
        assertThat(isGivenUp(quickState, heard)).isTrue();
        assertThat(slowState.dead).isFalse();
        slow.silence = 2000 * MILLI;
        assertThat(isGivenUp(slowState, heard)).isTrue();
        assertThat(slowState.death).contains("while other lanes went on");
    }
}
