package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SocketsTest {
    private static final int STREAM = Sockets.SOCK_STREAM | Sockets.SOCK_CLOEXEC;
    private static final int NON_BLOCKING = STREAM | Sockets.SOCK_NONBLOCK;

    private final Arena arena = Arena.ofShared();
    private final MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
    private final MemorySegment buffer = arena.allocate(1024);
    private final List<Integer> open = new ArrayList<>();

    @AfterEach
    void close() {
        for (int fd : open) {
            assertThat(Descriptors.close(fd)).isZero();
        }
        arena.close();
    }

    @Test
    void emptySocketSaysEagain() {
        int[] pair = pair(NON_BLOCKING);
        assertThat(Sockets.recv(pair[0], buffer, 16, 0)).isEqualTo(-Errno.EAGAIN);
        assertThat(Sockets.send(pair[1], buffer, 16, Sockets.MSG_NOSIGNAL)).isEqualTo(16);
        assertThat(Sockets.recv(pair[0], buffer, 16, Sockets.MSG_PEEK)).isEqualTo(16);
        assertThat(Sockets.recv(pair[0], buffer, 16, 0)).isEqualTo(16);
        assertThat(Sockets.recv(pair[0], buffer, 16, 0)).isEqualTo(-Errno.EAGAIN);
    }

    @Test
    void goneSocketSaysEpipeOrNothing() {
        int[] pair = pair(NON_BLOCKING);
        assertThat(Sockets.shutdown(pair[1], Sockets.SHUT_RDWR)).isZero();
        assertThat(Sockets.recv(pair[0], buffer, 16, 0)).isZero();
        assertThat(Sockets.send(pair[0], buffer, 16, Sockets.MSG_NOSIGNAL)).isEqualTo(-Errno.EPIPE);
        assertThat(Sockets.recv(-1, buffer, 16, 0)).isEqualTo(-Errno.EBADF);
        assertThat(Sockets.recv(0x7fff_ffff, buffer, 16, 0)).isEqualTo(-Errno.EBADF);
        assertThat(Sockets.socket(4711, STREAM, 0)).isEqualTo(-Errno.EAFNOSUPPORT);
    }

    @Test
    void ipv6LoopbackConnects() {
        tcp("::1");
    }

    @Test
    void ipv4LoopbackConnects() {
        tcp("127.0.0.1");
    }

    private void tcp(String host) {
        int length = SocketAddresses.encode(new InetSocketAddress(host, 0), address);
        int family = SocketAddresses.family(address);
        int listener = opened(Sockets.socket(family, NON_BLOCKING, 0));
        assertThat(Sockets.setsockopt(listener, Sockets.SOL_SOCKET, Sockets.SO_REUSEADDR, 1))
                .isZero();
        int bound = Sockets.bind(listener, address, length);
        assumeThat(bound).as("no " + host + " here").isNotEqualTo(-Errno.EADDRNOTAVAIL);
        assertThat(bound).isZero();
        assertThat(Sockets.listen(listener, 8)).isZero();
        assertThat(Sockets.accept4(listener, NON_BLOCKING & ~Sockets.SOCK_STREAM))
                .isEqualTo(-Errno.EAGAIN);
        assertThat(Sockets.getsockname(listener, address)).isEqualTo(length);
        InetSocketAddress listening = SocketAddresses.decode(address);
        assertThat(listening.getPort()).isPositive();

        int client = opened(Sockets.socket(family, NON_BLOCKING, 0));
        assertThat(Sockets.connect(client, address, length)).isIn(0, -Errno.EINPROGRESS);
        assertThat(Poll.poll(client, Poll.POLLOUT, 5_000)).isEqualTo(Poll.POLLOUT);
        assertThat(Sockets.getsockopt(client, Sockets.SOL_SOCKET, Sockets.SO_ERROR)).isZero();
        assertThat(Poll.poll(listener, Poll.POLLIN, 5_000)).isEqualTo(Poll.POLLIN);
        int server =
                opened(Sockets.accept4(listener, Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC));

        assertThat(Sockets.getpeername(client, address)).isEqualTo(length);
        assertThat(SocketAddresses.decode(address)).isEqualTo(listening);
        assertThat(Sockets.getsockname(client, address)).isEqualTo(length);
        InetSocketAddress own = SocketAddresses.decode(address);
        assertThat(Sockets.getpeername(server, address)).isEqualTo(length);
        assertThat(SocketAddresses.decode(address)).isEqualTo(own);

        options(client);
        assertThat(Sockets.send(client, buffer, 1000, Sockets.MSG_NOSIGNAL)).isEqualTo(1000);
        assertThat(Poll.poll(server, Poll.POLLIN, 5_000)).isEqualTo(Poll.POLLIN);
        assertThat(Sockets.recv(server, buffer, 1000, 0)).isEqualTo(1000);
        TcpInfo info = new TcpInfo(arena);
        assertThat(info.read(client)).isGreaterThan(100);
        assertThat(info.state()).isEqualTo(TcpInfo.TCP_ESTABLISHED);
        assertThat(info.rttMicros()).isPositive();
        assertThat(info.congestionWindow()).isPositive();
        assertThat(info.lastDataSentMillis()).isBetween(0, 60_000);
        assertThat(info.read(server)).isPositive();
        assertThat(info.bytesReceived()).isEqualTo(1000);
    }

    private static void options(int fd) {
        assertThat(Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_NODELAY, 1)).isZero();
        assertThat(Sockets.getsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_NODELAY)).isEqualTo(1);
        assertThat(Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_USER_TIMEOUT, 12_345))
                .isZero();
        assertThat(Sockets.getsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_USER_TIMEOUT))
                .isEqualTo(12_345);
        String congestion = Sockets.getsockoptText(fd, Sockets.IPPROTO_TCP, Sockets.TCP_CONGESTION);
        assertThat(congestion).matches("[a-z0-9_]+");
        assertThat(
                        Sockets.setsockoptText(
                                fd, Sockets.IPPROTO_TCP, Sockets.TCP_CONGESTION, congestion))
                .isZero();
        assertThat(
                        Sockets.setsockoptText(
                                fd, Sockets.IPPROTO_TCP, Sockets.TCP_CONGESTION, "nonesuch"))
                .isEqualTo(-Errno.ENOENT);
        assertThat(Sockets.getsockopt(fd, Sockets.IPPROTO_TCP, 4711)).isEqualTo(-Errno.ENOPROTOOPT);
        assertThat(Sockets.getsockoptText(fd, Sockets.IPPROTO_TCP, 4711)).isNull();
    }

    @Test
    void closedPortRefuses() {
        int length = SocketAddresses.encode(new InetSocketAddress("127.0.0.1", 0), address);
        int bound = opened(Sockets.socket(Sockets.AF_INET, STREAM, 0));
        assertThat(Sockets.bind(bound, address, length)).isZero();
        assertThat(Sockets.getsockname(bound, address)).isEqualTo(length);
        int client = opened(Sockets.socket(Sockets.AF_INET, STREAM, 0));
        assertThat(Sockets.connect(client, address, length)).isEqualTo(-Errno.ECONNREFUSED);
        int second = opened(Sockets.socket(Sockets.AF_INET, STREAM, 0));
        assertThat(Sockets.bind(second, address, length)).isEqualTo(-Errno.EADDRINUSE);
    }

    @Test
    void abstractUnixSocketKnowsItsPeer() {
        String name = "telpher-test-" + Processes.getpid();
        int length = SocketAddresses.encodeUnixAbstract(name, address);
        int listener = opened(Sockets.socket(Sockets.AF_UNIX, NON_BLOCKING, 0));
        assertThat(Sockets.bind(listener, address, length)).isZero();
        assertThat(Sockets.listen(listener, 4)).isZero();
        int client = opened(Sockets.socket(Sockets.AF_UNIX, NON_BLOCKING, 0));
        assertThat(Sockets.connect(client, address, length)).isZero();
        int server = opened(Sockets.accept4(listener, Sockets.SOCK_CLOEXEC));

        assertThat(SocketAddresses.decodeUnix(address, Sockets.getpeername(client, address)))
                .isEqualTo("@" + name);
        assertThat(Sockets.getpeername(server, address)).isEqualTo(2);
        Sockets.PeerCredentials peer = Sockets.peerCredentials(server);
        assertThat(peer).isNotNull();
        assertThat(peer.pid()).isEqualTo(Processes.getpid());
        assertThat(Sockets.peerCredentials(-1)).isNull();

        long pidfd = Sockets.getsockopt(server, Sockets.SOL_SOCKET, Sockets.SO_PEERPIDFD);
        assumeThat(pidfd).as("SO_PEERPIDFD needs Linux 6.5").isNotEqualTo(-Errno.ENOPROTOOPT);
        assertThat(Poll.poll(opened((int) pidfd), Poll.POLLIN, 0)).isZero();
    }

    @Test
    void unixSocketInTheFileSystem(@TempDir Path folder) {
        String path = folder.resolve("s").toString();
        int length = SocketAddresses.encodeUnixPath(path, address);
        int listener = opened(Sockets.socket(Sockets.AF_UNIX, NON_BLOCKING, 0));
        assertThat(Sockets.bind(listener, address, length)).isZero();
        assertThat(Files.exists(Path.of(path))).isTrue();
        int received = Sockets.getsockname(listener, address);
        assertThat(SocketAddresses.decodeUnix(address, received)).isEqualTo(path);
    }

    @Test
    void vectorsSurvivePartialWrites() {
        int[] pair = pair(NON_BLOCKING);
        long half = 700_001;
        MemorySegment source = arena.allocate(2 * half);
        for (long i = 0; i < source.byteSize(); i++) {
            source.set(ValueLayout.JAVA_BYTE, i, (byte) (i * 31 ^ i >> 9));
        }
        MemorySegment target = arena.allocate(2 * half);
        IoVec out = new IoVec(arena, 3);
        out.add(source.asSlice(0, half));
        out.add(source.asSlice(half, 0));
        out.add(source.asSlice(half, half));
        IoVec in = new IoVec(arena, 2);
        in.add(target.asSlice(0, 5));
        in.add(target.asSlice(5));

        boolean partial = false;
        while (in.count() > 0) {
            if (out.count() > 0) {
                long written = Sockets.writev(pair[0], out.segment(), out.count(), source);
                if (written > 0) {
                    partial |= written < out.remaining();
                    out.advance(written);
                } else {
                    assertThat(written).isEqualTo(-Errno.EAGAIN);
                }
            }
            long read = Sockets.readv(pair[1], in.segment(), in.count(), target);
            assertThat(read).isPositive();
            in.advance(read);
        }
        assertThat(partial).isTrue();
        assertThat(source.mismatch(target)).isEqualTo(-1);
        assertThat(Sockets.readv(pair[1], out.segment(), 0, target)).isZero();
        assertThatThrownBy(() -> Sockets.writev(pair[0], out.segment(), 4, source))
                .isInstanceOf(IndexOutOfBoundsException.class);
    }

    @Test
    void messagesCarryVectors() {
        int[] pair = pair(Sockets.SOCK_SEQPACKET | Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC);
        MemorySegment text = arena.allocateFrom("one way or another");
        IoVec iov = new IoVec(arena, 2);
        iov.add(text.asSlice(0, 7));
        iov.add(text.asSlice(10, 8));
        MsgHdr message = new MsgHdr(arena);
        message.iov(iov);
        assertThat(Sockets.sendmsg(pair[0], message.segment(), Sockets.MSG_NOSIGNAL, text))
                .isEqualTo(15);

        iov.clear();
        iov.add(buffer.asSlice(0, 10));
        message.iov(iov);
        assertThat(Sockets.recvmsg(pair[1], message.segment(), 0, buffer)).isEqualTo(10);
        assertThat(message.flags() & Sockets.MSG_TRUNC).isEqualTo(Sockets.MSG_TRUNC);
        assertThat(buffer.getString(0)).isEqualTo("one way" + " an");
        assertThat(Sockets.recvmsg(pair[1], message.segment(), 0, buffer)).isEqualTo(-Errno.EAGAIN);
    }

    @Test
    void memoryOfAPendingCallCannotBeClosed() throws Exception {
        int[] pair = pair(STREAM);
        refusesClose(
                pair,
                arena2 -> {
                    MemorySegment memory = arena2.allocate(8);
                    return () -> Sockets.recv(pair[0], memory, 8, 0);
                });
    }

    @Test
    void memoryBehindAVectorCannotBeClosedEither() throws Exception {
        int[] pair = pair(STREAM);
        IoVec iov = new IoVec(arena, 1);
        refusesClose(
                pair,
                arena2 -> {
                    MemorySegment memory = arena2.allocate(8);
                    iov.add(memory);
                    return () -> Sockets.readv(pair[0], iov.segment(), 1, memory);
                });
    }

    private interface Blocking {
        LongSupplier in(Arena arena);
    }

    private void refusesClose(int[] pair, Blocking blocking) throws Exception {
        try (Arena target = Arena.ofShared()) {
            LongSupplier call = blocking.in(target);
            CompletableFuture<Integer> tid = new CompletableFuture<>();
            CompletableFuture<Long> result = new CompletableFuture<>();
            Thread.ofPlatform()
                    .daemon()
                    .start(
                            () -> {
                                tid.complete(Processes.gettid());
                                result.complete(call.getAsLong());
                            });
            awaitInSocketRead(tid.get());
            assertThatThrownBy(target::close).isInstanceOf(IllegalStateException.class);
            assertThat(Sockets.send(pair[1], buffer, 8, Sockets.MSG_NOSIGNAL)).isEqualTo(8);
            assertThat(result.get()).isEqualTo(8);
        }
    }

    /// Waits until a thread of this process sits in `recvfrom` or `readv`.
    private static void awaitInSocketRead(int tid) throws Exception {
        Path syscall = Path.of("/proc/self/task/" + tid + "/syscall");
        assumeThat(Files.isReadable(syscall)).as("no " + syscall).isTrue();
        List<String> numbers = LibC.X86_64 ? List.of("45 ", "19 ") : List.of("207 ", "65 ");
        while (numbers.stream().noneMatch(readLine(syscall)::startsWith)) {
            Thread.sleep(1);
        }
    }

    private static String readLine(Path file) throws Exception {
        return Files.readString(file);
    }

    @Test
    void closedMemoryIsRefused() {
        int[] pair = pair(NON_BLOCKING);
        MemorySegment closed;
        try (Arena other = Arena.ofShared()) {
            closed = other.allocate(8);
        }
        assertThatThrownBy(() -> Sockets.recv(pair[0], closed, 8, 0))
                .isInstanceOf(IllegalStateException.class);
        IoVec iov = new IoVec(arena, 1);
        iov.add(closed);
        assertThatThrownBy(() -> Sockets.readv(pair[0], iov.segment(), 1, closed))
                .isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> Sockets.recv(pair[0], buffer, 1025, 0))
                .isInstanceOf(IndexOutOfBoundsException.class);
    }

    private int opened(int fd) {
        assertThat(fd).as(() -> Errno.describe(fd)).isNotNegative();
        open.add(fd);
        return fd;
    }

    private int[] pair(int type) {
        int[] fds = new int[2];
        assertThat(Sockets.socketpair(Sockets.AF_UNIX, type, 0, fds)).isZero();
        open.add(fds[0]);
        open.add(fds[1]);
        return fds;
    }
}
