package io.telpher.internal.transport.shm;

import io.telpher.spi.Lane;
import java.util.concurrent.ThreadLocalRandom;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// The ring is full: one side wants space and goes to sleep, the other one takes in everything,
/// looks once more as a thread that waits does, and goes to sleep: the first gets its space, or
/// does not sleep, or its bell rings.
@JCStressTest
@Outcome(id = "1, 0", expect = Expect.ACCEPTABLE, desc = "there was space")
@Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "asleep, and the bell rang")
@Outcome(id = "0, 2", expect = Expect.ACCEPTABLE, desc = "did not go to sleep")
@Outcome(id = "0, 3", expect = Expect.FORBIDDEN, desc = "asleep beside an empty ring")
@Outcome(expect = Expect.FORBIDDEN, desc = "a broken record")
@State
public class RingSpaceStress {
    private final RingPair pair = RingPair.take();

    /// Moves the moment of going to sleep over all that the other side does.
    private final int looks = ThreadLocalRandom.current().nextInt(40 * RingPair.LOOKS);

    private boolean asleep;

    /// Fills the ring.
    public RingSpaceStress() {
        while (pair.send() == Lane.OK) {
            int flushed = pair.producer.flush();
            assert flushed == Lane.OK;
        }
    }

    /// Wants space.
    @Actor
    public void producer(II_Result r) {
        for (int i = 0; i <= looks && r.r1 == 0; i++) {
            r.r1 = pair.send() == Lane.OK ? 1 : 0;
        }
        if (r.r1 == 0) {
            asleep = pair.producer.park();
        }
    }

    /// Makes space.
    @Actor
    public void consumer() {
        int taken = pair.drain();
        boolean parked = pair.consumer.park();
        assert taken > 0 || parked;
    }

    /// Looks at the outcome.
    @Arbiter
    public void arbiter(II_Result r) {
        if (r.r1 == 0) {
            r.r2 = !asleep ? 2 : pair.producersBellRang() ? 1 : 3;
        }
        if (pair.poll(64) < 0) {
            r.r1 = -1;
        }
        pair.giveBack();
    }
}
