package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.Inet4Address;
import java.net.NetworkInterface;
import org.junit.jupiter.api.Test;

class RouteLookupTest {
    private static final Inet4Address LOOPBACK = Inet4Address.ofLiteral("127.0.0.1");

    @Test
    void loopbackLeavesByLoopback() throws Exception {
        int index = RouteLookup.interfaceTo(LOOPBACK, LOOPBACK);
        assertThat(NetworkInterface.getByIndex(index).isLoopback()).isTrue();
    }

    @Test
    void anAddressOfNobodyHereIsNoSource() {
        Inet4Address stranger = Inet4Address.ofLiteral("192.0.2.77");
        assertThat(RouteLookup.interfaceTo(stranger, LOOPBACK)).isNegative();
    }
}
