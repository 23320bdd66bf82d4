package io.telpher.internal.transport.shm;

import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import java.util.HashSet;
import java.util.Set;
import java.util.TreeSet;

/// The windows of one link that are open, and how they end: on their own, as their region's owner
/// wants it back, or with the link, whose memory stays where a thread does not leave one. Whoever
/// takes a window out of the list closes it. Thread-safe.
final class OpenWindows {
    private final ShmLink link;

    // Guarded by this.
    private final Set<ShmWindow> open = new HashSet<>();
    private boolean closed;

    /// Windows that are being closed one by one.
    private int forgetting;

    /// Windows to memory of GPUs that a copy did not leave in time: the owner must not be told
    /// that they are unmapped.
    private final Set<ShmWindow> leaked = new HashSet<>();

    /// Some thread never left a window: the link's pages, where it is still announced, must stay.
    private boolean leaking;

    OpenWindows(ShmLink link) {
        this.link = link;
    }

    /// Lists a new window, unless all were closed, or its region, while it was opened.
    ShmWindow add(ShmWindow window) {
        synchronized (this) {
            if (!closed && (!(window instanceof GpuWindow) || window.isOpen())) {
                open.add(window);
                return window;
            }
        }
        window.unmap(); // nobody knows it
        synchronized (this) {
            if (!closed) {
                throw new TelpherException.StaleRegion("the region was closed by its owner");
            }
        }
        throw new TelpherException.Closed(link.text() + " is closed");
    }

    /// The owner wants back the memory of a device: unmaps it, which tells the owner. On the
    /// control executor. A region that is being opened is found to be closed by [#add].
    void revoked(int index, int generation) {
        ShmWindow found = null;
        ShmWindow left = null;
        synchronized (this) {
            for (ShmWindow window : open) {
                if (window instanceof GpuWindow && window.isOf(index, generation)) {
                    found = window;
                }
            }
            for (ShmWindow window : leaked) {
                if (window.isOf(index, generation)) {
                    left = window;
                }
            }
        }
        if (found != null) {
            found.close();
        } else if (left != null) {
            if (left.shut()) {
                synchronized (this) {
                    leaked.remove(left);
                }
            }
        } else if (!link.exchange().isAsking(index, generation)) {
            link.exchange().released(index, generation);
        }
    }

    /// @return whether the window was still listed: the caller closes it then, and calls
    ///     [#forgotten()]
    synchronized boolean forget(ShmWindow window) {
        boolean listed = open.remove(window);
        if (listed) {
            forgetting++;
        }
        return listed;
    }

    /// A window that is not listed any more has been closed.
    synchronized void forgotten() {
        forgetting--;
        notifyAll();
    }

    /// Waits for windows that others are closing: they look at the link's memory. Each takes a
    /// limited time.
    private synchronized void awaitForgotten() {
        boolean interrupted = false;
        while (forgetting > 0) {
            try {
                wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /// A thread did not leave a window in time: this link's memory stays for good.
    void leaked(ShmWindow window) {
        synchronized (this) {
            leaking = true;
            if (window instanceof GpuWindow) {
                leaked.add(window);
            }
        }
        Log.warning(
                "a thread stays inside a window of path %s to %s; its memory is not given back"
                        .formatted(window.path(), link.text()),
                null);
    }

    /// @return the paths to memory of GPUs that are in use
    synchronized Set<String> gpuPaths() {
        Set<String> paths = new TreeSet<>();
        for (ShmWindow window : open) {
            if (window instanceof GpuWindow) {
                paths.add(window.path());
            }
        }
        return paths;
    }

    /// Closes every window, which waits for the threads inside.
    ///
    /// @return false when that was done, or the link's memory must stay
    boolean close() {
        Set<ShmWindow> rest;
        synchronized (this) {
            if (closed) {
                return false;
            }
            closed = true;
            rest = Set.copyOf(open);
            open.clear();
        }
        for (ShmWindow window : rest) {
            try {
                boolean unused = window.shut();
            } catch (RuntimeException e) {
                // The others, and the link, must be given back all the same.
                Log.error("a window of path " + window.path() + " could not be closed", e);
            }
        }
        awaitForgotten();
        synchronized (this) {
            return !leaking;
        }
    }
}
