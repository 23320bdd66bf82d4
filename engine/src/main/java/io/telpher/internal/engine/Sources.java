package io.telpher.internal.engine;

import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import java.util.Arrays;
import java.util.HashMap;
import org.jspecify.annotations.Nullable;

/// What the progress thread waits for in its [Readiness]: the descriptors of transports, those of
/// parked lanes, and a bell by which other threads wake it.
///
/// Any thread may watch, unwatch and ring; the progress thread alone waits, looks up and closes.
/// Changes, and the descriptors' end, are guarded by `gate`, within which nothing else is taken.
final class Sources {
    /// What an event stands for.
    ///
    /// @param key what is reported: index in the low half, a number of its own in the high
    ///     half, so that a late event finds nobody
    record Source(
            long key,
            int descriptor,
            @Nullable Runnable ready,
            @Nullable LaneState lane,
            @Nullable Watch of) {}

    private final Readiness readiness;
    private final Object gate = new Object();

    /// By index; looked at without the gate.
    private volatile @Nullable Source[] sources = new Source[64];

    private final HashMap<Integer, Source> byDescriptor = new HashMap<>();
    private int sourcesMade;

    /// All below it are taken; index 0 is the bell's.
    private int lowestFree = 1;

    /// The descriptors are closed.
    private volatile boolean gone;

    Sources(Readiness readiness) {
        this.readiness = readiness;
    }

    /// Whether it is closed.
    boolean isGone() {
        return gone;
    }

    // --- what is watched ------------------------------------------------------------------------

    /// Runs `ready` on the progress thread whenever a descriptor has something to read.
    void watch(int descriptor, Runnable ready) {
        long ignored = register(descriptor, ready, null, null, Epoll.EPOLLIN | Epoll.EPOLLRDHUP);
        assert ignored >= 0;
    }

    /// @return the source's key, 0 when the thread has ended
    private long register(
            int descriptor,
            @Nullable Runnable ready,
            @Nullable LaneState lane,
            @Nullable Watch of,
            int what) {
        synchronized (gate) {
            if (gone) {
                return 0;
            }
            int index = freeIndex();
            long key = index | (long) (++sourcesMade & 0x7fff_ffff) << 32;
            Source source = new Source(key, descriptor, ready, lane, of);
            put(index, source);
            int result = readiness.add(descriptor, what, key);
            if (result < 0) {
                put(index, null);
                check(result, "epoll_ctl", "ADD", descriptor);
            }
            byDescriptor.put(descriptor, source);
            return key;
        }
    }

    private int freeIndex() {
        @Nullable Source[] all = sources;
        int index = lowestFree;
        while (index < all.length && all[index] != null) {
            index++;
        }
        if (index == all.length) {
            sources = Arrays.copyOf(all, all.length * 2);
        }
        lowestFree = index;
        return index;
    }

    private void put(int index, @Nullable Source source) {
        @Nullable Source[] all = sources;
        all[index] = source;
        sources = all; // publishes the element
        if (source == null) {
            lowestFree = Math.min(lowestFree, index);
        }
    }

    /// @return what an event stands for, or null when that is gone
    @Nullable Source source(long key) {
        @Nullable Source[] all = sources;
        int index = (int) key;
        Source source = index < all.length ? all[index] : null;
        return source != null && source.key == key ? source : null;
    }

    private static int check(int result, String call, Object... arguments) {
        if (result < 0) {
            throw Errno.failure(result, call, arguments);
        }
        return result;
    }

    void unwatch(int descriptor) {
        synchronized (gate) {
            Source source = byDescriptor.remove(descriptor);
            if (source != null && !gone) {
                put((int) source.key, null);
                int ignored = readiness.remove(descriptor); // it may be closed already
                assert ignored <= 0;
            }
        }
    }

    /// Watches a lane for one event. Under its poll token.
    void arm(LaneState s, Watch watch) {
        boolean write = s.blocked && s.lane.wantsWrite();
        int what = Epoll.EPOLLIN | Epoll.EPOLLONESHOT | (write ? Epoll.EPOLLOUT : 0);
        int descriptor = s.lane.descriptor();
        if (s.watched < 0) {
            s.watched = descriptor;
            s.watchKey = register(descriptor, null, s, watch, what);
        } else {
            check(readiness.modify(descriptor, what, s.watchKey), "epoll_ctl", "MOD", descriptor);
        }
    }

    /// A lane is about to be closed. Under its poll token.
    void unwatch(LaneState s) {
        int descriptor = s.watched;
        if (descriptor >= 0) {
            s.watched = -1;
            unwatch(descriptor);
        }
    }

    // --- waiting --------------------------------------------------------------------------------

    /// @param timeout in milliseconds, -1 for ever
    /// @return how many events there are
    int await(int timeout) {
        int n = readiness.await(timeout);
        return n == -Errno.EINTR ? 0 : check(n, "epoll_wait");
    }

    /// @return the key of an event
    long key(int event) {
        return readiness.key(event);
    }

    void ring() {
        synchronized (gate) {
            // Late callers must not write to whatever has the descriptor's number by then.
            if (!gone) {
                readiness.ring();
            }
        }
    }

    void close() {
        synchronized (gate) {
            gone = true;
            readiness.close();
        }
    }
}
