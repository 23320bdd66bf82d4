package io.telpher.cli.soak;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// Looks at the other end's memory for one conversation, and judges what it sees. Used by the
/// conversation's thread.
final class Sight implements AutoCloseable {
    /// A connection that the other end has closed is known to be closed by then.
    static final long NOTICE = 5_000_000_000L;

    private final Conversation talk;
    private final MemorySegment word;
    private @Nullable Eyes eyes;

    Sight(Conversation talk) {
        this.talk = talk;
        word = talk.arena.allocate(Long.BYTES, Long.BYTES);
    }

    private Eyes eyes(Note.Offer offer) throws IOException {
        Eyes look = eyes;
        if (look == null) {
            look = Eyes.on(offer.pid());
            eyes = look;
        }
        return look;
    }

    /// @return a word of the other end's inbox; null when it cannot be seen
    @Nullable Long word(Note.Offer offer, long offset) {
        try {
            return eyes(offer).read(offer.address() + offset, word) ? word.get(JAVA_LONG, 0) : null;
        } catch (IOException e) {
            return null;
        }
    }

    /// Checks a range of a slot and what lies beside it.
    ///
    /// @throws SoakFailure when it is wrong, or cannot be seen although the other end is there
    void check(Slot slot, Note.Offer offer, long low, long high, Slot.Expect expect) {
        if (high <= low) {
            return;
        }
        try {
            String wrong = slot.check(eyes(offer), offer, low, high, expect);
            talk.rank.checked();
            if (wrong != null) {
                doubt(wrong);
            }
        } catch (Slot.Blind | IOException e) {
            doubt(
                    "the memory of process %d cannot be seen (%s); set kernel.yama.ptrace_scope to 1"
                            .formatted(offer.pid(), e.getMessage()));
        }
    }

    /// Something is wrong, unless the other end has closed the connection and then done with its
    /// memory what it likes, and this end does not know yet.
    void doubt(String what) {
        talk.rank.log(() -> talk.name() + " doubts: " + what);
        long since = Clock.OWN.now();
        while (Clock.OWN.now() - since < NOTICE) {
            int unused = talk.connection.poll();
            if (!talk.isOpen()) {
                talk.rank.unchecked();
                return;
            }
            LockSupport.parkNanos(1_000_000);
        }
        throw talk.wrong(what);
    }

    @Override
    public void close() {
        Eyes look = eyes;
        if (look != null) {
            look.close();
        }
    }
}
