package io.telpher.cli.bench;

import io.telpher.Connection;
import io.telpher.TelpherException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// Messages that arrive at this rank from one or more others, whatever they are: tagged messages
/// into posted receives, notifications, or words in its own memory. Allocates nothing. Used by one
/// thread.
final class Inbox {
    private static final VarHandle WORD = ValueLayout.JAVA_LONG.varHandle();

    private static final long PATIENCE_NANOS = 40_000_000_000L;

    private final Op op;
    private final Connection[] connections;
    private final @Nullable Flight receives;
    private final MemorySegment words;
    private final long[] offsets;
    private final long[] seen;
    private final MemorySegment[][] payloads;

    /// Where the next payload of each connection goes.
    private final int[] places;

    private final int polls;
    private final Pause pause;
    private long expected;
    private long posted;
    private int head;
    private int tail;
    private int turn;
    private long taken;
    private int idle;
    private long idleSince;

    private Inbox(
            Op op,
            Connection[] connections,
            @Nullable Flight receives,
            MemorySegment words,
            long[] offsets,
            MemorySegment[][] payloads,
            int polls,
            Pause pause) {
        this.pause = pause;
        this.op = op;
        this.connections = connections;
        this.receives = receives;
        this.words = words;
        this.payloads = payloads;
        this.places = new int[payloads.length];
        this.offsets = offsets;
        this.seen = new long[offsets.length];
        this.polls = polls;
    }

    /// For tagged messages.
    ///
    /// @param receives slots of kind [Flight.Kind#RECEIVE], in the order in which messages are
    ///     waited for
    static Inbox ofReceives(Connection[] connections, Flight receives, Pause pause) {
        return new Inbox(
                Op.SEND,
                connections,
                receives,
                MemorySegment.NULL,
                new long[0],
                new MemorySegment[0][],
                1,
                pause);
    }

    /// For notifications.
    ///
    /// @param payloads where those of each connection go, in turn
    static Inbox ofNotifications(
            Connection[] connections, MemorySegment[][] payloads, Pause pause) {
        return new Inbox(
                Op.NOTIFY, connections, null, MemorySegment.NULL, new long[0], payloads, 1, pause);
    }

    /// For words.
    ///
    /// @param words the memory that holds them
    /// @param offsets one word for each connection
    /// @param polls how often words are read before the engine is asked to make progress
    static Inbox ofWords(
            Connection[] connections, MemorySegment words, long[] offsets, int polls, Pause pause) {
        return new Inbox(
                Op.COUNTER,
                connections,
                null,
                words,
                offsets,
                new MemorySegment[0][],
                polls,
                pause);
    }

    /// Starts a phase: posts the first receives.
    ///
    /// @param messages how many will come
    void open(long messages) {
        expected = messages;
        posted = 0;
        refill();
    }

    private void refill() {
        Flight flight = receives;
        if (flight == null) {
            return;
        }
        while (posted < expected && posted - taken < flight.size()) {
            if (!flight.post(head)) {
                return;
            }
            posted++;
            head = head + 1 == flight.size() ? 0 : head + 1;
        }
    }

    /// Makes progress.
    ///
    /// @return how many messages have arrived since the last call
    long take() {
        long count =
                switch (op) {
                    case SEND -> takeReceives();
                    case NOTIFY -> takeNotifications();
                    default -> takeWords();
                };
        if (count == 0) {
            idle();
        } else {
            idle = 0;
        }
        return count;
    }

    private long takeReceives() {
        Flight flight = receives;
        long before = taken;
        if (flight != null) {
            while (taken < posted && flight.poll(tail)) {
                taken++;
                tail = tail + 1 == flight.size() ? 0 : tail + 1;
            }
            refill();
        }
        return taken - before;
    }

    /// Looks no further than the message that is waited for: the answer comes first.
    private long takeOne() {
        Flight flight = receives;
        if (flight == null) {
            return takeNotifications();
        }
        if (!flight.poll(tail)) {
            return 0;
        }
        taken++;
        tail = tail + 1 == flight.size() ? 0 : tail + 1;
        return 1;
    }

    private long takeNotifications() {
        long count = 0;
        for (int i = 0; i < connections.length; i++) {
            MemorySegment[] mine = payloads[i];
            int place = places[i];
            if (connections[i].pollNotification(mine[place]) >= 0) {
                places[i] = place + 1 == mine.length ? 0 : place + 1;
                count++;
            }
        }
        return count;
    }

    private long takeWords() {
        long count = 0;
        for (int i = 0; i < offsets.length; i++) {
            long value = (long) WORD.getAcquire(words, offsets[i]);
            count += value - seen[i];
            seen[i] = value;
        }
        if (count == 0 && ++turn >= polls) {
            turn = 0;
            for (Connection connection : connections) {
                connection.poll();
            }
        }
        return count;
    }

    /// Called after a look that found nothing.
    ///
    /// @throws BenchFailure when a connection ended, or nothing came for [#PATIENCE_NANOS]
    private void idle() {
        pause.now();
        if ((++idle & 0xFFFF) != 0) {
            return;
        }
        for (Connection connection : connections) {
            if (!connection.isOpen()) {
                TelpherException failure = connection.failure();
                throw new BenchFailure(
                        "the connection ended while messages were awaited: "
                                + (failure == null ? "closed" : failure.getMessage()));
            }
        }
        long now = System.nanoTime();
        if (idle == 0x10000) {
            idleSince = now;
        } else if (now - idleSince > PATIENCE_NANOS) {
            throw new BenchFailure(
                    "no message (%s) has arrived for %d s"
                            .formatted(op.word(), PATIENCE_NANOS / 1_000_000_000));
        }
    }

    /// Waits for the next message of a ping-pong.
    ///
    /// @param word what a counter's word will hold
    void awaitNext(long word) {
        if (op != Op.COUNTER) {
            refill(); // now that the answer to the last one is out
            while (takeOne() == 0) {
                idle();
            }
            idle = 0;
            return;
        }
        while ((long) WORD.getAcquire(words, offsets[0]) != word) {
            idle();
            if (++turn >= polls) {
                turn = 0;
                connections[0].poll();
            }
        }
        idle = 0;
    }
}
