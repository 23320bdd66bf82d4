package io.telpher.internal.engine;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import java.lang.foreign.Arena;

/// An epoll, with an eventfd for the bell.
final class EpollReadiness implements Readiness {
    private static final int MOST_EVENTS = 64;

    private final Arena arena = Arena.ofShared();
    private final Epoll.Events events = new Epoll.Events(arena, MOST_EVENTS);
    private final int epoll;
    private final int bell;

    EpollReadiness() {
        epoll = check(Epoll.create(), "epoll_create1");
        bell = check(EventFd.create(), "eventfd");
        check(Epoll.add(epoll, bell, Epoll.EPOLLIN, BELL), "epoll_ctl", "ADD", bell);
    }

    private static int check(int result, String call, Object... arguments) {
        if (result < 0) {
            throw Errno.failure(result, call, arguments);
        }
        return result;
    }

    @Override
    public int add(int descriptor, int what, long key) {
        return Epoll.add(epoll, descriptor, what, key);
    }

    @Override
    public int modify(int descriptor, int what, long key) {
        return Epoll.modify(epoll, descriptor, what, key);
    }

    @Override
    public int remove(int descriptor) {
        return Epoll.remove(epoll, descriptor);
    }

    @Override
    public int await(int timeoutMillis) {
        int n = Epoll.await(epoll, events, timeoutMillis);
        for (int i = 0; i < n; i++) {
            if (events.data(i) == BELL) {
                long ignored = EventFd.drain(bell);
                assert ignored < Long.MAX_VALUE;
            }
        }
        return n;
    }

    @Override
    public long key(int index) {
        return events.data(index);
    }

    @Override
    public void ring() {
        EventFd.signal(bell);
    }

    @Override
    public void close() {
        Descriptors.close(bell);
        Descriptors.close(epoll);
        arena.close();
    }
}
