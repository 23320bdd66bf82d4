package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Epoll and poll, with event descriptors for the events.
class EpollTest {
    private final Arena arena = Arena.ofShared();
    private final Epoll.Events events = new Epoll.Events(arena, 4);
    private int epoll;
    private int event;

    @BeforeEach
    void create() {
        epoll = Epoll.create();
        event = EventFd.create();
        assertThat(epoll).isNotNegative();
        assertThat(event).isNotNegative();
    }

    @AfterEach
    void close() {
        assertThat(Descriptors.close(epoll)).isZero();
        assertThat(Descriptors.close(event)).isZero();
        arena.close();
    }

    @Test
    void levelTriggeredUntilDrained() {
        assertThat(Epoll.add(epoll, event, Epoll.EPOLLIN, 0xfeed_beef_1234_5678L)).isZero();
        assertThat(Epoll.await(epoll, events, 0)).isZero();

        assertThat(EventFd.signal(event)).isZero();
        assertThat(EventFd.signal(event)).isZero();
        for (int i = 0; i < 2; i++) {
            assertThat(Epoll.await(epoll, events, 1000)).isEqualTo(1);
            assertThat(events.events(0)).isEqualTo(Epoll.EPOLLIN);
            assertThat(events.data(0)).isEqualTo(0xfeed_beef_1234_5678L);
        }
        assertThat(EventFd.drain(event)).isEqualTo(2);
        assertThat(EventFd.drain(event)).isEqualTo(-Errno.EAGAIN);
        assertThat(Epoll.await(epoll, events, 0)).isZero();
    }

    @Test
    void edgeTriggeredOncePerSignal() {
        assertThat(Epoll.add(epoll, event, Epoll.EPOLLIN | Epoll.EPOLLET, 1)).isZero();
        assertThat(EventFd.signal(event)).isZero();
        assertThat(Epoll.await(epoll, events, 1000)).isEqualTo(1);
        assertThat(Epoll.await(epoll, events, 0)).isZero();
        assertThat(EventFd.signal(event)).isZero();
        assertThat(Epoll.await(epoll, events, 1000)).isEqualTo(1);
    }

    @Test
    void oneShotUntilArmedAgain() {
        int mask = Epoll.EPOLLIN | Epoll.EPOLLONESHOT;
        assertThat(Epoll.add(epoll, event, mask, 1)).isZero();
        assertThat(EventFd.signal(event)).isZero();
        assertThat(Epoll.await(epoll, events, 1000)).isEqualTo(1);
        assertThat(Epoll.await(epoll, events, 0)).isZero();
        assertThat(Epoll.modify(epoll, event, mask, 2)).isZero();
        assertThat(Epoll.await(epoll, events, 1000)).isEqualTo(1);
        assertThat(events.data(0)).isEqualTo(2);
    }

    @Test
    void severalEventsAtOnce() {
        int[] fds = new int[3];
        for (int i = 0; i < fds.length; i++) {
            fds[i] = EventFd.create(1, EventFd.EFD_NONBLOCK | EventFd.EFD_CLOEXEC);
            assertThat(Epoll.add(epoll, fds[i], Epoll.EPOLLIN | Epoll.EPOLLOUT, -1L - i)).isZero();
        }
        assertThat(Epoll.await(epoll, events, 1000)).isEqualTo(3);
        Set<Long> data = new HashSet<>();
        for (int i = 0; i < 3; i++) {
            assertThat(events.events(i)).isEqualTo(Epoll.EPOLLIN | Epoll.EPOLLOUT);
            data.add(events.data(i));
        }
        assertThat(data).containsExactlyInAnyOrder(-1L, -2L, -3L);
        assertThatThrownBy(() -> events.data(4)).isInstanceOf(IndexOutOfBoundsException.class);
        for (int fd : fds) {
            assertThat(Descriptors.close(fd)).isZero();
        }
    }

    @Test
    void misuseIsReported() {
        assertThat(Epoll.remove(epoll, event)).isEqualTo(-Errno.ENOENT);
        assertThat(Epoll.add(epoll, event, Epoll.EPOLLIN, 1)).isZero();
        assertThat(Epoll.add(epoll, event, Epoll.EPOLLIN, 1)).isEqualTo(-Errno.EEXIST);
        assertThat(Epoll.remove(epoll, event)).isZero();
        assertThat(Epoll.await(event, events, 0)).isEqualTo(-Errno.EINVAL);
    }

    @Test
    void eventCounterOverflowsWithEagain() {
        assertThat(EventFd.signal(event, -2)).isZero();
        assertThat(EventFd.signal(event)).isEqualTo(-Errno.EAGAIN);
    }

    @Test
    void pollWaitsForTheDeadlineAndNoLonger() {
        long start = System.nanoTime();
        assertThat(Poll.poll(event, Poll.POLLIN, 50)).isZero();
        assertThat(System.nanoTime() - start)
                .isGreaterThanOrEqualTo(TimeUnit.MILLISECONDS.toNanos(50));
        assertThat(EventFd.signal(event)).isZero();
        assertThat(Poll.poll(event, Poll.POLLIN, -1)).isEqualTo(Poll.POLLIN);
    }

    @Test
    void pollTellsTwoDescriptorsApart() {
        int[] pair = new int[2];
        assertThat(
                        Sockets.socketpair(
                                Sockets.AF_UNIX,
                                Sockets.SOCK_STREAM | Sockets.SOCK_CLOEXEC,
                                0,
                                pair))
                .isZero();
        assertThat(Poll.poll(event, Poll.POLLIN, pair[0], Poll.POLLIN, 0)).isZero();
        assertThat(Descriptors.close(pair[1])).isZero();

        int result = Poll.poll(event, Poll.POLLIN, pair[0], Poll.POLLIN | Poll.POLLRDHUP, 1000);
        assertThat(Poll.first(result)).isZero();
        assertThat(Poll.second(result)).isEqualTo(Poll.POLLIN | Poll.POLLHUP | Poll.POLLRDHUP);

        assertThat(EventFd.signal(event)).isZero();
        result = Poll.poll(event, Poll.POLLIN, pair[0], 0, 1000);
        assertThat(Poll.first(result)).isEqualTo(Poll.POLLIN);
        assertThat(Poll.second(result)).isEqualTo(Poll.POLLHUP);
        assertThat(Descriptors.close(pair[0])).isZero();
        assertThat(Poll.poll(pair[0], Poll.POLLIN, 0)).isEqualTo(Poll.POLLNVAL);
    }
}
