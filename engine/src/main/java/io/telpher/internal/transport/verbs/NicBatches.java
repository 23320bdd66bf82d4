package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.Sge;
import java.lang.foreign.Arena;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// What one [NicQueue] has under way: batches of requests, each a linked list whose last request is
/// signalled and whose number is the id that its completion brings. Numbers count up, and batches
/// complete in their order. The requests stay as they were posted until their batch is removed, so
/// that they can be posted once more.
///
/// Guarded by the queue. Allocates nothing after it was made.
final class NicBatches {
    /// Requests in the send queue, and so completions to come at most.
    static final int REQUESTS = 1024;

    /// Bytes that a request carries by itself, where the device can: what is so short need not be
    /// fetched.
    static final int INLINE = 128;

    /// Bytes of a batch: how long the link is silent at most while all is well.
    static final int BYTES = 512 << 10;

    /// Requests of a batch.
    private static final int LENGTH = 128;

    private static final int BATCHES = 256;

    /// The batch ends with the last write of its work, behind which a read has to come.
    private static final int OWING = -1;

    /// Bytes that are under way at most: enough for the links that there are, and no more, since
    /// nothing passes them.
    private static final long WINDOW_BYTES = 8 << 20;

    private final long requests;
    private final long sges;
    private final long inlined;

    /// Whose memory at the peer each request names, by its number modulo theirs.
    private final @Nullable VerbsWindow[] windows = new VerbsWindow[REQUESTS];

    // By a batch's number modulo theirs. A batch whose work wants nothing of it any more has none.
    private final @Nullable NicWork[] works = new NicWork[BATCHES];
    private final long[] firstRequests = new long[BATCHES];
    private final int[] lengths = new int[BATCHES];
    private final int[] sizes = new int[BATCHES];

    /// Writes that the read at its end covers, 0 where there is none; or [#OWING].
    private final int[] covers = new int[BATCHES];

    /// What follows writes.
    private final NicReads reads;

    private long first;
    private long end;
    private long firstRequest;
    private long endRequest;
    private long bytes;

    /// @param arena for the requests and what they carry by themselves
    /// @param reads what follows writes; the queue's own
    NicBatches(Arena arena, NicReads reads) {
        this.reads = reads;
        this.requests = arena.allocate((long) SendRequest.BYTES * REQUESTS, 64).address();
        this.sges = arena.allocate((long) Sge.BYTES * REQUESTS, 64).address();
        this.inlined = arena.allocate((long) INLINE * REQUESTS, 64).address();
    }

    /// @return number of the oldest batch
    long first() {
        return first;
    }

    /// @return number of the next batch
    long end() {
        return end;
    }

    boolean isEmpty() {
        return first == end;
    }

    boolean contains(long batch) {
        return batch >= first && batch < end;
    }

    boolean hasRoom() {
        return end - first < BATCHES
                && endRequest - firstRequest < REQUESTS - 1 // one may follow
                && bytes < WINDOW_BYTES;
    }

    /// @return whose batch it is, or null when nobody wants it any more
    @Nullable NicWork work(long batch) {
        return works[place(batch)];
    }

    /// @return address of a batch's first request
    long address(long batch) {
        return request(firstRequests[place(batch)]);
    }

    /// Cuts the next batch from work. There is room.
    ///
    /// @param inline bytes that the queue pair lets a request carry by itself
    /// @return whether there is one: not when the work is exhausted or has failed
    boolean add(NicWork work, int inline) {
        int most = (int) Math.min(LENGTH, REQUESTS - 1 - (endRequest - firstRequest));
        int count = 0;
        int size = 0;
        long last = 0;
        while (count < most && size < BYTES) {
            int n = work.cut(BYTES - size);
            if (n == 0 || !write(work, endRequest + count, n, inline)) {
                break;
            }
            long wr = request(endRequest + count);
            if (last != 0) {
                SendRequest.next(last, wr);
            }
            last = wr;
            count++;
            size += n;
        }
        if (last == 0) {
            return false;
        }
        int covered = 0;
        if (reads.word() != null && !work.read && work.exhausted && !work.hasFailed()) {
            covered = OWING;
            if (reads.written(work)) {
                long wr = request(endRequest + count);
                SendRequest.next(last, wr);
                covered = read(endRequest + count);
                last = wr;
                count++;
            }
        }
        append(work, last, count, size, covered);
        return true;
    }

    /// Adds a batch that is nothing but the read that is due. There is room.
    ///
    /// @param work whose write it follows
    void addRead(NicWork work) {
        int covered = read(endRequest);
        append(work, request(endRequest), 1, 0, covered);
    }

    private void append(NicWork work, long last, int count, int size, int covered) {
        SendRequest.addFlags(last, SendRequest.IBV_SEND_SIGNALED);
        int place = place(end);
        works[place] = work;
        firstRequests[place] = endRequest;
        lengths[place] = count;
        sizes[place] = size;
        covers[place] = covered;
        end++;
        endRequest += count;
        bytes += size;
    }

    /// Writes the request that reads the peer's flush word.
    ///
    /// @return how many writes it covers
    private int read(long number) {
        FlushWord.Read word = Objects.requireNonNull(reads.word());
        long sge = sges + (long) Sge.BYTES * slot(number);
        Sge.set(sge, word.localAddress(), FlushWord.BYTES, word.localKey());
        SendRequest.set(request(number), end, SendRequest.IBV_WR_RDMA_READ, 0, sge, 1);
        SendRequest.remote(request(number), word.remoteAddress(), word.remoteKey());
        windows[slot(number)] = null;
        return reads.covering();
    }

    /// Writes the request for the range that was cut.
    ///
    /// @return false when its bytes could not be read: the work has failed
    private boolean write(NicWork work, long number, int n, int inline) {
        long wr = request(number);
        long sge = sges + (long) Sge.BYTES * slot(number);
        boolean carried = !work.read && n <= Math.min(inline, INLINE);
        if (carried) {
            // By the library otherwise, which cannot tell when the memory is gone.
            long copy = inlined + (long) INLINE * slot(number);
            if (!work.copyTo(copy)) {
                return false;
            }
            Sge.set(sge, copy, n, 0);
        } else {
            Sge.set(sge, work.localAddress(), n, work.localKey());
        }
        int opcode = work.read ? SendRequest.IBV_WR_RDMA_READ : SendRequest.IBV_WR_RDMA_WRITE;
        SendRequest.set(wr, end, opcode, carried ? SendRequest.IBV_SEND_INLINE : 0, sge, 1);
        SendRequest.remote(wr, work.remoteAddress(), work.remoteKey());
        windows[slot(number)] = work.window();
        return true;
    }

    /// @return whether a region that the batch names was closed at the peer: its keys may be those
    ///     of another one by now
    boolean isStale(long batch) {
        int place = place(batch);
        for (int i = 0; i < lengths[place]; i++) {
            VerbsWindow window = windows[slot(firstRequests[place] + i)];
            if (window != null && window.isClosed()) {
                return true;
            }
        }
        return false;
    }

    /// Nobody wants a batch any more; its place stays taken until [#removeFirst].
    void disown(long batch) {
        works[place(batch)] = null;
        covers[place(batch)] = 0;
    }

    /// @return how many writes the read at the end of a batch covers, 0 where there is none
    int covers(long batch) {
        return Math.max(covers[place(batch)], 0);
    }

    /// @return whether a batch ends a write that is not known to be in memory when it completes
    boolean isOwing(long batch) {
        return covers[place(batch)] == OWING;
    }

    /// Counts what follows the writes of a batch that is posted once more.
    void countAgain(long batch, NicWork work) {
        int place = place(batch);
        if (covers[place] != 0) {
            boolean unused = reads.written(work);
            if (covers[place] != OWING) {
                covers[place] = reads.covering();
            }
        }
    }

    /// Removes the oldest batch.
    ///
    /// @return whose it was, or null
    @Nullable NicWork removeFirst() {
        int place = place(first);
        NicWork work = works[place];
        works[place] = null;
        first++;
        firstRequest += lengths[place];
        bytes -= sizes[place];
        return work;
    }

    /// Numbers are never negative, and there are powers of two of both: no division.
    private static int place(long batch) {
        return (int) batch & BATCHES - 1;
    }

    private static int slot(long number) {
        return (int) number & REQUESTS - 1;
    }

    private long request(long number) {
        return requests + (long) SendRequest.BYTES * slot(number);
    }
}
