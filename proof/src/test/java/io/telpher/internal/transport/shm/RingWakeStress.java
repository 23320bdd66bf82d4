package io.telpher.internal.transport.shm;

import java.util.concurrent.ThreadLocalRandom;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// One side commits a record and rings if the other one sleeps; the other one looks, and goes to
/// sleep when there is nothing: it gets the record, or it does not sleep, or the bell rings.
@JCStressTest
@Outcome(id = "1, 0", expect = Expect.ACCEPTABLE, desc = "taken in")
@Outcome(id = "0, 1", expect = Expect.ACCEPTABLE, desc = "asleep, and the bell rang")
@Outcome(id = "0, 2", expect = Expect.ACCEPTABLE, desc = "did not go to sleep")
@Outcome(id = "0, 3", expect = Expect.FORBIDDEN, desc = "asleep beside a record")
@Outcome(expect = Expect.FORBIDDEN, desc = "a broken record")
@State
public class RingWakeStress {
    private final RingPair pair = RingPair.take();

    /// Moves the moment of going to sleep over all that the other side does.
    private final int looks = ThreadLocalRandom.current().nextInt(RingPair.LOOKS);

    private boolean asleep;

    /// Sends.
    @Actor
    public void producer() {
        int sent = pair.send();
        int flushed = pair.producer.flush();
        assert sent == 0 && flushed == 0;
    }

    /// Looks, then sleeps.
    @Actor
    public void consumer(II_Result r) {
        for (int i = 0; i <= looks && r.r1 == 0; i++) {
            r.r1 = pair.poll(1);
        }
        if (r.r1 == 0) {
            asleep = pair.consumer.park();
        }
    }

    /// Looks at the outcome.
    @Arbiter
    public void arbiter(II_Result r) {
        if (r.r1 == 0) {
            boolean rang = pair.consumersBellRang();
            r.r2 = !asleep ? 2 : rang ? 1 : 3;
            int left = pair.drain();
            r.r1 = left == 1 ? 0 : -1;
        }
        pair.giveBack();
    }
}
