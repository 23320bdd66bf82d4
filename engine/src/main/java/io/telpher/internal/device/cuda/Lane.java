package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// Launches of one kind. What is added while `window` of them are under way is gathered and goes
/// out together as soon as one ends, or when it is much: so the batches get as large as the load
/// asks for and a lone job never waits. What gathers is held as long as all of it is of lists that
/// are still being added to (docs/gpu.md, "Lists").
///
/// The queue's lock guards it, but for [#poll].
abstract class Lane {
    /// Launches beyond the window that are there for what is much.
    private static final int MORE = 8;

    final CudaQueue queue;
    private final int window;
    private final Launch[] launches;
    private @Nullable Launch gathering;

    /// Since when what gathers is held, or 0 when it is not. Changed under the lock.
    private volatile long heldSince;

    /// Launches that went out and whose jobs were not told yet. Changed under the lock.
    private final AtomicInteger flying = new AtomicInteger();

    /// For tests, which look when nothing is under way: how many ever went out.
    private long launched;

    /// @param pool has the tables of the launches
    /// @param streams on which the launches run in turn
    Lane(CudaQueue queue, int window, PinnedPool pool, long[] streams) {
        this.queue = queue;
        this.window = window;
        // One gathers and one is told beside those that fly.
        this.launches = new Launch[window + MORE + 2];
        for (int i = 0; i < launches.length; i++) {
            launches[i] = queue.newLaunch(pool, streams[i % streams.length]);
        }
    }

    /// Starts the work; the context is current. What fails is noted in the launch: with all jobs
    /// failed and nothing under way, `over` is set.
    abstract void issue(Launch launch);

    /// A launch is over, whatever became of it.
    void forget(Launch launch) {}

    /// Where jobs are gathered.
    Launch gathering() {
        Launch found = gathering;
        if (found == null) {
            found = free();
            found.state(Launch.GATHERING);
            gathering = found;
        }
        return found;
    }

    private Launch free() {
        for (Launch launch : launches) {
            if (launch.state() == Launch.FREE) {
                return launch;
            }
        }
        throw new AssertionError("all launches are in use");
    }

    /// A job was added.
    ///
    /// @param together whether more of its list follow
    void added(boolean together) {
        Launch next = gathering();
        Tuning tuning = queue.tuning();
        boolean held =
                together
                        && (next.jobs() == 1 || isHeld())
                        && next.pieces() < tuning.holdPieces()
                        && next.bytes() < tuning.holdBytes();
        if (!held) {
            letGo();
        } else if (!isHeld()) {
            heldSince = System.nanoTime() | 1;
        }
    }

    /// Whether what gathers waits for the end of a list.
    final boolean isHeld() {
        return heldSince != 0;
    }

    /// Its thread may have been stopped, or wait for something in the middle of its list.
    private boolean isHeldLong() {
        long since = heldSince;
        return since != 0 && System.nanoTime() - since >= queue.tuning().holdNanos();
    }

    /// Holds nothing any longer.
    void letGo() {
        if (heldSince != 0) { // a volatile write is a fence
            heldSince = 0;
        }
        letOut();
    }

    /// Lets out what was gathered if its turn has come.
    private void letOut() {
        Launch next = gathering;
        if (next == null || next.jobs() == 0 || flying.get() >= launches.length - 2) {
            return;
        }
        if (flying.get() >= window && next.bytes() < queue.tuning().gatherBytes()) {
            int underWay = 0;
            for (Launch launch : launches) {
                underWay += launch.state() == Launch.FLYING && !launch.isOver() ? 1 : 0;
            }
            if (underWay >= window) {
                return;
            }
        }
        gathering = null;
        next.nextSequence();
        String broken = queue.lost();
        if (broken != null) {
            next.failAll(broken);
            next.over = true;
        } else if (next.pieces() == 0 && next.updates() == 0) {
            next.over = true;
        } else {
            issueHere(next);
        }
        flying.setRelease(flying.getPlain() + 1);
        launched++;
        next.state(Launch.FLYING);
    }

    /// Without the context nothing is under way, and the jobs have to hear of it.
    private void issueHere(Launch next) {
        long before;
        try {
            before = queue.context().enter();
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            next.failAll(CudaQueue.message(e));
            next.over = true;
            return;
        }
        try {
            issue(next);
        } finally {
            queue.context().exit(before);
        }
    }

    /// See [CudaQueue#poll]. One thread at a time.
    int poll() {
        if (isHeldLong() && queue.tryLock()) {
            try {
                if (isHeldLong()) {
                    letGo();
                }
            } finally {
                queue.unlock();
            }
        }
        if (flying.get() == 0) {
            return 0;
        }
        int ended = 0;
        for (Launch launch : launches) {
            if (launch.state() != Launch.FLYING || !queue.isOver(launch)) {
                continue;
            }
            if (!queue.tryLock()) {
                return ended;
            }
            try {
                launch.state(Launch.ENDING);
                flying.setRelease(flying.getPlain() - 1);
                forget(launch);
                if (!isHeld()) {
                    letOut();
                }
            } finally {
                queue.unlock();
            }
            ended += launch.jobs();
            try {
                launch.tell();
            } finally {
                queue.told(launch.jobs());
                launch.clear();
                launch.state(Launch.FREE);
            }
        }
        return ended;
    }

    /// Whether nothing of the lane is under way; under the lock.
    final boolean isEmpty() {
        return flying.get() == 0;
    }

    long launched() {
        return launched;
    }
}
