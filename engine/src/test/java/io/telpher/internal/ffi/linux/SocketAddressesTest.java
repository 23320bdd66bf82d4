package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class SocketAddressesTest {
    private final Arena arena = Arena.ofShared();
    private final MemorySegment to = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);

    @AfterEach
    void close() {
        arena.close();
    }

    @Test
    void ipv4() {
        InetSocketAddress address = new InetSocketAddress("192.0.2.200", 65432);
        assertThat(SocketAddresses.encode(address, to)).isEqualTo(16);
        assertThat(SocketAddresses.family(to)).isEqualTo(Sockets.AF_INET);
        assertThat(to.asSlice(2, 6).toArray(ValueLayout.JAVA_BYTE))
                .containsExactly(
                        (byte) (65432 >> 8),
                        (byte) 65432,
                        (byte) 192,
                        (byte) 0,
                        (byte) 2,
                        (byte) 200);
        assertThat(SocketAddresses.decode(to)).isEqualTo(address);
    }

    @Test
    void ipv6WithScope() throws Exception {
        byte[] linkLocal = InetAddress.getByName("fe80::1:2").getAddress();
        InetSocketAddress address =
                new InetSocketAddress(Inet6Address.getByAddress(null, linkLocal, 3), 443);
        assertThat(SocketAddresses.encode(address, to)).isEqualTo(28);
        assertThat(SocketAddresses.family(to)).isEqualTo(Sockets.AF_INET6);
        InetSocketAddress decoded = SocketAddresses.decode(to);
        assertThat(decoded).isEqualTo(address);
        assertThat(((Inet6Address) decoded.getAddress()).getScopeId()).isEqualTo(3);

        InetSocketAddress global = new InetSocketAddress("2001:db8::7", 1);
        SocketAddresses.encode(global, to);
        assertThat(SocketAddresses.decode(to)).isEqualTo(global);
        assertThat(to.get(ValueLayout.JAVA_INT, SocketAddresses.IN6_SCOPE_ID)).isZero();
    }

    @Test
    void ipv4InsideIpv6() {
        InetSocketAddress address = new InetSocketAddress("192.0.2.7", 80);
        assertThat(SocketAddresses.encodeInet6(address, to)).isEqualTo(28);
        assertThat(SocketAddresses.family(to)).isEqualTo(Sockets.AF_INET6);
        assertThat(to.asSlice(SocketAddresses.IN6_ADDRESS, 16).toArray(ValueLayout.JAVA_BYTE))
                .containsExactly(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, (byte) 192, 0, 2, 7);
        assertThat(SocketAddresses.decode(to)).isEqualTo(address);
    }

    @Test
    void unixNames() {
        int length = SocketAddresses.encodeUnixPath("/tmp/x.sock", to);
        assertThat(length).isEqualTo(2 + 11 + 1);
        assertThat(SocketAddresses.decodeUnix(to, length)).isEqualTo("/tmp/x.sock");

        length = SocketAddresses.encodeUnixAbstract("telpher", to);
        assertThat(length).isEqualTo(2 + 1 + 7);
        assertThat(SocketAddresses.decodeUnix(to, length)).isEqualTo("@telpher");
        assertThat(SocketAddresses.decodeUnix(to, 2)).isEmpty();

        String longest = "n".repeat(SocketAddresses.MAX_UNIX_NAME_BYTES);
        length = SocketAddresses.encodeUnixPath(longest, to);
        assertThat(SocketAddresses.decodeUnix(to, length)).isEqualTo(longest);
        length = SocketAddresses.encodeUnixAbstract(longest, to);
        assertThat(length).isEqualTo(SocketAddresses.UN_BYTES);
        assertThat(SocketAddresses.decodeUnix(to, length)).isEqualTo("@" + longest);
    }

    @Test
    void whatCannotBeEncodedIsRefused() {
        assertThatThrownBy(
                        () ->
                                SocketAddresses.encode(
                                        InetSocketAddress.createUnresolved("nowhere.invalid", 1),
                                        to))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("nowhere.invalid");
        assertThatThrownBy(() -> SocketAddresses.encodeUnixPath("n".repeat(108), to))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> SocketAddresses.encodeUnixAbstract("", to))
                .isInstanceOf(IllegalArgumentException.class);
        SocketAddresses.encodeUnixPath("/tmp/x", to);
        assertThatThrownBy(() -> SocketAddresses.decode(to))
                .isInstanceOf(IllegalArgumentException.class);
    }
}
