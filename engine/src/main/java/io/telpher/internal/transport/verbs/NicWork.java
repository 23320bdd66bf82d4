package io.telpher.internal.transport.verbs;

import io.telpher.spi.LocalRegion;
import io.telpher.spi.WorkQueue;
import org.jspecify.annotations.Nullable;

/// One source's work, on whichever [NicQueue] it was posted to. Everything but the calls of
/// [WorkQueue.Work] is guarded by that queue.
final class NicWork implements WorkQueue.Work {
    private final NicQueue small;
    private final NicQueue bulk;
    private final Registrations memory;
    final WorkQueue.Source source;

    /// Where it was posted last. Written by whoever posts, before anybody else can know of it.
    private volatile NicQueue queue;

    boolean read;

    /// Posted, and not ended.
    boolean active;

    /// Nothing more is cut from it.
    boolean stopped;

    /// What is under way is cut off.
    boolean aborted;

    /// Everything was cut.
    boolean exhausted;

    /// Batches of it that have not completed.
    int underWay;

    /// It stands among those that wait to be cut.
    boolean waiting;

    /// The first failure decides how it ends.
    WorkQueue.@Nullable End failure;

    @Nullable String why;

    /// The next of those that wait, or of those whose end has to be told.
    @Nullable NicWork next;

    private long toCut;

    // What is left of the piece that is being cut.
    private long left;
    private @Nullable VerbsWindow window;
    private @Nullable RegionKeys keys;
    private long remoteOffset;
    private long localOffset;

    // The range that was cut last.
    long localAddress;
    int localKey;
    long remoteAddress;
    int remoteKey;

    NicWork(NicQueue small, NicQueue bulk, Registrations memory, WorkQueue.Source source) {
        this.small = small;
        this.bulk = bulk;
        this.memory = memory;
        this.source = source;
        this.queue = small;
    }

    @Override
    public void post(boolean fromPeer, long bytes) {
        NicQueue to = bytes <= NicQueue.SMALL ? small : bulk;
        queue = to;
        to.post(this, fromPeer, bytes);
    }

    @Override
    public void stop() {
        queue.stop(this, false);
    }

    @Override
    public void abort() {
        queue.stop(this, true);
    }

    /// As when it was never posted.
    void begin(boolean fromPeer, long bytes) {
        read = fromPeer;
        toCut = bytes;
        active = true;
        stopped = false;
        aborted = false;
        exhausted = false;
        underWay = 0;
        failure = null;
        why = null;
        left = 0;
        window = null;
        keys = null;
    }

    void fail(WorkQueue.End how, @Nullable String reason) {
        if (failure == null) {
            failure = how;
            why = reason;
        }
    }

    /// Cuts the next range: its addresses and keys are then in the fields.
    ///
    /// @param most bytes, at least 1
    /// @return its length, or 0 when there is none any more: exhausted, or failed
    int cut(int most) {
        if (exhausted || (left == 0 && !nextPiece())) {
            return 0;
        }
        VerbsWindow there = window;
        RegionKeys here = keys;
        if (there == null || here == null) {
            throw new IllegalStateException("a piece without memory");
        }
        long n = Math.min(Math.min(left, most), here.leftInPiece(localOffset));
        n = Math.min(n, there.leftInPiece(remoteOffset));
        localAddress = here.address() + localOffset;
        localKey = here.localKey(localOffset);
        remoteAddress = there.address() + remoteOffset;
        remoteKey = there.key(remoteOffset);
        left -= n;
        toCut -= n;
        exhausted = toCut == 0;
        localOffset += n;
        remoteOffset += n;
        return (int) n;
    }

    private boolean nextPiece() {
        if (!source.next()) {
            exhausted = true;
            return false;
        }
        LocalRegion region = source.region();
        VerbsWindow there = source.window() instanceof VerbsWindow open ? open : null;
        RegionKeys here = memory.find(region.index(), region.generation());
        if (there == null || there.isClosed() || here == null) {
            fail(WorkQueue.End.STALE, null); // it was closed since the work was posted
            return false;
        }
        window = there;
        keys = here;
        left = source.bytes();
        remoteOffset = source.remoteOffset();
        localOffset = source.localOffset();
        return true;
    }

    /// Whether nothing of it is under way and nothing more will be.
    boolean isOver() {
        return underWay == 0 && (exhausted || stopped || failure != null);
    }

    WorkQueue.End end() {
        WorkQueue.End failed = failure;
        if (failed != null) {
            return failed;
        }
        // Also when it was stopped: everything has completed.
        return exhausted ? WorkQueue.End.DONE : WorkQueue.End.STOPPED;
    }
}
