package io.telpher.cli.doctor;

import io.telpher.EndpointAddress;
import io.telpher.internal.transport.tcp.TcpTransport;
import io.telpher.internal.transport.verbs.VerbsTransport;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.PeerAddress;
import io.telpher.topology.NicPort;
import io.telpher.topology.NicPort.Fabric;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The ways to one peer: for each of its addresses the interface that packets leave by, their
/// largest size, and whether anybody answers; then a connection, with messages that fill packets.
final class PeerCheck implements Check {
    private static final Duration PATIENCE = Duration.ofSeconds(3);

    /// Bits.
    private static final int GID_PREFIX = 64;

    private final EndpointAddress address;

    PeerCheck(EndpointAddress address) {
        this.address = address;
    }

    @Override
    public String name() {
        return "peer";
    }

    @Override
    public List<Finding> examine(Host host) {
        PeerAddress peer = AddressCodec.decode(address.toBytes()).peer();
        List<Finding> found = new ArrayList<>();
        HostIdentity here = HostIdentity.here();
        if (peer.host().sameHost(here)) {
            found.add(sameHost(here, peer.host()));
        }
        for (InetSocketAddress listener : TcpTransport.listeners(peer)) {
            boolean elsewhere = !here.sameNetwork(peer.host()) && peer.incarnation() != 0;
            if (listener.isUnresolved()) {
                named(host, listener, found);
            } else if (listener.getAddress().isLinkLocalAddress()) {
                found.add(
                        Finding.info(
                                name(),
                                "link-local: used only where there is nothing else, not tried",
                                text(listener)));
            } else if (elsewhere && listener.getAddress().isLoopbackAddress()) {
                found.add(
                        Finding.info(
                                name(), "loopback of another network: not tried", text(listener)));
            } else {
                found.add(way(host, listener));
            }
        }
        for (VerbsTransport.Port port : VerbsTransport.ports(peer)) {
            found.add(rdma(host, port));
        }
        found.add(visit(host));
        return found;
    }

    /// A port of the peer, and the local ones in its subnet: both ends of a queue pair use the
    /// smaller packets of the two.
    private Finding rdma(Host host, VerbsTransport.Port peer) {
        Map<String, Integer> active = host.probes().rdma().activeMtus();
        List<String> here = new ArrayList<>();
        boolean differs = false;
        for (NicPort port : Rdma.rails(host)) {
            if (sharesSubnet(host, port, peer)) {
                int size = active.getOrDefault(Rdma.verbsName(port), 0);
                here.add(Rdma.label(port) + (size == 0 ? "" : " " + size));
                differs |= size != 0 && peer.mtu() != 0 && size != peer.mtu();
            }
        }
        String name = "the peer's %s %s".formatted(peer.name(), peer.address().getHostAddress());
        String evidence =
                "%s, by its address: %d bytes of data in a packet; in its subnet here: %s"
                        .formatted(name, peer.mtu(), here.isEmpty() ? "no RDMA port" : here);
        if (differs) {
            return Finding.warning(
                    name(),
                    name
                            + " and the port here differ in the size of their packets: both use the"
                            + " smaller",
                    evidence,
                    "the same MTU on both interfaces, and in the switches between (ip link set"
                            + " INTERFACE mtu 9000)",
                    "telpher doctor PEER --only peer");
        }
        return Finding.info(
                name(),
                name
                        + (here.isEmpty()
                                ? ": no RDMA port here is in its subnet"
                                : ": in the subnet of " + String.join(", ", here)),
                evidence);
    }

    /// On InfiniBand a subnet is the upper half of a GID.
    private static boolean sharesSubnet(Host host, NicPort port, VerbsTransport.Port peer) {
        if (peer.ethernet()) {
            return onLink(host, port.netdev(), peer.address());
        }
        return port.fabric() == Fabric.INFINIBAND
                && port.gid()
                        .map(gid -> InetAddress.ofLiteral(gid.address()))
                        .filter(own -> new Nic.Subnet(own, GID_PREFIX).covers(peer.address()))
                        .isPresent();
    }

    private Finding sameHost(HostIdentity here, HostIdentity peer) {
        String evidence =
                "pid namespace %d here, %d there; net namespace %d here, %d there"
                        .formatted(
                                here.pidNamespace(),
                                peer.pidNamespace(),
                                here.netNamespace(),
                                peer.netNamespace());
        List<String> apart = new ArrayList<>();
        if (here.pidNamespace() != peer.pidNamespace()) {
            apart.add("in another PID namespace, so path cma does not work");
        }
        if (here.netNamespace() != peer.netNamespace()) {
            apart.add(
                    "in another network namespace, so the same-host socket is found only through a"
                            + " shared folder (TELPHER_SOCKET_DIRECTORY)");
        }
        return Finding.info(
                name(),
                "on this host"
                        + (apart.isEmpty()
                                ? ", in the same namespaces"
                                : ", " + String.join("; ", apart)),
                evidence);
    }

    private void named(Host host, InetSocketAddress listener, List<Finding> found) {
        try {
            for (InetAddress ip : host.probes().resolve(listener.getHostString())) {
                found.add(way(host, new InetSocketAddress(ip, listener.getPort())));
            }
        } catch (IllegalArgumentException e) {
            found.add(
                    Finding.error(
                            name(),
                            "the peer's name leads nowhere",
                            String.valueOf(e.getMessage()),
                            "correct the name, /etc/hosts or the resolver; or use an IP address",
                            "getent hosts " + listener.getHostString()));
        }
    }

    private Finding way(Host host, InetSocketAddress listener) {
        Probes.Egress egress = host.probes().egress(listener.getAddress());
        if (egress.failure() != null) {
            return Finding.warning(
                    name(),
                    "no route to " + text(listener),
                    egress.failure(),
                    "add a route or an address in its subnet; other addresses of the peer may"
                            + " still work",
                    "ip route get " + listener.getAddress().getHostAddress());
        }
        InetAddress local = egress.local();
        String nic = local == null ? null : nicOf(host, local);
        String leaves =
                "%s: leaves %s from %s by %s, packets of %d bytes"
                        .formatted(
                                text(listener),
                                onLink(host, nic, listener.getAddress()) ? "directly" : "routed",
                                local == null ? "?" : local.getHostAddress(),
                                nic == null ? "?" : nic,
                                egress.mtu());
        String refused = host.probes().dial(listener, PATIENCE);
        if (refused != null) {
            return Finding.warning(
                    name(),
                    "nobody answers at " + text(listener),
                    leaves + "; connect: " + refused,
                    "see that the peer runs, that it listens at this address, and that no firewall"
                            + " stands between",
                    "nc -vz " + listener.getAddress().getHostAddress() + " " + listener.getPort());
        }
        return Finding.info(name(), text(listener) + " answers", leaves);
    }

    private static @Nullable String nicOf(Host host, InetAddress local) {
        for (Nic nic : host.nics()) {
            if (nic.addresses().stream().anyMatch(a -> same(a.ip(), local))) {
                return nic.name();
            }
        }
        return null;
    }

    /// Without the scope, which one of the two may lack.
    private static boolean same(InetAddress a, InetAddress b) {
        return java.util.Arrays.equals(a.getAddress(), b.getAddress());
    }

    private static boolean onLink(Host host, @Nullable String nic, InetAddress peer) {
        return host.nics().stream()
                .filter(n -> n.name().equals(nic))
                .flatMap(n -> n.addresses().stream())
                .anyMatch(a -> a.covers(peer));
    }

    private Finding visit(Host host) {
        Probes.Visit visit = host.probes().visit(address);
        if (visit.failure() != null) {
            return Finding.error(
                    name(),
                    visit.refused()
                            ? "the peer answers and refuses this secret"
                            : "no connection with the peer",
                    visit.failure(),
                    visit.refused()
                            ? "use the peer's present address file, or its TELPHER_SECRET"
                            : "see the findings of the single addresses; a peer that was started"
                                    + " anew has a new address",
                    "telpher explain");
        }
        String evidence = visit.explanation().strip().replaceAll("\\s*\\n\\s*", "; ");
        if (visit.fullSize() != null) {
            return Finding.error(
                    name(),
                    "small packets arrive and full ones do not: something between takes only"
                            + " smaller packets and does not say so",
                    visit.fullSize() + "; " + evidence,
                    "give every link between the two the same MTU (ip link set INTERFACE mtu 1500),"
                            + " let ICMP 'fragmentation needed' through, or sysctl -w"
                            + " net.ipv4.tcp_mtu_probing=1",
                    "ping -M do -s SIZE PEER, with SIZE = the interface's MTU - 28");
        }
        return Finding.info(name(), "connected; full packets arrive", evidence);
    }

    private static String text(InetSocketAddress listener) {
        String ip = listener.getAddress().getHostAddress();
        return (ip.contains(":") ? "[" + ip + "]" : ip) + ":" + listener.getPort();
    }
}
