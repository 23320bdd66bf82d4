package io.telpher.internal.device.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.ffi.cuda.KernelArguments;
import io.telpher.internal.memory.Raw;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Jobs that go out together, and the tables that a kernel reads of them. Used again and again;
/// grows, never shrinks.
///
/// ```text
/// parameters of a kernel (kernels.cu has the same):
///   0 pieces*   8 index*   16 updates*   24 total   32 share   40 flag*   48 sequence
///   56 arrived*   64 piece count (4)   68 update count (4)   72 spare
///   96 updates, 16 of 24 bytes: address, add (1) or set (0), value
/// 480 pieces, 32 bytes each: to, from, bytes, start (as work)
/// ```
///
/// All of it is page-locked, so that pieces that are too many for a launch's parameters stay
/// where they are. Then an index says which piece lies at each [#GRANULE] of work.
///
/// States: `FREE` until the lane gathers jobs in it; `GATHERING` until it goes out; `FLYING`
/// until the flag has its sequence, or it is over without; `ENDING` while the jobs' owners are
/// told. The queue's lock guards it until then; `ENDING` belongs to the thread that polls.
final class Launch {
    static final int SMALL_PIECES = 8;
    static final int FEW_PIECES = 100;

    /// What a piece takes besides its bytes, as bytes: a warp waits about a microsecond for the
    /// first answer, in which it would else have moved that much.
    static final long OVERHEAD = 1024;

    /// Work between two entries of the index.
    static final long GRANULE = 16384;

    static final int FREE = 0;
    static final int GATHERING = 1;
    static final int FLYING = 2;
    static final int ENDING = 3;

    private static final long HEAD = 96;
    private static final int UPDATE = 24;
    private static final int PARAMETER_UPDATES = 16;
    private static final long PIECES = HEAD + PARAMETER_UPDATES * UPDATE;
    private static final int PIECE = 32;
    private static final long FIRST_BYTES = 8192;

    static final VarHandle LONG = JAVA_LONG.varHandle();
    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(Launch.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final PinnedPool pool;

    /// What it runs on.
    final long stream;

    /// A pinned word that its device sets to `sequence` at the end.
    private final long flag;

    /// A word in device memory with which the blocks of its kernel count themselves.
    private final long arrived;

    private final KernelArguments arguments = new KernelArguments(Arena.ofAuto(), 1);
    private PinnedPool.Block table;
    private PinnedPool.@Nullable Block index;
    private PinnedPool.@Nullable Block manyUpdates;

    private volatile int state = FREE;
    private int pieces;
    private long bytes;
    private long work;
    private boolean indexed;
    private int updates;
    private int adds;
    private long[] updateWords = new long[3 * PARAMETER_UPDATES];

    private int jobs;
    private CopyQueue.@Nullable Job[] owners = new CopyQueue.Job[16];
    private @Nullable String[] failures = new String[16];
    private int[] pieceEnds = new int[16];
    private int[] updateEnds = new int[16];

    /// Values of the flag; never the same twice.
    private long sequence;

    /// When its stream was asked last, or it was first looked at; 0 before. Of the thread that
    /// polls.
    long askedAt;

    /// Whether its lane has not given all of it to the driver yet.
    volatile boolean issuing;

    /// Whether anything of it was given to the driver.
    boolean started;

    /// Whether no flag was asked for though work is under way: only the stream knows.
    volatile boolean unflagged;

    /// Another stream that has work of it which the flag does not wait for, or 0.
    volatile long straggler;

    /// Whether nothing of it is under way, whatever the flag says. Read by [#isOver] of any
    /// thread that holds the lock or polls.
    volatile boolean over;

    Launch(PinnedPool pool, long flag, long arrived, long stream) {
        this.pool = pool;
        this.flag = flag;
        this.arrived = arrived;
        this.stream = stream;
        this.table = pool.take(FIRST_BYTES);
    }

    int state() {
        return state;
    }

    /// Goes on to a state, with all that was written before: one thread at a time may.
    void state(int next) {
        STATE.setRelease(this, next);
    }

    int pieces() {
        return pieces;
    }

    long bytes() {
        return bytes;
    }

    long work() {
        return work;
    }

    int updates() {
        return updates;
    }

    int adds() {
        return adds;
    }

    int jobs() {
        return jobs;
    }

    // ---- gathering

    /// Makes room, so that [#piece] finds it.
    void reserve(int more, long moreBytes) {
        long needed = PIECES + (pieces + (long) more) * PIECE;
        if (needed > table.bytes()) {
            table = grow(table, PIECES + (long) pieces * PIECE, needed);
        }
        if (pieces + more > FEW_PIECES) {
            long entries = (work + moreBytes + more * OVERHEAD) / GRANULE + 1;
            PinnedPool.Block old = index;
            if (old == null) {
                index = pool.take(entries * Integer.BYTES);
            } else if (entries * Integer.BYTES > old.bytes()) {
                index = grow(old, old.bytes(), entries * Integer.BYTES);
            }
            if (!indexed) {
                indexed = true;
                for (int i = 0; i < pieces; i++) {
                    index(i);
                }
            }
        }
    }

    private PinnedPool.Block grow(PinnedPool.Block block, long used, long needed) {
        PinnedPool.Block larger = pool.take(needed);
        MemorySegment.copy(Raw.ALL, block.address(), Raw.ALL, larger.address(), used);
        pool.give(block);
        return larger;
    }

    /// Adds a copy.
    void piece(long to, long from, long length) {
        if (!hasRoom(length)) {
            reserve(1, length);
        }
        long at = at(pieces);
        Raw.ALL.set(JAVA_LONG, at, to);
        Raw.ALL.set(JAVA_LONG, at + 8, from);
        Raw.ALL.set(JAVA_LONG, at + 16, length);
        Raw.ALL.set(JAVA_LONG, at + 24, work);
        pieces++;
        bytes += length;
        work += OVERHEAD + length;
        if (indexed) {
            index(pieces - 1);
        }
    }

    private boolean hasRoom(long length) {
        PinnedPool.Block entries = index;
        if (PIECES + (pieces + 1L) * PIECE > table.bytes()) {
            return false;
        }
        if (!indexed || entries == null) {
            return pieces < FEW_PIECES;
        }
        long end = work + OVERHEAD + length;
        return (end / GRANULE + 1) * Integer.BYTES <= entries.bytes();
    }

    private void index(int piece) {
        PinnedPool.Block entries = index;
        if (entries == null) {
            throw new AssertionError("no index");
        }
        long begin = Raw.ALL.get(JAVA_LONG, at(piece) + 24);
        long end = begin + OVERHEAD + length(piece);
        for (long k = Math.ceilDiv(begin, GRANULE); k * GRANULE < end; k++) {
            Raw.ALL.set(JAVA_INT, entries.address() + k * Integer.BYTES, piece);
        }
    }

    private long at(int piece) {
        return table.address() + PIECES + (long) piece * PIECE;
    }

    long to(int piece) {
        return Raw.ALL.get(JAVA_LONG, at(piece));
    }

    long from(int piece) {
        return Raw.ALL.get(JAVA_LONG, at(piece) + 8);
    }

    long length(int piece) {
        return Raw.ALL.get(JAVA_LONG, at(piece) + 16);
    }

    /// Adds an update.
    void update(long address, boolean add, long value) {
        if (3 * updates == updateWords.length) {
            updateWords = Arrays.copyOf(updateWords, 2 * updateWords.length);
        }
        putUpdate(updates, address, add ? 1 : 0, value);
        updates++;
        adds += add ? 1 : 0;
    }

    private void putUpdate(int update, long address, long add, long value) {
        updateWords[3 * update] = address;
        updateWords[3 * update + 1] = add;
        updateWords[3 * update + 2] = value;
    }

    long updateAddress(int update) {
        return updateWords[3 * update];
    }

    boolean updateAdds(int update) {
        return updateWords[3 * update + 1] != 0;
    }

    long updateValue(int update) {
        return updateWords[3 * update + 2];
    }

    /// Ends a job: what was added since the last one is its.
    ///
    /// @param failure null, or why nothing of it will be done
    void job(CopyQueue.Job owner, @Nullable String failure) {
        if (jobs == owners.length) {
            owners = Arrays.copyOf(owners, 2 * jobs);
            failures = Arrays.copyOf(failures, 2 * jobs);
            pieceEnds = Arrays.copyOf(pieceEnds, 2 * jobs);
            updateEnds = Arrays.copyOf(updateEnds, 2 * jobs);
        }
        if (failure != null) {
            rollBack();
        }
        owners[jobs] = owner;
        failures[jobs] = failure;
        pieceEnds[jobs] = pieces;
        updateEnds[jobs] = updates;
        jobs++;
    }

    /// Forgets what was added since the last job.
    void rollBack() {
        int keptPieces = pieceBegin(jobs);
        while (pieces > keptPieces) {
            pieces--;
            bytes -= length(pieces);
            work -= OVERHEAD + length(pieces);
        }
        int keptUpdates = updateBegin(jobs);
        while (updates > keptUpdates) {
            updates--;
            adds -= updateAdds(updates) ? 1 : 0;
        }
    }

    // ---- going out

    int pieceBegin(int job) {
        return job == 0 ? 0 : pieceEnds[job - 1];
    }

    int pieceEnd(int job) {
        return pieceEnds[job];
    }

    int updateBegin(int job) {
        return job == 0 ? 0 : updateEnds[job - 1];
    }

    int updateEnd(int job) {
        return updateEnds[job];
    }

    boolean failed(int job) {
        return failures[job] != null;
    }

    /// Notes why a job failed; the first reason stays.
    void fail(int job, String failure) {
        if (failures[job] == null) {
            failures[job] = failure;
        }
    }

    void failAll(String failure) {
        for (int i = 0; i < jobs; i++) {
            fail(i, failure);
        }
    }

    /// Gives it a value of the flag that it never had.
    long nextSequence() {
        return ++sequence;
    }

    long sequence() {
        return sequence;
    }

    long flag() {
        return flag;
    }

    /// Drops the updates of jobs that failed, before a kernel makes the others'.
    void dropFailedUpdates() {
        int kept = 0;
        adds = 0;
        for (int job = 0, begin = 0; job < jobs; job++) {
            int end = updateEnds[job];
            for (int i = begin; i < end && failures[job] == null; i++) {
                adds += updateAdds(i) ? 1 : 0;
                putUpdate(kept++, updateAddress(i), updateWords[3 * i + 1], updateValue(i));
            }
            begin = end;
            updateEnds[job] = kept;
        }
        updates = kept;
    }

    /// Writes the parameters.
    ///
    /// @param warps that carry it out
    /// @param copies whether the kernel makes the copies, too, or the updates only
    KernelArguments arguments(int warps, boolean copies) {
        long head = table.address();
        PinnedPool.Block entries = index;
        Raw.ALL.set(JAVA_LONG, head, head + PIECES);
        Raw.ALL.set(JAVA_LONG, head + 8, entries == null ? 0 : entries.address());
        Raw.ALL.set(JAVA_LONG, head + 16, placeUpdates());
        Raw.ALL.set(JAVA_LONG, head + 24, copies ? work : 0);
        Raw.ALL.set(JAVA_LONG, head + 32, Math.ceilDiv(work, warps));
        Raw.ALL.set(JAVA_LONG, head + 40, flag);
        Raw.ALL.set(JAVA_LONG, head + 48, sequence);
        Raw.ALL.set(JAVA_LONG, head + 56, arrived);
        Raw.ALL.set(JAVA_INT, head + 64, copies ? pieces : 0);
        Raw.ALL.set(JAVA_INT, head + 68, updates);
        arguments.point(0, head);
        return arguments;
    }

    /// Where the kernel finds the updates; 0 in its parameters.
    private long placeUpdates() {
        long at = table.address() + HEAD;
        if (updates > PARAMETER_UPDATES) {
            long needed = (long) updates * UPDATE;
            PinnedPool.Block block = manyUpdates;
            if (block == null || block.bytes() < needed) {
                block = block == null ? pool.take(needed) : grow(block, 0, needed);
                manyUpdates = block;
            }
            at = block.address();
        }
        MemorySegment.copy(updateWords, 0, Raw.ALL, JAVA_LONG, at, 3 * updates);
        return updates > PARAMETER_UPDATES ? at : 0;
    }

    // ---- flying, and after

    /// Whether the device has raised the flag: then everything that it did is visible.
    boolean isRaised() {
        return (long) LONG.getAcquire(Raw.ALL, flag) == sequence;
    }

    boolean isOver() {
        return over || (straggler == 0 && isRaised());
    }

    /// Tells the owners; then forgets them.
    void tell() {
        RuntimeException thrown = null;
        for (int i = 0; i < jobs; i++) {
            CopyQueue.Job owner = owners[i];
            String failure = failures[i];
            owners[i] = null;
            failures[i] = null;
            try {
                if (owner != null) {
                    owner.ended(failure);
                }
            } catch (RuntimeException e) {
                // The other jobs' owners must hear of theirs all the same.
                thrown = e;
            }
        }
        if (thrown != null) {
            throw thrown;
        }
    }

    /// Makes it empty.
    void clear() {
        pieces = 0;
        bytes = 0;
        work = 0;
        indexed = false;
        updates = 0;
        adds = 0;
        jobs = 0;
        started = false;
        askedAt = 0;
        if (issuing) { // a volatile write is a fence
            issuing = false;
        }
        if (unflagged) {
            unflagged = false;
        }
        if (straggler != 0) {
            straggler = 0;
        }
        if (over) {
            over = false;
        }
    }
}
