package io.telpher.sim;

import io.telpher.Connection;
import io.telpher.RemoteQuiet;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// The operations of a random run, and what must be true of each.
final class Ops {
    /// What memory holds that an operation must not touch any more.
    static final byte SPENT = (byte) 0xEE;

    /// So long nothing takes by itself.
    static final long UNHURRIED = Duration.ofMillis(500).toNanos();

    private Ops() {}

    enum Kind {
        WRITE,
        READ,
        SEND,
        RECEIVE,
        NOTIFY
    }

    /// The right value of a byte: never 0, never [#SPENT].
    static byte pattern(long id, long at) {
        return (byte) ((id * 131 + at * 7 + (at >>> 9)) % 127 + 1);
    }

    static void fill(MemorySegment memory, long at, long length, long id) {
        for (long i = 0; i < length; i++) {
            memory.set(ValueLayout.JAVA_BYTE, at + i, pattern(id, i));
        }
    }

    /// @return the first byte that is not right, or -1
    static long wrong(MemorySegment memory, long at, long length, long id) {
        for (long i = 0; i < length; i++) {
            if (memory.get(ValueLayout.JAVA_BYTE, at + i) != pattern(id, i)) {
                return i;
            }
        }
        return -1;
    }

    /// One operation.
    static final class Op {
        final RandomRun run;
        final RandomRun.Side side;
        final long id;
        final Kind kind;
        final long length;

        /// Local memory; null for notifications.
        @Nullable Area local;

        long localAt;

        /// The peer's memory of one-sided operations.
        @Nullable Area target;

        long targetAt;
        long tag;

        /// Which receive or send of its tag it is.
        int position;

        /// Length of its notification, -1 without one.
        int note = -1;

        boolean noteSeen;

        /// Its notification comes in the order of its kind.
        boolean ordered;

        /// Where the counter is in the target, -1 without one.
        long counterAt = -1;

        long postedAt;
        long deadline;

        /// When it was over, however late its program has looked.
        long endedAt;
        @Nullable Transfer transfer;

        /// Token of an operation that was posted in that style.
        long token;

        @Nullable Connection on;
        int ends;
        @Nullable TransferState state;
        RemoteQuiet quiet = RemoteQuiet.UNKNOWN;
        byte @Nullable [] targetAtEnd;

        /// Its local memory was overwritten when it had ended.
        boolean spent;

        /// The same transfer's posting before this one.
        @Nullable Op before;

        /// The transfer was posted again: what its memory holds is the next posting's.
        boolean posted;

        /// It names memory that was closed before.
        boolean hopeless;

        Op(RandomRun run, RandomRun.Side side, long id, Kind kind, long length) {
            this.run = run;
            this.side = side;
            this.id = id;
            this.kind = kind;
            this.length = length;
        }

        /// Whether its transfer may be posted again: nothing of it is under way any more, and its
        /// memory is there.
        boolean mayGoAgain() {
            Area own = local;
            Area to = target;
            return state == TransferState.DONE
                    && transfer != null
                    && kind != Kind.NOTIFY
                    && note < 0
                    && counterAt < 0
                    && !posted
                    && own != null
                    && side.areas.contains(own)
                    && (to == null || side.other().areas.contains(to));
        }

        /// Makes this the next posting of the same transfer.
        void follow(Op earlier) {
            before = earlier;
            earlier.posted = true;
            local = earlier.local;
            localAt = earlier.localAt;
            target = earlier.target;
            targetAt = earlier.targetAt;
            tag = earlier.tag;
            deadline = earlier.deadline;
        }

        /// Whether a byte of its target was right for it or for an earlier posting.
        private boolean isFrom(byte value, long at) {
            for (Op op = this; op != null; op = op.before) {
                if (value == pattern(op.id, at)) {
                    return true;
                }
            }
            return false;
        }

        /// It has ended: everything that can be checked now.
        void ended(TransferState how, RemoteQuiet remote, long moved) {
            ends++;
            state = how;
            quiet = remote;
            if (ends > 1) {
                run.violated(this + " ended " + ends + " times");
            }
            if (!how.isTerminal()) {
                run.violated(this + " was called back while " + how);
            }
            run.simulation.log(side.name, this + ", " + remote);
            long now = run.simulation.scheduler.now();
            endedAt = Math.min(now, postedAt + deadline);
            long most =
                    deadline
                            + run.drainNanos
                            + run.latenessNanos
                            + run.disturbedNanos(side)
                            // Who closes an area does not poll its tokens meanwhile.
                            + (token == 0 ? 0 : side.closingNanos);
            if (now - postedAt > most) {
                run.violated(
                        "%s ended after %d ms, its deadline is %d ms"
                                .formatted(
                                        this, (now - postedAt) / 1_000_000, deadline / 1_000_000));
            }
            if (run.isCalm()
                    && how == TransferState.TIMED_OUT
                    && deadline >= UNHURRIED
                    && (note < 0 || run.takesAtOnce())
                    && kind != Kind.SEND
                    && kind != Kind.RECEIVE) {
                run.violated(this + " stood still until its deadline, with nothing in its way");
            }
            boolean done = how == TransferState.DONE;
            if (done && hopeless) {
                run.violated(this + " is DONE, but its target was closed before");
            }
            Area to = target;
            Area own = local;
            switch (kind) {
                case WRITE -> {
                    if (done && to != null) {
                        checkTarget("at its end");
                    } else if (to != null && remote == RemoteQuiet.YES) {
                        targetAtEnd =
                                to.memory.asSlice(targetAt, length).toArray(ValueLayout.JAVA_BYTE);
                    }
                }
                case READ -> {
                    if (done && own != null && to != null) {
                        long at = wrong(own.memory, localAt, length, id);
                        if (at >= 0) {
                            run.violated(this + " is DONE, but byte " + at + " is wrong");
                        }
                    }
                }
                case RECEIVE -> {
                    if (done && own != null) {
                        run.arrivals.received(this, moved);
                    }
                }
                default -> {}
            }
            if (own != null && !own.isClosed()) {
                // From now on nobody may read or write it.
                own.memory.asSlice(localAt, length).fill(SPENT);
                spent = true;
            }
        }

        void checkTarget(String when) {
            Area to = target;
            if (to == null) {
                return;
            }
            long at = wrong(to.memory, targetAt, length, id);
            if (at >= 0) {
                run.violated("%s: byte %d is wrong %s".formatted(this, at, when));
            }
            if (counterAt >= 0 && to.memory.get(ValueLayout.JAVA_LONG, counterAt) != id) {
                run.violated(this + ": its counter is wrong " + when);
            }
        }

        /// What must hold when everything has come to rest.
        void checkAtRest() {
            Area to = target;
            Area own = local;
            if (state == null) {
                if (!side.dead) {
                    run.violated(this + " has not ended");
                }
                return;
            }
            if (posted) {
                return; // its bytes are the next posting's
            }
            if (kind == Kind.WRITE && to != null) {
                if (state == TransferState.DONE) {
                    checkTarget("in the end");
                }
                byte[] then = targetAtEnd;
                if (then != null
                        && MemorySegment.ofArray(then).mismatch(to.memory.asSlice(targetAt, length))
                                >= 0) {
                    run.violated(this + " wrote after it had ended with remoteQuiet YES");
                }
                for (long i = 0; i < length; i++) {
                    byte now = to.memory.get(ValueLayout.JAVA_BYTE, targetAt + i);
                    if (now != 0 && !isFrom(now, i)) {
                        run.violated("%s: byte %d is neither old nor new".formatted(this, i));
                        break;
                    }
                }
                if (counterAt >= 0) {
                    long count = to.memory.get(ValueLayout.JAVA_LONG, counterAt);
                    if (count != 0 && count != id) {
                        run.violated(this + ": its counter was raised more than once");
                    }
                }
            }
            boolean late = run.windows && quiet == RemoteQuiet.UNKNOWN;
            if ((kind == Kind.READ || kind == Kind.RECEIVE) && own != null && spent && !late) {
                for (long i = 0; i < length; i++) {
                    if (own.memory.get(ValueLayout.JAVA_BYTE, localAt + i) != SPENT) {
                        run.violated("%s: byte %d was written after its end".formatted(this, i));
                        break;
                    }
                }
            }
            if (state == TransferState.DONE && note >= 0 && !noteSeen && side.other().drained) {
                run.violated(this + " is DONE, but its notification never came");
            }
        }

        @Override
        public String toString() {
            return "%s %d of %d bytes by %s%s%s%s"
                    .formatted(
                            kind,
                            id,
                            length,
                            side.name,
                            kind == Kind.SEND || kind == Kind.RECEIVE
                                    ? " tag " + tag + " number " + position
                                    : "",
                            note >= 0 ? " with a note of " + note : "",
                            state == null ? "" : ", " + state);
        }
    }
}
