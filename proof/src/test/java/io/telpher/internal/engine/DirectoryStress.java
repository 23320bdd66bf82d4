package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import java.util.List;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;

/// A name is published while one peer asks for it and another has asked before: who asks finds it
/// or is answered, perhaps both; who has asked is answered.
@JCStressTest
@Outcome(
        id = {"1, 0, 1", "0, 1, 1", "1, 1, 1"},
        expect = Expect.ACCEPTABLE,
        desc = "both have it")
@Outcome(expect = Expect.FORBIDDEN, desc = "a question is lost")
@State
public class DirectoryStress {
    private static final String NAME = "name";
    private static final RemoteMemory MEMORY =
            new RemoteMemory(1, 2, 3, 4, 0, 100, Access.READ_WRITE);
    private static final ConnectionCore ASKER = Stage.connection();
    private static final ConnectionCore EARLIER = Stage.connection();

    private final Directory directory = new Directory();
    private List<ConnectionCore> answered = List.of();

    /// One has asked.
    public DirectoryStress() {
        RemoteMemory unused = directory.find(NAME, EARLIER, 1);
    }

    /// Publishes.
    @Actor
    public void publisher() {
        answered = directory.publish(NAME, MEMORY);
    }

    /// Asks.
    @Actor
    public void asker(III_Result r) {
        r.r1 = directory.find(NAME, ASKER, 2) == null ? 0 : 1;
    }

    /// Looks who has been answered.
    @Arbiter
    public void arbiter(III_Result r) {
        r.r2 = answered.contains(ASKER) ? 1 : 0;
        r.r3 = answered.contains(EARLIER) ? 1 : 0;
        forget(ASKER);
        forget(EARLIER);
    }

    /// Answers that nobody sends.
    private static void forget(ConnectionCore connection) {
        connection.lock.lock();
        try {
            connection.outbound.control.clear();
        } finally {
            connection.lock.unlock();
        }
    }
}
