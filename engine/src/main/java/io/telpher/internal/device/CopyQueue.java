package io.telpher.internal.device;

import org.jspecify.annotations.Nullable;

/// Copies that one GPU makes in the background, and the counters that follow them. Thread-safe.
///
/// A *job* is any number of copies and then any number of counter updates, which become visible
/// after the bytes. Jobs are independent of each other: they may run in any order and at the same
/// time. Small ones that are added while others run go out together, in one launch; so do those
/// that are added as a list.
///
/// ```text
/// begin(); copy(...)*; update(...)*; end(done)      on one thread, without a pause
/// (begin(together) ... end)*; letGo()               a list
/// poll()                                            by whoever waits: calls done.ended()
/// ```
///
/// What is launched cannot be taken back: whoever wants to be able to stop adds no more than a
/// part of a large transfer at a time ([#LARGEST]).
public interface CopyQueue {
    /// Most bytes of one job: 3 ms over NVLink. Between one part of a transfer and the next nothing
    /// is copied for as long as an end takes to be seen and a copy to begin, and an engine begins
    /// each copy anew: 1 GiB between two H200 in parts of 256 MiB took 0.7 % more than the driver's
    /// one copy, even with all of them launched at once.
    long LARGEST = 1L << 30;

    /// Most bytes of one to or from the host: 11 ms over PCIe 4, beside which a start is nothing.
    long LARGEST_HOST = 256L << 20;

    /// Where bytes travel, which decides what makes the copy.
    enum Way {
        /// Inside this GPU.
        LOCAL,
        /// Between this GPU and another.
        PEER,
        /// Between this GPU and page-locked host memory.
        HOST,
        /// Between two other GPUs, for which this one has become an intermediate
        /// ([Gpu#becomeIntermediate]).
        VIA
    }

    /// Begins a job; other threads wait until its [#end].
    ///
    /// @param way where all its copies go
    /// @param pieces how many copies follow
    /// @param bytes how many bytes in all
    /// @param together whether it is one of a list: it may be held back until this thread calls
    ///     [#letGo]. No longer than the list is short, and only beside others of lists
    void begin(Way way, int pieces, long bytes, boolean together);

    /// Begins a job that is none of a list.
    default void begin(Way way, int pieces, long bytes) {
        begin(way, pieces, bytes, false);
    }

    /// Adds a copy. Addresses as this GPU sees them; any alignment; ranges of one job do not
    /// overlap.
    void copy(long to, long from, long bytes);

    /// Adds to a 64-bit word, or sets it: aligned, in memory that this GPU reaches. Additions are
    /// atomic against GPUs that NVLink connects; over PCIe, and against CPUs, only where the
    /// platform has PCIe atomics.
    void update(long address, boolean add, long value);

    /// Ends the job: launches it, or leaves it to the next launch. A failure to launch is told
    /// through `done` at the next [#poll()], never thrown.
    void end(Job done);

    /// Launches what was held back of lists. Costs little where nothing is.
    default void letGo() {}

    /// Throws away what was added since [#begin]; for callers that met an exception.
    void abandon();

    /// Who is told of the end of a job.
    interface Job {
        /// All of the job has ended and is visible to everybody, or it failed. Called by
        /// [CopyQueue#poll()], without any lock of the queue; must not block.
        ///
        /// @param failure null, or the driver's error: then any part of the bytes may have been
        ///     copied
        void ended(@Nullable String failure);
    }

    /// Launches what waits and tells of the jobs that have ended. Never blocks; a thread that
    /// finds another polling returns 0.
    ///
    /// @return how many have ended
    int poll();

    /// @return whether no job is under way or waiting
    boolean isIdle();

    /// What has ended everything that this GPU does for this process, now and later. Nobody knows
    /// then whether copies have ended whose jobs have: some bytes may still be read or written.
    ///
    /// @return null while it works
    default @Nullable String lost() {
        return null;
    }
}
