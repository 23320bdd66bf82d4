package io.telpher.internal.engine;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// A thread waits until something is so, another one makes it so and wakes who waits: nobody
/// oversleeps.
@JCStressTest
@Outcome(id = "1, 0", expect = Expect.ACCEPTABLE, desc = "seen in time")
@Outcome(expect = Expect.FORBIDDEN, desc = "overslept, or not seen")
@State
public class WaitersStress {
    private static final long LIMIT = 60_000_000_000L;

    private final ConnectionCore connection = Stage.connection();
    private volatile boolean done;

    /// Waits.
    @Actor
    public void waiter(II_Result r) {
        Stage.OVERSLEPT.set(false);
        r.r1 = connection.waiters.waitFor(() -> done, LIMIT) ? 1 : 0;
        r.r2 = Stage.OVERSLEPT.get() ? 1 : 0;
    }

    /// Wakes.
    @Actor
    public void waker() {
        done = true;
        connection.waiters.wake();
    }
}
