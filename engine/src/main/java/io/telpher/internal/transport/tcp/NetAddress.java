package io.telpher.internal.transport.tcp;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// One IP address of a network interface, here or at a peer.
///
/// @param ip the address, without a scope
/// @param prefix how many leading bits name the subnet
/// @param nic the interface's name on the host that has it
/// @param scope the interface's index on that host, what link-local addresses need there
/// @param speed the interface's speed in Mb/s, 0 when unknown
/// @param port the TCP port that an endpoint listens on at this address, 0 for none
record NetAddress(InetAddress ip, int prefix, String nic, int scope, int speed, int port) {
    private static final byte VERSION = 1;

    NetAddress {
        ip = withoutScope(ip);
        if (prefix < 0 || prefix > ip.getAddress().length * 8) {
            throw new IllegalArgumentException(
                    "prefix length " + prefix + " of " + ip.getHostAddress());
        }
    }

    /// Java gives every IPv6 address of an interface a scope, global ones too; here the scope is
    /// kept apart, so that the same address is equal on both sides.
    private static InetAddress withoutScope(InetAddress ip) {
        try {
            return InetAddress.getByAddress(ip.getAddress());
        } catch (UnknownHostException e) {
            throw new IllegalStateException("4 and 16 bytes always make an address", e);
        }
    }

    boolean inet6() {
        return ip instanceof Inet6Address;
    }

    boolean loopback() {
        return ip.isLoopbackAddress();
    }

    boolean linkLocal() {
        return ip.isLinkLocalAddress();
    }

    NetAddress withPort(int value) {
        return new NetAddress(ip, prefix, nic, scope, speed, value);
    }

    /// @return whether this address's own prefix says that the other is on the same link
    boolean covers(InetAddress other) {
        return samePrefix(ip.getAddress(), other.getAddress(), prefix);
    }

    /// @return whether two addresses of one family agree in their first `bits` bits
    static boolean samePrefix(byte[] a, byte[] b, int bits) {
        if (a.length != b.length) {
            return false;
        }
        int whole = bits / 8;
        if (!Arrays.equals(a, 0, whole, b, 0, whole)) {
            return false;
        }
        int rest = bits % 8;
        return rest == 0 || ((a[whole] ^ b[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
    }

    /// The locator's data. Little-endian: version 1, family 4 or 6, prefix length, length of the
    /// interface's name (1 byte each), port (2), speed (4), the address (4 or 16) and the name.
    /// Bytes of later versions follow and are skipped.
    byte[] encode() {
        byte[] address = ip.getAddress();
        byte[] name = nic.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(10 + address.length + name.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .put(VERSION)
                .put((byte) (inet6() ? 6 : 4))
                .put((byte) prefix)
                .put((byte) name.length)
                .putShort((short) port)
                .putInt(speed)
                .put(address)
                .put(name)
                .array();
    }

    /// Reads [#encode()]. The scope stays behind: it means something on the peer's host only.
    ///
    /// @throws IllegalArgumentException when the bytes are something else
    static NetAddress decode(byte[] data) {
        try {
            ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
            int version = in.get();
            int family = in.get();
            if (version < 1 || (family != 4 && family != 6)) {
                throw new IllegalArgumentException(
                        "a tcp locator of version " + version + " and family " + family);
            }
            int prefix = Byte.toUnsignedInt(in.get());
            byte[] name = new byte[Byte.toUnsignedInt(in.get())];
            int port = Short.toUnsignedInt(in.getShort());
            int speed = Math.max(0, in.getInt());
            byte[] address = new byte[family == 4 ? 4 : 16];
            in.get(address).get(name);
            if (port == 0) {
                throw new IllegalArgumentException("a tcp locator without a port");
            }
            return new NetAddress(
                    InetAddress.getByAddress(address),
                    prefix,
                    new String(name, StandardCharsets.UTF_8),
                    0,
                    speed,
                    port);
        } catch (BufferUnderflowException | UnknownHostException e) {
            throw new IllegalArgumentException(
                    "a tcp locator cut short: " + data.length + " bytes", e);
        }
    }

    /// @return the address in its usual short form
    static String text(InetAddress ip) {
        String text = ip.getHostAddress();
        if (!(ip instanceof Inet6Address)) {
            return text;
        }
        int percent = text.indexOf('%');
        String scope = percent < 0 ? "" : text.substring(percent);
        String[] groups = (percent < 0 ? text : text.substring(0, percent)).split(":");
        int best = -1;
        int bestLength = 1;
        for (int i = 0; i < groups.length; i++) {
            int j = i;
            while (j < groups.length && groups[j].equals("0")) {
                j++;
            }
            if (j - i > bestLength) {
                best = i;
                bestLength = j - i;
            }
            i = Math.max(i, j);
        }
        if (best < 0) {
            return String.join(":", groups) + scope;
        }
        String head = String.join(":", Arrays.copyOfRange(groups, 0, best));
        String tail =
                String.join(":", Arrays.copyOfRange(groups, best + bestLength, groups.length));
        return head + "::" + tail + scope;
    }

    /// @return the address and its port
    static String text(InetAddress ip, int port) {
        return ip instanceof Inet6Address ? "[" + text(ip) + "]:" + port : text(ip) + ":" + port;
    }

    /// @return the address with its prefix length and interface
    String subnetText() {
        return text(ip) + "/" + prefix + " (" + nic + ")";
    }

    /// @return the address with its port, where it has one, and interface
    @Override
    public String toString() {
        return (port == 0 ? text(ip) : text(ip, port)) + " (" + nic + ")";
    }
}
