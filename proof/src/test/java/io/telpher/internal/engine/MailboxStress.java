package io.telpher.internal.engine;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.Notification;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.III_Result;

/// A lane brings two notifications while somebody takes one: each is taken once, whole, in order.
@JCStressTest
@Outcome(
        id = {"0, 7, 8", "7, 8, 0"},
        expect = Expect.ACCEPTABLE,
        desc = "each once, in order")
@Outcome(expect = Expect.FORBIDDEN, desc = "lost, torn, twice or out of order")
@State
public class MailboxStress {
    private static final MemorySegment NOTES = Arena.global().allocate(16, 8);

    static {
        NOTES.set(JAVA_LONG, 0, 7);
        NOTES.set(JAVA_LONG, 8, 8);
    }

    private final Mailbox mailbox = Stage.connection().mailbox;

    /// Brings two.
    @Actor
    public void lane() {
        mailbox.notified(NOTES, 0, 8);
        mailbox.notified(NOTES, 8, 8);
    }

    /// Takes what is there.
    @Actor
    public void taker(III_Result r) {
        r.r1 = number(mailbox.take());
    }

    /// Takes the rest.
    @Arbiter
    public void arbiter(III_Result r) {
        r.r2 = number(mailbox.take());
        r.r3 = number(mailbox.take());
    }

    private static int number(Notification note) {
        return note == null
                ? 0
                : (int) ByteBuffer.wrap(note.payload()).order(ByteOrder.nativeOrder()).getLong();
    }
}
