package io.telpher.internal.transport.verbs;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// A port and the GID by which it is used, here or at a peer.
///
/// @param device name of its device on the host that has it
/// @param port number of the port, from 1
/// @param ethernet its link layer: Ethernet (RoCE v2), or else InfiniBand
/// @param gid 16 bytes, in network order
/// @param gidIndex of that GID in the port's table: means something on its own host only
/// @param prefix how many leading bits of the GID's address name the subnet, -1 when unknown
/// @param lid in its InfiniBand subnet, 0 on Ethernet
/// @param mtu active MTU as the library codes it
/// @param mbps speed in Mb/s, 0 when unknown
/// @param global whether its packets must carry GIDs, as those of InfiniBand's virtual functions;
///     known on its own host only
@SuppressWarnings("ArrayRecordComponent") // equal by content, and nobody writes it
record Rail(
        String device,
        int port,
        boolean ethernet,
        byte[] gid,
        int gidIndex,
        int prefix,
        int lid,
        int mtu,
        int mbps,
        boolean global) {
    static final int GID_BYTES = 16;

    private static final byte VERSION = 1;
    private static final int IPV4_BITS_BEFORE = 96;

    /// Whether the address is an IPv4 one.
    boolean inet4() {
        return isInet4(gid);
    }

    static boolean isInet4(byte[] gid) {
        for (int i = 0; i < 10; i++) {
            if (gid[i] != 0) {
                return false;
            }
        }
        return gid[10] == (byte) 0xff && gid[11] == (byte) 0xff;
    }

    /// Whether the address is an IPv6 one that means something on its own link only.
    boolean linkLocal() {
        return isLinkLocal(gid);
    }

    static boolean isLinkLocal(byte[] gid) {
        return gid[0] == (byte) 0xfe && (gid[1] & 0xc0) == 0x80;
    }

    /// Whether this rail's own prefix says that the other is on its link: Ethernet.
    boolean covers(Rail other) {
        if (prefix < 0 || inet4() != other.inet4()) {
            return false;
        }
        return sameBits(gid, other.gid, inet4() ? IPV4_BITS_BEFORE + prefix : prefix);
    }

    /// Whether both are in one InfiniBand subnet.
    boolean sameSubnetPrefix(Rail other) {
        return sameBits(gid, other.gid, 64);
    }

    private static boolean sameBits(byte[] a, byte[] b, int bits) {
        int whole = bits / 8;
        if (!Arrays.equals(a, 0, whole, b, 0, whole)) {
            return false;
        }
        int rest = bits % 8;
        return rest == 0 || ((a[whole] ^ b[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
    }

    /// The locator's data, little-endian: version 1, link layer 1, port 1, prefix 1, MTU 1, name's
    /// length 1, 0 2, LID 4, speed 4, GID 16, the device's name. Bytes of later versions follow and
    /// are skipped.
    byte[] encode() {
        byte[] name = device.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(32 + name.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .put(VERSION)
                .put((byte) (ethernet ? 1 : 0))
                .put((byte) port)
                .put((byte) prefix)
                .put((byte) mtu)
                .put((byte) name.length)
                .putShort((short) 0)
                .putInt(lid)
                .putInt(mbps)
                .put(gid)
                .put(name)
                .array();
    }

    /// Reads [#encode()]. The index of the GID stays behind.
    ///
    /// @throws IllegalArgumentException when the bytes are something else
    static Rail decode(byte[] data) {
        try {
            ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
            int version = in.get();
            if (version < 1) {
                throw new IllegalArgumentException("a verbs locator of version " + version);
            }
            boolean ethernet = in.get() == 1;
            int port = Byte.toUnsignedInt(in.get());
            int prefix = in.get();
            int mtu = in.get();
            byte[] name = new byte[Byte.toUnsignedInt(in.get())];
            in.getShort();
            int lid = in.getInt();
            int mbps = Math.max(0, in.getInt());
            byte[] gid = new byte[GID_BYTES];
            in.get(gid).get(name);
            Rail rail =
                    new Rail(
                            new String(name, StandardCharsets.UTF_8),
                            port,
                            ethernet,
                            gid,
                            -1,
                            prefix & 0xff,
                            lid,
                            mtu,
                            mbps,
                            false);
            int most = rail.inet4() ? 32 : 128;
            return (prefix & 0xff) <= most ? rail : rail.withoutPrefix();
        } catch (BufferUnderflowException e) {
            throw new IllegalArgumentException(
                    "a verbs locator cut short: " + data.length + " bytes", e);
        }
    }

    private Rail withoutPrefix() {
        return new Rail(device, port, ethernet, gid, gidIndex, -1, lid, mtu, mbps, global);
    }

    /// @return a GID as the address that it is
    static String text(byte[] gid) {
        try {
            return InetAddress.getByAddress(gid).getHostAddress(); // IPv4 where it is mapped
        } catch (UnknownHostException e) {
            throw new IllegalStateException("16 bytes always make an address", e);
        }
    }

    /// @return the port's name: `mlx5_0/1`
    String portText() {
        return device + "/" + port;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Rail that
                && device.equals(that.device)
                && port == that.port
                && Arrays.equals(gid, that.gid);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(gid) * 31 + port;
    }

    @Override
    public String toString() {
        return portText() + " " + text(gid);
    }
}
