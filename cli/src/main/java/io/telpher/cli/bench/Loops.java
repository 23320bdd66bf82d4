package io.telpher.cli.bench;

import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/// The measured loops. They allocate nothing, and read the clock no more than they are asked to.
final class Loops {
    /// Different words that a ping-pong stores: its operations in flight.
    static final int BEATS = 4;

    private Loops() {}

    /// One operation after the other, each waited for.
    ///
    /// @param out its first slot is used
    /// @param count most operations
    /// @param endNanos when to stop
    /// @param group operations that are timed together
    /// @param times gets picoseconds per operation
    /// @return operations done
    static long oneByOne(Flight out, long count, long endNanos, int group, Histogram times) {
        long done = 0;
        long before = System.nanoTime();
        while (done < count) {
            for (int i = 0; i < group; i++) {
                out.postSurely(0);
                out.finish(0);
            }
            done += group;
            long now = System.nanoTime();
            times.recordValue((now - before) * 1000 / group);
            if (now - endNanos >= 0) {
                break;
            }
            before = now;
        }
        return done;
    }

    /// Posts as long as the flight has room, and takes what arrives.
    ///
    /// Each slot is used once, however late it is: a rank that had no core until the end would
    /// leave targets that it never wrote to, and the checks would call those wrong.
    ///
    /// @param out what this rank initiates, or null
    /// @param in what arrives here, or null
    /// @param count operations to initiate
    /// @param expected messages to take
    /// @param endNanos when to stop posting
    /// @param mask operations whose number has one of these bits are not timed
    /// @param times gets picoseconds from posting until done, or null
    /// @return operations initiated
    static long stream(
            @Nullable Flight out,
            @Nullable Inbox in,
            long count,
            long expected,
            long endNanos,
            int mask,
            Histogram times) {
        long posted = 0;
        long ended = 0;
        long arrived = 0;
        long limit = out == null ? 0 : count;
        int size = out == null ? 0 : out.size();
        int head = 0;
        int tail = 0;
        if (in != null) {
            in.open(expected);
        }
        while (ended < limit || arrived < expected) {
            if (out != null) {
                int room = size; // so that a round ends even if everything is done at once
                while (posted < limit && posted - ended < size && room-- > 0) {
                    if ((posted & mask) == 0) {
                        long now = System.nanoTime();
                        if (now - endNanos >= 0 && posted >= size) {
                            limit = posted;
                            break;
                        }
                        out.postedAt[head] = now;
                    }
                    if (!out.post(head)) {
                        break;
                    }
                    posted++;
                    head = head + 1 == size ? 0 : head + 1;
                }
                while (ended < posted && out.poll(tail)) {
                    if ((ended & mask) == 0) {
                        times.recordValue((System.nanoTime() - out.postedAt[tail]) * 1000);
                    }
                    ended++;
                    tail = tail + 1 == size ? 0 : tail + 1;
                }
            }
            if (in != null && arrived < expected) {
                arrived += in.take();
            } else if (out != null && posted - ended == size) {
                out.idle();
            }
        }
        if (arrived > expected) {
            throw new BenchFailure(
                    "%d messages arrived where %d were sent".formatted(arrived, expected));
        }
        return ended;
    }

    /// Posts all that may be in flight as one list, and waits until all of it have ended.
    ///
    /// @param count operations to initiate at least
    /// @param endNanos when to post no more
    /// @param times gets picoseconds from posting a list until the last of it is done
    /// @return operations initiated
    static long lists(Flight out, long count, long endNanos, Histogram times) {
        long done = 0;
        long before = System.nanoTime();
        do {
            out.postAll();
            finishAll(out);
            done += out.size();
            long now = System.nanoTime();
            times.recordValue((now - before) * 1000);
            before = now;
        } while (done < count && before - endNanos < 0);
        return done;
    }

    /// Sends a message, waits for the answer, again and again.
    ///
    /// @param times gets picoseconds one way: half of the time until the answer
    static void ping(Flight out, Inbox in, long count, int group, Histogram times) {
        in.open(count);
        int slot = 0;
        int grouped = 0;
        long before = System.nanoTime();
        for (long i = 0; i < count; i++) {
            int next = slot + 1 == BEATS ? 0 : slot + 1;
            out.postSurely(slot);
            out.finish(next); // while the answer is on its way
            in.awaitNext(slot + 1);
            slot = next;
            if (++grouped == group) {
                long now = System.nanoTime();
                times.recordValue((now - before) * 500 / group);
                grouped = 0;
                before = now;
            }
        }
        finishAll(out);
    }

    /// Answers each message with one.
    static void pong(Flight out, Inbox in, long count) {
        in.open(count);
        int slot = 0;
        for (long i = 0; i < count; i++) {
            int next = slot + 1 == BEATS ? 0 : slot + 1;
            in.awaitNext(slot + 1);
            out.postSurely(slot);
            out.finish(next);
            slot = next;
        }
        finishAll(out);
    }

    private static void finishAll(Flight out) {
        for (int slot = 0; slot < out.size(); slot++) {
            out.finish(slot);
        }
    }
}
