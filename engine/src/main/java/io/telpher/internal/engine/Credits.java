package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;
import org.jspecify.annotations.Nullable;

/// What the peer still has room for: messages that have not met a receive, notifications that
/// nobody has taken, reads that are not answered. Operations that have to wait for room wait here,
/// in order, and go back to the queues of [Outbound] when it comes.
///
/// Guarded by the connection's lock, under which everything is called.
final class Credits {
    /// Messages that may be at the peer without having met a receive.
    static final int MESSAGES = 64;

    /// Bytes of notifications that may wait at the peer.
    static final int NOTE_BYTES = 64 * 1024;

    /// What a notification costs beside its bytes.
    static final int NOTE_OVERHEAD = 16;

    /// Read requests that may be unanswered.
    static final int READS = 64;

    private final Outbound outbound;
    final OperationQueue readQueue;
    final OperationQueue noteQueue;

    /// Messages that may still go out.
    int messages = MESSAGES;

    int noteBytes = NOTE_BYTES;
    boolean largeNoteOut;

    /// A large notification without a write that is on its way: the next ones wait, to stay in
    /// order.
    @Nullable Operation alone;

    int readsOut;

    Credits(OperationTable table, Outbound outbound) {
        this.outbound = outbound;
        this.readQueue = new OperationQueue(table);
        this.noteQueue = new OperationQueue(table);
    }

    /// The peer gives credits back.
    void granted(long forMessages, long forNotes, boolean largeNote) {
        messages += (int) forMessages;
        noteBytes += (int) forNotes;
        if (largeNote) {
            largeNoteOut = false;
        }
        wakeNotes();
    }

    private void wakeNotes() {
        Operation op;
        while ((op = noteQueue.peek()) != null && admit(op)) {
            noteQueue.removeFirst();
            outbound.enqueue(op);
        }
    }

    /// Gives credit to an operation's notification. Those without a write are admitted in order,
    /// and what is admitted goes out in order.
    ///
    /// @return whether it may go out
    boolean admit(Operation op) {
        if (op.noteCredited) {
            return true;
        }
        boolean notify = op.kind == Operation.Kind.NOTIFY;
        if (notify && alone != null) {
            return false;
        }
        if (op.noteLength > Outbound.SHORT_NOTE) {
            if (largeNoteOut) {
                return false;
            }
            largeNoteOut = true;
            alone = notify ? op : alone;
        } else {
            int cost = op.noteLength + NOTE_OVERHEAD;
            if (cost > noteBytes) {
                return false;
            }
            noteBytes -= cost;
        }
        op.noteCredited = true;
        return true;
    }

    /// An operation ends early: its notification does not go out any more, unless it has already.
    void noteRevoked(Operation op) {
        if (op.noteCredited && !op.tailSent) {
            op.noteCredited = false;
            if (op.noteLength <= Outbound.SHORT_NOTE) {
                noteBytes += op.noteLength + NOTE_OVERHEAD;
            } else {
                largeNoteOut = false;
                if (op.noteSent > 0) {
                    // A tail that notifies of nothing: the peer forgets the parts.
                    outbound.enqueue(outbound.control(Frame.TAIL, 0, 0, op.token()));
                }
            }
        }
        noteGone(op);
    }

    private void noteGone(Operation op) {
        if (alone == op) {
            alone = null;
        }
        if (op.noteLength >= 0) {
            wakeNotes();
        }
    }

    /// An answer to a read has come to its end.
    void readAnswered() {
        readsOut--;
        while (readsOut < READS) {
            Operation op = readQueue.peek();
            if (op == null) {
                return;
            }
            readQueue.removeFirst();
            outbound.enqueue(op);
            if (readsOut + 1 >= READS) {
                return;
            }
        }
    }

    /// Gives credit to an operation's notification, or lets it wait behind the others.
    ///
    /// @return whether it may go out
    boolean mayNotify(Operation op) {
        if (mayNotifyNow(op) || op.noteCredited) {
            return true;
        }
        noteQueue.add(op);
        return false;
    }

    /// Gives credit to an operation's notification, if no other waits for some.
    boolean mayNotifyNow(Operation op) {
        return noteQueue.peek() == null && admit(op);
    }

    /// Lets an operation wait whose notification was not admitted.
    void hold(Operation op) {
        noteQueue.add(op);
    }

    /// A notification has gone out.
    void noteSent(Operation op) {
        if (alone == op) {
            noteGone(op);
        }
    }

    boolean mayRead() {
        return readsOut < READS;
    }

    /// Lets a read wait for its turn.
    void holdRead(Operation op) {
        readQueue.add(op);
    }

    /// A request to read has gone out.
    void readSent() {
        readsOut++;
    }
}
