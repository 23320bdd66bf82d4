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

    /// Without a route the kernel takes any address to be on the link of the interface that packets
    /// are bound to.
    @Test
    void noTableHasARouteByLoopbackToWhatIsNotThere() throws Exception {
        int loopback = NetworkInterface.getByInetAddress(LOOPBACK).getIndex();
        Inet4Address mine = Inet4Address.ofLiteral("127.0.0.5");
        Inet4Address others = Inet4Address.ofLiteral("192.0.2.77");
        assertThat(RouteLookup.leads(loopback, LOOPBACK, mine)).isTrue();
        assertThat(RouteLookup.leads(loopback, LOOPBACK, others)).isFalse();
        assertThat(RouteLookup.leads(loopback + 1000, LOOPBACK, mine)).isFalse();
    }
}
