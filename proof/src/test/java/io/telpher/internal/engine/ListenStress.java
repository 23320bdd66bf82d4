package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Transfer;
import java.util.concurrent.atomic.AtomicInteger;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// A thread asks to be called at the end of a transfer, another one ends it: the call comes once,
/// and finds the transfer ended.
@JCStressTest
@Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "called once, at the end")
@Outcome(expect = Expect.FORBIDDEN, desc = "not called, called again, or too early")
@State
public class ListenStress {
    private final ConnectionCore connection = Stage.connection();
    private final Transfer transfer = Stage.receive(connection);
    private final AtomicInteger calls = new AtomicInteger();
    private final AtomicInteger atEnd = new AtomicInteger();

    /// Asks.
    @Actor
    public void listener() {
        transfer.onEnd(
                ended -> {
                    calls.incrementAndGet();
                    atEnd.addAndGet(ended.state().isTerminal() ? 1 : 0);
                });
    }

    /// Ends it.
    @Actor
    public void ender() {
        Stage.end(connection, Connection.DONE);
        connection.endings.settle();
    }

    /// Looks at both.
    @Arbiter
    public void look(II_Result r) {
        r.r1 = calls.get();
        r.r2 = atEnd.get();
    }
}
