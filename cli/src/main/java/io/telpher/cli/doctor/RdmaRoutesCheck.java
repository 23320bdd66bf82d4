package io.telpher.cli.doctor;

import io.telpher.topology.NicPort;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/// Whether what leaves a RoCE port's address goes out by that port. Where several ports are in one
/// subnet the kernel sends everything by one of them, whatever the source: connections for the
/// handshake, and the answers to ARP, take another cable than the data.
final class RdmaRoutesCheck implements Check {
    @Override
    public String name() {
        return "rdma-routes";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        for (NicPort port : Rdma.rails(host)) {
            Optional<Nic.Subnet> subnet = subnet(host, port);
            InetAddress other = subnet.map(RdmaRoutesCheck::other).orElse(null);
            if (subnet.isPresent() && other != null) {
                found.add(route(host, port, subnet.get().ip(), other));
            }
        }
        if (found.isEmpty()) {
            found.add(
                    Finding.info(name(), "no RoCE port with an address is active", Pci.INFINIBAND));
        }
        return found;
    }

    /// The address of the GID in use, with the subnet that its interface gives it.
    private static Optional<Nic.Subnet> subnet(Host host, NicPort port) {
        Optional<InetAddress> address = port.gid().map(gid -> InetAddress.ofLiteral(gid.address()));
        return host.nics().stream()
                .filter(nic -> nic.name().equals(port.netdev()))
                .flatMap(nic -> nic.addresses().stream())
                .filter(subnet -> !subnet.ip().isLinkLocalAddress())
                .filter(subnet -> address.filter(subnet.ip()::equals).isPresent())
                .findFirst();
    }

    /// The first address of the subnet for a host, or the second where that is the own one; null
    /// where a subnet has no other.
    private static @Nullable InetAddress other(Nic.Subnet subnet) {
        byte[] own = subnet.ip().getAddress();
        int free = own.length * Byte.SIZE - subnet.prefix();
        if (free < 2) {
            return null;
        }
        byte[] other = own.clone();
        for (int bit = 0; bit < free; bit++) {
            other[own.length - 1 - bit / Byte.SIZE] &= (byte) ~(1 << bit % Byte.SIZE);
        }
        other[own.length - 1] |= 1;
        if (Arrays.equals(own, other)) {
            other[own.length - 1] ^= 3;
        }
        try {
            return InetAddress.getByAddress(other);
        } catch (UnknownHostException e) {
            throw new AssertionError("as long as the one that it came from", e);
        }
    }

    private Finding route(Host host, NicPort port, InetAddress own, InetAddress other) {
        String by = host.probes().route(own, other);
        String evidence =
                "RTM_GETROUTE from %s to %s: %s"
                        .formatted(own.getHostAddress(), other.getHostAddress(), by);
        if (by.equals(port.netdev())) {
            return Finding.info(
                    name(),
                    "%s: what leaves %s goes out by it"
                            .formatted(Rdma.label(port), own.getHostAddress()),
                    evidence);
        }
        return Finding.warning(
                name(),
                "%s: what leaves %s goes out elsewhere: %s"
                        .formatted(Rdma.label(port), own.getHostAddress(), by),
                evidence,
                "give each port a subnet of its own; or a table of its own: ip route add %s dev %s"
                                .formatted(own.getHostAddress() + "/SUBNET", port.netdev())
                        + " table 100, ip rule add from "
                        + own.getHostAddress()
                        + " lookup 100",
                "ip route get %s from %s".formatted(other.getHostAddress(), own.getHostAddress()));
    }
}
