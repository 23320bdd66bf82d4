package io.telpher.cli.doctor;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// Finds out who is at the other end of an interface: a datagram makes the kernel ask for the
/// hardware address, and its table says who answered.
final class Neighbours {
    private static final Path TABLE = Path.of("/proc/net/arp");
    private static final long PATIENCE = TimeUnit.MILLISECONDS.toNanos(1500);

    /// Nobody listens there, and nobody has to.
    private static final int DISCARD = 9;

    /// In the table's third column: the kernel has an answer.
    private static final int COMPLETE = 2;

    private Neighbours() {}

    /// @return the hardware address that answers for an address at an interface, or null
    static @Nullable String ask(String netdev, InetAddress source, InetAddress peer) {
        int kind = Sockets.SOCK_DGRAM | Sockets.SOCK_CLOEXEC | Sockets.SOCK_NONBLOCK;
        int fd = Sockets.socket(Sockets.AF_INET, kind, 0);
        if (fd < 0) {
            return null;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            MemorySegment nothing = arena.allocate(1);
            int length = SocketAddresses.encode(new InetSocketAddress(source, 0), address);
            if (Sockets.setsockoptText(fd, Sockets.SOL_SOCKET, Sockets.SO_BINDTODEVICE, netdev) < 0
                    || Sockets.bind(fd, address, length) < 0) {
                return null;
            }
            length = SocketAddresses.encode(new InetSocketAddress(peer, DISCARD), address);
            if (Sockets.connect(fd, address, length) < 0 || Sockets.send(fd, nothing, 1, 0) < 0) {
                return null;
            }
            long end = System.nanoTime() + PATIENCE;
            while (true) {
                String answer = entry(Files.readString(TABLE), netdev, peer);
                if (answer != null || System.nanoTime() > end) {
                    return answer;
                }
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
            }
        } catch (IOException e) {
            return null; // no table: no network, or hidden
        } finally {
            int unused = Descriptors.close(fd);
        }
    }

    /// Columns: address, type, flags, hardware address, mask, interface.
    static @Nullable String entry(String table, String netdev, InetAddress peer) {
        for (String line : table.lines().skip(1).toList()) {
            String[] columns = line.strip().split("\\s+");
            if (columns.length >= 6
                    && columns[0].equals(peer.getHostAddress())
                    && columns[5].equals(netdev)
                    && (Integer.decode(columns[2]) & COMPLETE) != 0) {
                return columns[3];
            }
        }
        return null;
    }
}
