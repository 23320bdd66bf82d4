package io.telpher.sim;

import io.telpher.internal.engine.Readiness;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// An epoll over the simulated descriptors of one process.
final class SimReadiness implements Readiness {
    /// What a look costs in virtual time.
    private static final long LOOK_NANOS = 500;

    private static final long MILLI = 1_000_000;

    private static final class Watched {
        int events;
        long key;

        Watched(int events, long key) {
            this.events = events;
            this.key = key;
        }
    }

    private final SimProcess process;
    private final Map<Integer, Watched> watched = new LinkedHashMap<>();
    private boolean bell;
    private @Nullable Thread waiter;
    private long[] keys = new long[8];

    SimReadiness(SimProcess process) {
        this.process = process;
    }

    @Override
    public int add(int descriptor, int events, long key) {
        if (process.descriptor(descriptor) == null) {
            return -Errno.EBADF;
        }
        if (watched.putIfAbsent(descriptor, new Watched(events, key)) != null) {
            return -Errno.EEXIST;
        }
        changed(descriptor);
        return 0;
    }

    @Override
    public int modify(int descriptor, int events, long key) {
        Watched one = watched.get(descriptor);
        if (one == null) {
            return -Errno.ENOENT;
        }
        one.events = events;
        one.key = key;
        changed(descriptor);
        return 0;
    }

    @Override
    public int remove(int descriptor) {
        return watched.remove(descriptor) == null ? -Errno.ENOENT : 0;
    }

    void changed(int descriptor) {
        Watched one = watched.get(descriptor);
        Thread thread = waiter;
        if (one != null && thread != null && isReady(descriptor, one)) {
            process.unpark(thread);
        }
    }

    private boolean isReady(int descriptor, Watched one) {
        SimProcess.Pollable what = process.descriptor(descriptor);
        return what != null
                && (((one.events & Epoll.EPOLLIN) != 0 && what.isReadable())
                        || ((one.events & Epoll.EPOLLOUT) != 0 && what.isWritable()));
    }

    @Override
    public int await(int timeoutMillis) {
        int n = collect();
        if (n > 0) {
            return n;
        }
        if (timeoutMillis == 0) {
            process.scheduler().sleep(LOOK_NANOS);
        } else {
            waiter = Thread.currentThread();
            process.park(this, timeoutMillis < 0 ? Long.MAX_VALUE : timeoutMillis * MILLI);
            waiter = null;
        }
        return collect();
    }

    private int collect() {
        int n = 0;
        if (bell) {
            bell = false;
            keys[n++] = BELL;
        }
        for (Map.Entry<Integer, Watched> entry : watched.entrySet()) {
            Watched one = entry.getValue();
            if (one.events != 0 && isReady(entry.getKey(), one)) {
                if (n == keys.length) {
                    keys = Arrays.copyOf(keys, n * 2);
                }
                keys[n++] = one.key;
                if ((one.events & Epoll.EPOLLONESHOT) != 0) {
                    one.events = 0;
                }
            }
        }
        return n;
    }

    @Override
    public long key(int index) {
        return keys[index];
    }

    @Override
    public void ring() {
        bell = true;
        Thread thread = waiter;
        if (thread != null) {
            process.unpark(thread);
        }
    }

    @Override
    public void close() {
        process.remove(this);
    }
}
