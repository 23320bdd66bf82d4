package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.DeviceStream;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.observe.Log;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// A transfer as the caller sees it: what is asked for, and how the last posting ended. While it is
/// posted it has an [Operation], unless it was carried out at once.
final class TransferImpl implements Transfer {
    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(TransferImpl.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private static final TransferState[] STATES = TransferState.values();
    private static final int IDLE = TransferState.IDLE.ordinal();
    private static final int PENDING = TransferState.PENDING.ordinal();

    /// In `state`: somebody wants something done when it ends. Set under the monitor, while it is
    /// idle or pending; a posting keeps it. Without it a transfer ends without the monitor.
    private static final int LISTENED = 8;

    final ConnectionCore connection;
    final Operation.Kind kind;
    final TransferOptions options;
    final long tag;
    final @Nullable RegionImpl region;
    final long localOffset;
    final @Nullable MemorySlices localPieces;
    final @Nullable RemoteMemory remote;
    final @Nullable RemoteSlices remotePieces;
    final long length;
    final long deadlineNanos;

    /// The operation of the current posting; guarded by the connection's lock.
    @Nullable Operation operation;

    /// Where the current posting stands in its caller's stream, until that may go on. The posting
    /// thread's, and guarded by the connection's lock while there is an operation.
    Gpu.@Nullable Gate gate;

    /// What the current posting begins after. The posting thread's, and guarded by the connection's
    /// lock while there is an operation.
    StreamPoints after = StreamPoints.NONE;

    /// [StreamWaits#lastKept] when the current posting began: nothing of it was in a stream yet.
    /// The posting thread's, and guarded by the connection's lock while there is an operation.
    long since;

    /// Ordinal of the [TransferState], and [#LISTENED]. Written by compare-and-set, by whoever
    /// posts and whoever ends the posting; under the monitor where that bit is set.
    private volatile int state = IDLE;

    /// Written by who posts, once the posting is his.
    private long postings;

    // How the last posting ended: written by who ends it, and told only when it has ended.
    private RemoteQuiet quiet = RemoteQuiet.UNKNOWN;
    private long moved;
    private String path = "";
    private @Nullable TelpherException error;

    /// To be called when the current posting ends. Guarded by this.
    private @Nullable List<Action> actions;

    /// Of postings that have ended: the next posting may have begun by the time they run. Guarded
    /// by this.
    private @Nullable Queue<Due> due;

    /// What somebody wants done at the end of a posting, who is told why that failed.
    private interface Action {
        void run(Transfer transfer, @Nullable TelpherException why);
    }

    private record Due(List<Action> actions, @Nullable TelpherException why) {}

    TransferImpl(
            ConnectionCore connection,
            Operation.Kind kind,
            TransferOptions options,
            long tag,
            @Nullable RegionImpl region,
            long localOffset,
            @Nullable MemorySlices localPieces,
            @Nullable RemoteMemory remote,
            @Nullable RemoteSlices remotePieces,
            long length) {
        this.connection = connection;
        this.kind = kind;
        this.options = options;
        this.tag = tag;
        this.region = region;
        this.localOffset = localOffset;
        this.localPieces = localPieces;
        this.remote = remote;
        this.remotePieces = remotePieces;
        this.length = length;
        Duration own = options.deadline();
        this.deadlineNanos =
                (own == null ? connection.endpoint().options().deadline() : own).toNanos();
    }

    @Nullable MemorySegment notification() {
        return options.notification();
    }

    @Nullable CounterUpdate counter() {
        return options.counter();
    }

    @Override
    public void post() {
        post(false, StreamPoints.NONE, StreamWaits.lastKept());
    }

    @Override
    public void post(List<DeviceStream> streams) {
        long begun = StreamWaits.lastKept();
        post(false, StreamPoints.of(streams), begun);
    }

    /// @param together whether [TransferList] posts more
    /// @param points what it begins after
    /// @param begun [StreamWaits#lastKept] before anything was put into a stream for it
    void post(boolean together, StreamPoints points, long begun) {
        int before;
        do {
            before = state; // once more if somebody has begun to listen
            if (standing(before) == PENDING) {
                throw new IllegalStateException("this transfer is pending; wait for its end first");
            }
        } while (!STATE.compareAndSet(this, before, PENDING | (before & LISTENED)));
        postings++;
        after = points;
        since = begun;
        connection.posting.post(this, together);
    }

    /// Ends the posting.
    ///
    /// @return whether somebody has to be called back: [#runActions()], without any lock
    boolean ended(
            int reason,
            RemoteQuiet remoteQuiet,
            long bytes,
            String usedPath,
            @Nullable TelpherException why) {
        if (quiet != remoteQuiet) { // see Operation.setKind
            quiet = remoteQuiet;
        }
        moved = bytes;
        path = usedPath;
        error = why;
        Gpu.Gate passed = gate;
        gate = null; // before the state: from there on it may be posted again
        int end = Failures.state(reason).ordinal();
        boolean listened = !STATE.compareAndSet(this, PENDING, end);
        if (listened) {
            endListened(end, why);
        }
        if (passed != null) {
            passed.open();
        }
        return listened;
    }

    private synchronized void endListened(int end, @Nullable TelpherException why) {
        List<Action> ending = actions;
        actions = null;
        if (ending != null) {
            Queue<Due> queue = due;
            if (queue == null) {
                queue = new ArrayDeque<>(2);
                due = queue;
            }
            queue.add(new Due(ending, why));
        }
        state = end;
    }

    private static int standing(int state) {
        return state & ~LISTENED;
    }

    private boolean hasEnded() {
        return standing(state) > PENDING;
    }

    /// Lets the caller's stream go on before the end.
    void openGate() {
        Gpu.Gate passed = gate;
        if (passed != null) {
            gate = null;
            passed.open();
        }
    }

    void runActions() {
        Due next;
        while ((next = nextDue()) != null) {
            TelpherException why = next.why;
            for (Action action : next.actions) {
                run(() -> action.run(this, why));
            }
        }
    }

    private synchronized @Nullable Due nextDue() {
        return due == null ? null : due.poll();
    }

    /// Runs a caller's action; what it throws is the caller's bug and must not end a lane or the
    /// progress thread.
    private static void run(Runnable action) {
        try {
            action.run();
        } catch (Platform.Ended e) {
            throw e;
        } catch (Throwable e) {
            Log.warning("a callback failed", e);
        }
    }

    @Override
    public TransferState poll() {
        if (standing(state) == PENDING) {
            connection.poll();
        }
        return state();
    }

    @Override
    public TransferState state() {
        return STATES[standing(state)];
    }

    @Override
    public long postings() {
        return postings;
    }

    @Override
    public RemoteQuiet remoteQuiet() {
        return hasEnded() ? quiet : RemoteQuiet.UNKNOWN;
    }

    @Override
    public void await() {
        if (standing(state) == IDLE) {
            throw new IllegalStateException("this transfer was not posted");
        }
        connection.waiters.waitFor(this::hasEnded, Long.MAX_VALUE);
        TelpherException why = error;
        if (why != null) {
            throw why;
        }
    }

    @Override
    public boolean await(Duration atMost) {
        if (standing(state) == IDLE) {
            throw new IllegalStateException("this transfer was not posted");
        }
        return connection.waiters.waitFor(this::hasEnded, atMost.toNanos());
    }

    @Override
    public CompletionStage<Transfer> completion() {
        CompletableFuture<Transfer> stage = new CompletableFuture<>();
        atEnd(
                (transfer, why) -> {
                    if (why == null) {
                        stage.complete(transfer);
                    } else {
                        stage.completeExceptionally(why);
                    }
                });
        return stage;
    }

    @Override
    public void onEnd(Consumer<Transfer> action) {
        atEnd((transfer, why) -> action.accept(transfer));
    }

    private void atEnd(Action action) {
        TelpherException why;
        synchronized (this) {
            if (listen()) {
                List<Action> list = actions;
                if (list == null) {
                    list = new ArrayList<>(2);
                    actions = list;
                }
                list.add(action);
                return;
            }
            why = error;
        }
        action.run(this, why);
    }

    /// Under the monitor, which whoever ends the posting takes from here on.
    ///
    /// @return false when it has ended
    private boolean listen() {
        int now;
        do {
            now = state;
            if (standing(now) > PENDING) {
                return false;
            }
        } while (!STATE.compareAndSet(this, now, now | LISTENED)); // unless it is posted, or ends
        return true;
    }

    @Override
    public boolean cancel() {
        return standing(state) == PENDING && connection.posting.cancel(this);
    }

    @Override
    public long bytesMoved() {
        return hasEnded() ? moved : 0;
    }

    @Override
    public String path() {
        return hasEnded() ? path : connection.posting.pathOf(this);
    }

    @Override
    public @Nullable TelpherException error() {
        return hasEnded() ? error : null;
    }

    /// What it is, for messages.
    String describe() {
        return "%s of %d bytes".formatted(kind.name().toLowerCase(java.util.Locale.ROOT), length);
    }

    @Override
    public String toString() {
        return "Transfer[" + describe() + ", " + state() + "]";
    }
}
