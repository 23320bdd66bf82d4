package io.telpher.sim;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// One direction of a stream: a bounded number of bytes on the way from its writer to its reader,
/// in order. What the writer learns of the reader takes time as well.
final class Pipe {
    /// @param due when it arrives
    /// @param bytes the bytes; none for the end of the stream
    private record Piece(long due, byte[] bytes) {}

    /// Most of a stall's time after its end until a sender tries again.
    private static final int RETRY_NANOS = 30_000_000;

    private final Stream stream;
    private final StreamEnd writer;
    private final StreamEnd reader;
    private final ArrayDeque<Piece> network = new ArrayDeque<>();
    private final ArrayDeque<byte[]> inbox = new ArrayDeque<>();

    /// What the writer would have been told while the link was down.
    private final ArrayDeque<Runnable> heldBack = new ArrayDeque<>();

    private int inboxAt;
    private int unread;

    /// Bytes written that the writer does not know to be read.
    private int occupied;

    private long sent;
    private long acknowledged;
    private long heardAt;
    private long lastDue;
    private long stalledSince;
    private long stalledUntil;
    private boolean endArrived;
    private boolean broken;

    Pipe(Stream stream, StreamEnd writer, StreamEnd reader) {
        this.stream = stream;
        this.writer = writer;
        this.reader = reader;
    }

    private Scheduler scheduler() {
        return stream.scheduler();
    }

    // --- the writer's side ----------------------------------------------------------------------

    int room() {
        return stream.link().options().buffer() - occupied;
    }

    /// Takes as many bytes as there is room for.
    int write(MemorySegment from, long at, int length) {
        int n = Math.min(length, room());
        if (n <= 0) {
            return 0;
        }
        byte[] bytes = new byte[n];
        MemorySegment.copy(from, ValueLayout.JAVA_BYTE, at, bytes, 0, n);
        if (n > 1 && scheduler().random.nextInt(16) == 0) {
            int cut = scheduler().random.nextInt(1, n);
            transmit(Arrays.copyOf(bytes, cut));
            transmit(Arrays.copyOfRange(bytes, cut, n));
        } else {
            transmit(bytes);
        }
        return n;
    }

    private void transmit(byte[] bytes) {
        if (sent == acknowledged) {
            heardAt = scheduler().now();
        }
        occupied += bytes.length;
        sent += bytes.length;
        put(bytes);
    }

    /// Nothing more will be written.
    void end() {
        put(new byte[0]);
    }

    private void put(byte[] bytes) {
        lastDue = Math.max(lastDue, stream.link().due(writer.side(), bytes.length));
        network.addLast(new Piece(lastDue, bytes));
        scheduler().at(lastDue, this::arrive);
    }

    /// Nanoseconds since the far side last acknowledged anything that it owed, 0 when nothing is
    /// owed. Keep-alive sees to it that something is, also on an idle link.
    long silence() {
        long now = scheduler().now();
        long since = Math.min(stream.link().cutSince(), reader.vanishedSince());
        if (now < stalledUntil) {
            since = Math.min(since, stalledSince);
        }
        if (sent != acknowledged) {
            since = Math.min(since, heardAt);
        }
        return Math.max(0, now - since);
    }

    // --- the network ----------------------------------------------------------------------------

    private boolean isHeldUp() {
        return stream.link().isHeldUp() || scheduler().now() < stalledUntil || reader.isVanished();
    }

    /// Nothing passes until a moment.
    void stall(long until) {
        if (scheduler().now() >= stalledUntil) {
            stalledSince = scheduler().now();
        }
        stalledUntil = Math.max(stalledUntil, until);
        scheduler().at(stalledUntil, this::goOn);
    }

    /// The link carries again, perhaps.
    void goOn() {
        if (!isHeldUp()) {
            scheduler().in(scheduler().random.nextInt(RETRY_NANOS), this::retry);
        }
    }

    private void retry() {
        if (isHeldUp()) {
            return;
        }
        Runnable told;
        while ((told = heldBack.pollFirst()) != null) {
            told.run();
        }
        arrive();
    }

    private void arrive() {
        if (broken || isHeldUp()) {
            return; // goes on when the link does
        }
        long now = scheduler().now();
        boolean came = false;
        Piece next;
        while ((next = network.peekFirst()) != null && next.due <= now) {
            network.removeFirst();
            int n = next.bytes.length;
            if (n == 0) {
                endArrived = true;
            } else if (reader.isClosed()) {
                back(() -> writer.fail("the peer's end was closed"));
                return;
            } else {
                inbox.addLast(next.bytes);
                unread += n;
                back(() -> acknowledge(n));
            }
            came = true;
        }
        if (came) {
            reader.changed();
        }
    }

    /// Tells the writer something, which takes its time.
    private void back(Runnable told) {
        scheduler()
                .in(
                        stream.link().latencyNow(),
                        () -> {
                            if (isHeldUp()) {
                                heldBack.addLast(told);
                            } else {
                                told.run();
                            }
                        });
    }

    private void acknowledge(int n) {
        acknowledged += n;
        heardAt = scheduler().now();
    }

    /// What is under way is lost.
    void breakUp(boolean unreadToo) {
        broken = true;
        network.clear();
        if (unreadToo) {
            inbox.clear();
            unread = 0;
            inboxAt = 0;
        }
    }

    // --- the reader's side ----------------------------------------------------------------------

    int available() {
        return unread;
    }

    boolean isAtEnd() {
        return endArrived && unread == 0;
    }

    /// Reads from the first piece that is there, at most `length` bytes.
    ///
    /// @param to where they go, or null to throw them away
    /// @return how many, 0 when nothing is there
    /// @throws IllegalStateException when the memory was closed: nothing was read
    int read(@Nullable MemorySegment to, long at, int length) {
        byte[] first = inbox.peekFirst();
        if (first == null || length == 0) {
            return 0;
        }
        int n = Math.min(length, first.length - inboxAt);
        if (to != null) {
            MemorySegment.copy(first, inboxAt, to, ValueLayout.JAVA_BYTE, at, n);
        }
        inboxAt += n;
        unread -= n;
        if (inboxAt == first.length) {
            inbox.removeFirst();
            inboxAt = 0;
        }
        back(
                () -> {
                    occupied -= n;
                    writer.changed();
                });
        return n;
    }
}
