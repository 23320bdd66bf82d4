package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Transfer;
import java.time.Duration;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// A thread waits for the end of a transfer, another one ends it, and wakes those of whom it has
/// found that they may be parked: nobody oversleeps.
@JCStressTest
@Outcome(id = "1, 0", expect = Expect.ACCEPTABLE, desc = "seen in time")
@Outcome(expect = Expect.FORBIDDEN, desc = "overslept, or not seen")
@State
public class AwaitStress {
    private static final Duration LIMIT = Duration.ofMinutes(1);

    private final ConnectionCore connection = Stage.connection();
    private final Transfer transfer = Stage.receive(connection);

    /// Waits.
    @Actor
    public void waiter(II_Result r) {
        Stage.OVERSLEPT.set(false);
        r.r1 = transfer.await(LIMIT) ? 1 : 0;
        r.r2 = Stage.OVERSLEPT.get() ? 1 : 0;
    }

    /// Ends it.
    @Actor
    public void ender() {
        Stage.end(connection, Connection.DONE);
        connection.endings.settle();
    }
}
