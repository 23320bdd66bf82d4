package io.telpher.internal.transport.shm;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.HostIdentity;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The listening Unix socket of one endpoint: an abstract name, which leaves no file, or a file in
/// a folder that containers share. Accepting happens on the progress thread and never blocks.
final class ShmListener implements AutoCloseable {
    private static final String PREFIX = "telpher-";
    private static final String SUFFIX = ".sock";
    private static final int BACKLOG = 512;

    /// Most sockets taken in at once, so that a flood does not keep the progress thread.
    private static final int BATCH = 32;

    private final int fd;
    private final ShmLocator locator;

    /// Kept for the moment when the process has no descriptor left: given up to take in and close
    /// what waits, which otherwise would wake the progress thread again and again.
    private int spare = openSpare();

    private ShmListener(int fd, ShmLocator locator) {
        this.fd = fd;
        this.locator = locator;
    }

    /// Takes what an incoming socket became.
    interface Sink {
        void accepted(UnixChannel channel);
    }

    /// Binds and listens.
    ///
    /// @param folder for the socket's file, or null for an abstract name
    static ShmListener open(long incarnation, @Nullable String folder, HostIdentity host) {
        String name = PREFIX + HexFormat.of().toHexDigits(incarnation);
        ShmLocator locator;
        if (folder == null) {
            locator = new ShmLocator(ShmLocator.Kind.ABSTRACT, host.netNamespace(), name);
        } else {
            Path path = Path.of(folder).toAbsolutePath();
            sweep(path);
            locator =
                    new ShmLocator(
                            ShmLocator.Kind.PATH,
                            host.netNamespace(),
                            path.resolve(name + SUFFIX).toString());
        }
        int fd = socket();
        int result = bind(fd, locator);
        if (result == -Errno.EADDRINUSE && locator.kind() == ShmLocator.Kind.PATH) {
            removeIfDead(Path.of(locator.name()));
            result = bind(fd, locator);
        }
        String call = "bind";
        if (result >= 0) {
            call = "listen";
            result = Sockets.listen(fd, BACKLOG);
        }
        if (result < 0) {
            int unused = Descriptors.close(fd);
            throw new TelpherException.NativeFailure(
                    call,
                    -result,
                    List.of(locator.text()),
                    Errno.describe(-result)
                            + (folder == null
                                    ? ""
                                    : "; the socket folder must exist and be writable"));
        }
        return new ShmListener(fd, locator);
    }

    /// @return a new non-blocking Unix stream socket
    private static int socket() {
        int type = Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC;
        int fd = Sockets.socket(Sockets.AF_UNIX, type, 0);
        if (fd < 0) {
            throw Mapping.failure(fd, "socket", "AF_UNIX");
        }
        return fd;
    }

    private static int bind(int fd, ShmLocator locator) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            return Sockets.bind(fd, address, encode(locator, address));
        }
    }

    /// Writes the listener's name as a socket address; the kernel allows 107 bytes.
    private static int encode(ShmLocator locator, MemorySegment to) {
        try {
            return locator.kind() == ShmLocator.Kind.ABSTRACT
                    ? SocketAddresses.encodeUnixAbstract(locator.name(), to)
                    : SocketAddresses.encodeUnixPath(locator.name(), to);
        } catch (IllegalArgumentException e) {
            throw new TelpherException.Unsupported(
                    "%s: %s; choose a shorter socket folder"
                            .formatted(locator.text(), e.getMessage()));
        }
    }

    /// Connects to a listener; a Unix socket answers at once.
    ///
    /// @return a connected socket, or `-errno`: `-EAGAIN` when the listener's queue is full
    static int connect(ShmLocator locator) {
        int fd = socket();
        int result;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            int length = encode(locator, address);
            do {
                result = Sockets.connect(fd, address, length);
            } while (result == -Errno.EINTR);
        } catch (TelpherException e) {
            result = -Errno.ENAMETOOLONG;
        }
        if (result < 0) {
            int unused = Descriptors.close(fd);
            return result;
        }
        return fd;
    }

    /// Removes what killed processes left behind in the folder.
    private static void sweep(Path folder) {
        try (DirectoryStream<Path> files =
                Files.newDirectoryStream(folder, PREFIX + "*" + SUFFIX)) {
            for (Path file : files) {
                removeIfDead(file);
            }
        } catch (IOException e) {
            // Binding says what is wrong with the folder.
        }
    }

    /// Only a refused connection proves that nobody listens any more.
    private static void removeIfDead(Path file) {
        int fd = connect(new ShmLocator(ShmLocator.Kind.PATH, 0, file.toString()));
        if (fd >= 0) {
            int unused = Descriptors.close(fd);
        } else if (fd == -Errno.ECONNREFUSED) {
            remove(file);
        }
    }

    private static void remove(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            // Somebody else's file: it stays.
        }
    }

    private static int openSpare() {
        return Descriptors.open("/dev/null", Descriptors.O_RDONLY | Descriptors.O_CLOEXEC, 0);
    }

    /// Takes in what waits. On the progress thread only.
    void accept(Sink sink) {
        for (int i = 0; i < BATCH; i++) {
            int flags = Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC;
            int socket = Sockets.accept4(fd, flags);
            if (socket == -Errno.EMFILE || socket == -Errno.ENFILE) {
                turnAway();
                return;
            }
            if (socket == -Errno.ECONNABORTED) {
                continue;
            }
            if (socket < 0) {
                return;
            }
            Sockets.PeerCredentials who = Sockets.peerCredentials(socket);
            String from = who == null ? "unknown process" : "process " + who.pid();
            sink.accepted(new UnixChannel(socket, locator.text() + " from " + from));
        }
    }

    /// Takes in one socket and closes it at once: its peer hears of it, and the queue gets shorter.
    private void turnAway() {
        Mapping.closeDescriptor(spare);
        int socket = Sockets.accept4(fd, Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC);
        Mapping.closeDescriptor(socket);
        spare = openSpare();
    }

    int fd() {
        return fd;
    }

    ShmLocator locator() {
        return locator;
    }

    /// Stops listening and removes the socket's file.
    @Override
    public void close() {
        Mapping.closeDescriptor(fd);
        Mapping.closeDescriptor(spare);
        if (locator.kind() == ShmLocator.Kind.PATH) {
            remove(Path.of(locator.name()));
        }
    }
}
