package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class FdPassingTest {
    private final Arena arena = Arena.ofShared();
    private final int[] pair = new int[2];
    private final MemorySegment hello = arena.allocateFrom("hello").asSlice(0, 5);
    private final MemorySegment into = arena.allocate(64);

    @BeforeEach
    void connect() {
        connect(pair);
    }

    @AfterEach
    void close() {
        assertThat(Descriptors.close(pair[0])).isZero();
        assertThat(Descriptors.close(pair[1])).isZero();
        arena.close();
    }

    @Test
    void sharedMemoryAndEventsArrive() {
        int memory = Memory.memfdCreate("telpher-test", Memory.MFD_CLOEXEC);
        int event = EventFd.create();
        assertThat(FdPassing.send(pair[0], hello, memory, event)).isEqualTo(5);
        assertThat(Descriptors.write(memory, hello, 5)).isEqualTo(5);
        assertThat(Descriptors.close(memory)).isZero();

        FdPassing.Received received = FdPassing.receive(pair[1], into, 2);
        assertThat(received.bytes()).isEqualTo(5);
        assertThat(received.truncated()).isFalse();
        assertThat(into.getString(0)).isEqualTo("hello");
        assertThat(received.descriptors()).hasSize(2).doesNotContain(event);

        int theirMemory = received.descriptors()[0];
        int theirEvent = received.descriptors()[1];
        assertThat(Memory.size(theirMemory)).isEqualTo(5);
        assertThat(EventFd.signal(theirEvent)).isZero();
        assertThat(EventFd.drain(event)).isEqualTo(1);
        for (int fd : received.descriptors()) {
            assertThat(Descriptors.fcntl(fd, Descriptors.F_GETFD, 0))
                    .isEqualTo(Descriptors.FD_CLOEXEC);
            assertThat(Descriptors.close(fd)).isZero();
        }
        assertThat(Descriptors.close(event)).isZero();
    }

    @Test
    void anyNumberArrivesUpToTheLimit() {
        for (int count : new int[] {0, 1, 2, 3, FdPassing.MAX_DESCRIPTORS}) {
            int[] fds = new int[count];
            Arrays.fill(fds, pair[0]);
            assertThat(FdPassing.send(pair[0], hello, fds)).isEqualTo(5);
            FdPassing.Received received = FdPassing.receive(pair[1], into, count);
            assertThat(received.bytes()).isEqualTo(5);
            assertThat(received.truncated()).isFalse();
            assertThat(received.descriptors()).hasSize(count);
            for (int fd : received.descriptors()) {
                assertThat(Descriptors.close(fd)).isZero();
            }
        }
        assertThat(FdPassing.send(pair[0], hello, new int[FdPassing.MAX_DESCRIPTORS + 1]))
                .isEqualTo(-Errno.EINVAL);
    }

    /// The far end of a passed socket sees the end of the stream only when every descriptor for it
    /// is closed.
    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void surplusDescriptorsAreClosed(int most) {
        int[] passed = new int[2];
        connect(passed);
        assertThat(FdPassing.send(pair[0], hello, passed[0], passed[0])).isEqualTo(5);
        assertThat(Descriptors.close(passed[0])).isZero();

        FdPassing.Received received = FdPassing.receive(pair[1], into, most);
        assertThat(received.bytes()).isEqualTo(5);
        assertThat(received.truncated()).isTrue();
        assertThat(received.descriptors()).isEmpty();
        assertThat(Sockets.recv(passed[1], into, 1, Sockets.MSG_DONTWAIT)).isZero();
        assertThat(Descriptors.close(passed[1])).isZero();
    }

    @Test
    void messagesWithDescriptorsAreNotMerged() {
        assertThat(FdPassing.send(pair[0], hello, pair[0])).isEqualTo(5);
        assertThat(FdPassing.send(pair[0], hello, pair[1])).isEqualTo(5);
        for (int i = 0; i < 2; i++) {
            FdPassing.Received received = FdPassing.receive(pair[1], into, 4);
            assertThat(received.bytes()).isEqualTo(5);
            assertThat(received.descriptors()).hasSize(1);
            assertThat(Descriptors.close(received.descriptors()[0])).isZero();
        }
    }

    @Test
    void failuresAndTheEndAreReported() {
        assertThat(FdPassing.send(pair[0], hello.asSlice(0, 0), pair[0])).isEqualTo(-Errno.EINVAL);
        assertThat(FdPassing.send(pair[0], hello, -1)).isEqualTo(-Errno.EBADF);
        assertThat(FdPassing.receive(pair[1], into, 1).bytes()).isEqualTo(-Errno.EAGAIN);
        assertThat(Sockets.shutdown(pair[0], Sockets.SHUT_WR)).isZero();
        assertThat(FdPassing.receive(pair[1], into, 1).bytes()).isZero();
        assertThat(FdPassing.send(pair[0], hello)).isEqualTo(-Errno.EPIPE);
    }

    @Test
    void controlMessagesAreAligned() {
        assertThat(FdPassing.align(0)).isZero();
        assertThat(FdPassing.align(1)).isEqualTo(8);
        assertThat(FdPassing.align(8)).isEqualTo(8);
        assertThat(into.byteSize() % ValueLayout.JAVA_LONG.byteAlignment()).isZero();
    }

    private static void connect(int[] fds) {
        int type = Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC;
        assertThat(Sockets.socketpair(Sockets.AF_UNIX, type, 0, fds)).isZero();
    }
}
