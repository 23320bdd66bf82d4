package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.Sge;
import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// The sending half of a lane: writes records into the peer's ring, out of a mirror that has the
/// same layout. [#send] and [#flush] are called under the send token; [#credited], [#completed],
/// [#grant], [#tell] and [#hasRoomSince] under the poll token; [#silence] by anybody.
final class RingOutput {
    /// Requests that are posted in one call, at most.
    private static final int BATCH = 64;

    /// The id of messages of credit alone. Those of records are positions.
    private static final long CREDIT_ID = -1;

    private final QueuePair queuePair;
    private final MemorySegment mirror;
    private final int lkey;
    private final long remote;
    private final int rkey;
    private final long requests;
    private final long sges;
    private final long creditRequest;

    // Under the send token.

    /// Where the next record starts.
    private long tail;

    private int batch;

    // Written under the send token, read by all.

    /// The end of the last record that was posted.
    private volatile long posted;

    /// Where the record ends that the lane had no room for, 0 when there was none.
    private volatile long wanted;

    private volatile long owedSince;

    /// How far this side has read its own ring, as the peer was told last. Both halves write it:
    /// what gets lost between them costs a message.
    private volatile long told;

    // Written under the poll token.

    /// How far the peer has read.
    private volatile long credit;

    /// The end of the last record whose request has completed: the device does not read it any
    /// more.
    private volatile long completed;

    private volatile long completedAt;

    /// How far this side has read its own ring and is ready for more.
    private volatile long granted;

    private int creditsOutstanding;

    /// When the oldest message of credit alone was posted that has not completed, or the last that
    /// has; 0 while there is none. Its loss stops the peer as that of a record would.
    private volatile long creditOwedSince;

    /// @param mirror memory of [Ring#BYTES]
    /// @param lkey of the mirror
    /// @param remote address of the peer's ring
    /// @param rkey of the peer's ring
    RingOutput(
            QueuePair queuePair,
            Arena arena,
            MemorySegment mirror,
            int lkey,
            long remote,
            int rkey) {
        this.queuePair = queuePair;
        this.mirror = mirror;
        this.lkey = lkey;
        this.remote = remote;
        this.rkey = rkey;
        this.requests = arena.allocate(SendRequest.BYTES * (BATCH + 1L), 64).address();
        this.creditRequest = requests + (long) SendRequest.BYTES * BATCH;
        this.sges = arena.allocate((long) Sge.BYTES * BATCH, 64).address();
    }

    /// As [Lane#send]: copies all of the frame.
    ///
    /// @throws IllegalStateException when the payload's arena was closed: nothing was taken
    int send(MemorySegment header, long at, MemorySegment payload, long offset, int length) {
        if (queuePair.failure() != null) {
            return Lane.DEAD;
        }
        if (length < 0 || length > Ring.MAX_PAYLOAD) {
            throw new IllegalArgumentException(
                    "a payload of " + length + " bytes; this lane takes 0 to " + Ring.MAX_PAYLOAD);
        }
        int bytes = Lane.HEADER + length;
        int room = Ring.room(bytes);
        long start = Ring.at(tail) + room > Ring.BYTES ? Ring.nextLap(tail) : tail;
        if (start + room - free() > Ring.BYTES) {
            wanted = start + room;
            return Lane.FULL;
        }
        if (wanted != 0) {
            wanted = 0;
        }
        if (batch == BATCH && post() != Lane.OK) {
            return Lane.DEAD;
        }
        int place = Ring.at(start);
        // First what may find its arena closed.
        if (length > 0) {
            MemorySegment.copy(payload, offset, mirror, (long) place + Lane.HEADER, length);
        }
        for (int i = 0; i < Lane.HEADER; i += 8) {
            mirror.set(JAVA_LONG, place + (long) i, header.get(JAVA_LONG_UNALIGNED, at + i));
        }
        add(start, bytes, start != tail);
        tail = start + room;
        return Lane.OK;
    }

    /// Up to where the mirror and the peer's ring are free.
    private long free() {
        return Math.min(credit, completed);
    }

    private void add(long start, int bytes, boolean atStart) {
        int place = Ring.at(start);
        long wr = requests + (long) SendRequest.BYTES * batch;
        long sge = sges + (long) Sge.BYTES * batch;
        long read = granted;
        Sge.set(sge, mirror.address() + place, bytes, lkey);
        SendRequest.set(
                wr,
                start + Ring.room(bytes),
                SendRequest.IBV_WR_RDMA_WRITE_WITH_IMM,
                bytes <= queuePair.inline() ? SendRequest.IBV_SEND_INLINE : 0,
                sge,
                1);
        SendRequest.remote(wr, remote + place, rkey);
        SendRequest.immediate(wr, Ring.record(atStart, read));
        if (batch > 0) {
            SendRequest.next(wr - SendRequest.BYTES, wr);
        }
        batch++;
        told = read;
    }

    int flush() {
        return queuePair.failure() != null ? Lane.DEAD : batch == 0 ? Lane.OK : post();
    }

    /// Posts the batch; its last request tells when all have completed.
    private int post() {
        long last = requests + (long) SendRequest.BYTES * (batch - 1);
        SendRequest.addFlags(last, SendRequest.IBV_SEND_SIGNALED);
        batch = 0;
        if (posted == completed) {
            owedSince = System.nanoTime();
        }
        posted = tail; // before anything can come back
        return posted(queuePair.postSend(requests)) ? Lane.OK : Lane.DEAD;
    }

    private boolean posted(int error) {
        if (error != 0) {
            queuePair.fail("ibv_post_send failed: " + Errno.describe(error));
        }
        return error == 0;
    }

    // --- under the poll token -------------------------------------------------------------------

    /// An immediate value tells how far the peer has read.
    void credited(int immediate) {
        long read = Ring.read(immediate, credit);
        if (read > posted) {
            queuePair.fail(
                    "protocol: the peer claims to have read up to %d of %d bytes"
                            .formatted(read, posted));
        } else if (read > credit) {
            credit = read; // an older one has been overtaken by another thread's
        }
    }

    /// A request has completed.
    void completed(long id) {
        if (id == CREDIT_ID) {
            creditOwedSince = --creditsOutstanding == 0 ? 0 : System.nanoTime();
        } else {
            completedAt = System.nanoTime();
            completed = id;
        }
    }

    /// This side has read its ring so far and is ready for more.
    void grant(long position) {
        granted = position;
    }

    /// Tells the peer how far this side has read, where nothing else has told it.
    void tell() {
        long read = granted;
        if (read - told < Ring.TELL || creditsOutstanding == RingPair.CREDITS) {
            return;
        }
        SendRequest.set(
                creditRequest,
                CREDIT_ID,
                SendRequest.IBV_WR_RDMA_WRITE_WITH_IMM,
                SendRequest.IBV_SEND_SIGNALED,
                0,
                0);
        SendRequest.remote(creditRequest, remote, rkey);
        SendRequest.immediate(creditRequest, Ring.creditOnly(read));
        told = read;
        if (creditsOutstanding++ == 0) {
            creditOwedSince = System.nanoTime();
        }
        boolean unused = posted(queuePair.postSend(creditRequest));
    }

    /// Whether the room that was missing has come to be.
    boolean hasRoomSince() {
        long end = wanted;
        return end != 0 && end - free() <= Ring.BYTES;
    }

    /// Whether requests of records have not completed.
    boolean isOwed() {
        return posted != completed;
    }

    /// @return nanoseconds since a request was posted that has not completed, or since the last
    ///     that has, whichever is shorter; 0 when nothing is owed
    long silence() {
        long now = System.nanoTime();
        long since = creditOwedSince;
        long credits = since == 0 ? 0 : now - since;
        long records = isOwed() ? Math.min(now - owedSince, now - completedAt) : 0;
        return Math.max(0, Math.max(credits, records));
    }
}
