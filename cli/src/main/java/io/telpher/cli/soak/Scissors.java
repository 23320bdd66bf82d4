package io.telpher.cli.soak;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import java.io.File;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Cuts a TCP connection under the engine's feet: finds the lane's descriptor among those of this
/// process and ends the stream, in an orderly way or by a reset. The descriptor itself stays the
/// engine's.
final class Scissors {
    private static final Pattern ENDS = Pattern.compile(".*:(\\d+) - .*:(\\d+)");
    private static final int SOCKET_ADDRESS_BYTES = 16;

    private Scissors() {}

    /// @param dice which lane, and how
    /// @return how many lanes were alive before; 0 when nothing was cut
    static int cut(Connection connection, int dice) {
        List<ConnectionMetrics.Lane> alive =
                connection.metrics().lanes().stream()
                        .filter(ConnectionMetrics.Lane::alive)
                        .toList();
        if (alive.isEmpty()) {
            return 0;
        }
        Matcher ends = ENDS.matcher(alive.get(dice % alive.size()).description());
        String[] descriptors = new File("/proc/self/fd").list();
        if (!ends.matches() || descriptors == null) {
            return 0;
        }
        int near = Integer.parseInt(ends.group(1));
        int far = Integer.parseInt(ends.group(2));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            for (String descriptor : descriptors) {
                int fd = Integer.parseInt(descriptor);
                if (port(Sockets.getsockname(fd, address), address) == near
                        && port(Sockets.getpeername(fd, address), address) == far) {
                    address.fill((byte) 0); // AF_UNSPEC: the kernel resets the stream
                    int rc =
                            dice % 2 == 0
                                    ? Sockets.shutdown(fd, Sockets.SHUT_RDWR)
                                    : Sockets.connect(fd, address, SOCKET_ADDRESS_BYTES);
                    return rc == 0 ? alive.size() : 0;
                }
            }
        }
        return 0;
    }

    private static int port(int length, MemorySegment address) {
        if (length < 0) {
            return -1;
        }
        int family = SocketAddresses.family(address);
        return family == Sockets.AF_INET || family == Sockets.AF_INET6
                ? SocketAddresses.decode(address).getPort()
                : -1;
    }
}
