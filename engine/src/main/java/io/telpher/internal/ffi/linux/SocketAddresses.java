package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.Inet4Address;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// Socket addresses in the form that the kernel wants. The `encode` methods return the length to
/// pass along.
///
/// ```text
/// sockaddr_in    0 family  2 port (big-endian)  4 address                                  16 end
/// sockaddr_in6   0 family  2 port (big-endian)  4 flow info  8 address (16)  24 scope id   28 end
/// sockaddr_un    0 family  2 path (108): a path and NUL, or NUL and an abstract name      110 end
/// ```
public final class SocketAddresses {
    /// Enough for every kind of address (`struct sockaddr_storage`).
    public static final int STORAGE_BYTES = 128;

    static final int FAMILY = 0;
    static final int IN_PORT = 2;
    static final int IN_ADDRESS = 4;
    static final int IN_BYTES = 16;
    static final int IN6_FLOW_INFO = 4;
    static final int IN6_ADDRESS = 8;
    static final int IN6_SCOPE_ID = 24;
    static final int IN6_BYTES = 28;
    static final int UN_PATH = 2;
    static final int UN_BYTES = 110;

    /// The longest name of either kind: one byte of the path is the NUL that ends or begins it.
    public static final int MAX_UNIX_NAME_BYTES = UN_BYTES - UN_PATH - 1;

    private static final ValueLayout.OfShort PORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private SocketAddresses() {}

    /// Writes `sockaddr_in` or `sockaddr_in6`, whichever the address is.
    public static int encode(InetSocketAddress address, MemorySegment to) {
        InetAddress ip = resolved(address);
        return ip instanceof Inet6Address
                ? encodeInet6(address, to)
                : encodeInet4(ip, address.getPort(), to);
    }

    /// Writes `sockaddr_in6`, an IPv4 address in its mapped form: for sockets of [Sockets#AF_INET6]
    /// that carry both.
    public static int encodeInet6(InetSocketAddress address, MemorySegment to) {
        InetAddress ip = resolved(address);
        byte[] bytes = ip.getAddress();
        to.asSlice(0, IN6_BYTES).fill((byte) 0);
        to.set(JAVA_SHORT, FAMILY, (short) Sockets.AF_INET6);
        to.set(PORT, IN_PORT, (short) address.getPort());
        if (ip instanceof Inet6Address inet6) {
            MemorySegment.copy(bytes, 0, to, JAVA_BYTE, IN6_ADDRESS, 16);
            to.set(JAVA_INT, IN6_SCOPE_ID, inet6.getScopeId());
        } else {
            to.set(JAVA_SHORT, IN6_ADDRESS + 10, (short) -1);
            MemorySegment.copy(bytes, 0, to, JAVA_BYTE, IN6_ADDRESS + 12, 4);
        }
        return IN6_BYTES;
    }

    private static int encodeInet4(InetAddress ip, int port, MemorySegment to) {
        to.asSlice(0, IN_BYTES).fill((byte) 0);
        to.set(JAVA_SHORT, FAMILY, (short) Sockets.AF_INET);
        to.set(PORT, IN_PORT, (short) port);
        MemorySegment.copy(ip.getAddress(), 0, to, JAVA_BYTE, IN_ADDRESS, 4);
        return IN_BYTES;
    }

    private static InetAddress resolved(InetSocketAddress address) {
        InetAddress ip = address.getAddress();
        if (ip == null) {
            throw new IllegalArgumentException("not resolved: " + address);
        }
        return ip;
    }

    /// Writes `sockaddr_un` for a path in the file system.
    public static int encodeUnixPath(String path, MemorySegment to) {
        byte[] name = unixName(path);
        to.asSlice(0, UN_BYTES).fill((byte) 0);
        to.set(JAVA_SHORT, FAMILY, (short) Sockets.AF_UNIX);
        MemorySegment.copy(name, 0, to, JAVA_BYTE, UN_PATH, name.length);
        return UN_PATH + name.length + 1;
    }

    /// Writes `sockaddr_un` for an abstract name: no file, gone with the last socket, seen in this
    /// network namespace only.
    public static int encodeUnixAbstract(String name, MemorySegment to) {
        byte[] bytes = unixName(name);
        to.asSlice(0, UN_BYTES).fill((byte) 0);
        to.set(JAVA_SHORT, FAMILY, (short) Sockets.AF_UNIX);
        MemorySegment.copy(bytes, 0, to, JAVA_BYTE, UN_PATH + 1, bytes.length);
        return UN_PATH + 1 + bytes.length;
    }

    private static byte[] unixName(String name) {
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        if (bytes.length == 0 || bytes.length > MAX_UNIX_NAME_BYTES) {
            throw new IllegalArgumentException(
                    "a Unix socket name has 1 to "
                            + MAX_UNIX_NAME_BYTES
                            + " bytes, not "
                            + bytes.length);
        }
        return bytes;
    }

    /// `AF_INET`, `AF_INET6` or `AF_UNIX`.
    public static int family(MemorySegment address) {
        return address.get(JAVA_SHORT, FAMILY) & 0xffff;
    }

    /// Reads an IP address; a mapped IPv4 address comes out as IPv4.
    public static InetSocketAddress decode(MemorySegment address) {
        int family = family(address);
        int port = address.get(PORT, IN_PORT) & 0xffff;
        try {
            return switch (family) {
                case Sockets.AF_INET ->
                        new InetSocketAddress(
                                InetAddress.getByAddress(bytes(address, IN_ADDRESS, 4)), port);
                case Sockets.AF_INET6 -> {
                    byte[] bytes = bytes(address, IN6_ADDRESS, 16);
                    int scope = address.get(JAVA_INT, IN6_SCOPE_ID);
                    // The plain factory turns mapped addresses into IPv4 ones, but knows no scope.
                    InetAddress plain = InetAddress.getByAddress(bytes);
                    InetAddress ip =
                            plain instanceof Inet4Address || scope == 0
                                    ? plain
                                    : Inet6Address.getByAddress(null, bytes, scope);
                    yield new InetSocketAddress(ip, port);
                }
                default ->
                        throw new IllegalArgumentException("not an IP address: family " + family);
            };
        } catch (UnknownHostException e) {
            throw new IllegalStateException("4 and 16 bytes always make an address", e);
        }
    }

    /// Reads the name of a Unix socket: a path, `@` and the name if abstract, empty if it has none.
    /// `length` is what the kernel returned.
    public static String decodeUnix(MemorySegment address, int length) {
        int size = Math.min(length, UN_BYTES) - UN_PATH;
        if (size <= 0) {
            return "";
        }
        byte[] path = bytes(address, UN_PATH, size);
        if (path[0] == 0) {
            return "@" + new String(path, 1, size - 1, StandardCharsets.UTF_8);
        }
        int end = 0;
        while (end < size && path[end] != 0) {
            end++;
        }
        return new String(Arrays.copyOf(path, end), StandardCharsets.UTF_8);
    }

    private static byte[] bytes(MemorySegment from, int offset, int length) {
        return from.asSlice(offset, length).toArray(JAVA_BYTE);
    }
}
