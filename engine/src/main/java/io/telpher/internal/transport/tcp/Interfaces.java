package io.telpher.internal.transport.tcp;

import io.telpher.TelpherException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InterfaceAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/// This host's network interfaces, and which of them an endpoint uses.
final class Interfaces {
    /// What containers and virtual machines of this host are attached to. These subnets exist on
    /// many hosts at once and lead to none of them, so they are used only when asked for.
    private static final List<String> CONTAINER_BRIDGES =
            List.of("docker", "br-", "virbr", "cni", "podman", "lxcbr", "lxdbr");

    private static final Path SYSFS = Path.of("/sys/class/net");
    private static final Path IPV4_CONF = Path.of("/proc/sys/net/ipv4/conf");

    private Interfaces() {}

    /// What an interface is good for.
    enum Kind {
        /// Leads to other hosts.
        ORDINARY,
        /// Leads to containers or virtual machines of this host.
        BRIDGE,
        /// Leads to this network namespace only.
        LOOPBACK
    }

    /// An address and the kind of interface that has it.
    record Candidate(NetAddress address, Kind kind) {}

    /// @return every address of every interface that is up
    static List<Candidate> enumerate() {
        List<Candidate> all = new ArrayList<>();
        try (Stream<NetworkInterface> nics = NetworkInterface.networkInterfaces()) {
            for (NetworkInterface nic : nics.toList()) {
                if (nic.isUp()) {
                    addAddresses(nic, all);
                }
            }
        } catch (SocketException e) {
            throw new TelpherException.Unsupported(
                    "the network interfaces cannot be listed: " + e.getMessage());
        }
        return all;
    }

    private static void addAddresses(NetworkInterface nic, List<Candidate> all)
            throws SocketException {
        Kind kind = nic.isLoopback() ? Kind.LOOPBACK : kind(nic.getName());
        int speed = speed(nic.getName());
        for (InterfaceAddress address : nic.getInterfaceAddresses()) {
            InetAddress ip = address.getAddress();
            int bits = ip.getAddress().length * 8;
            int prefix = address.getNetworkPrefixLength();
            all.add(
                    new Candidate(
                            new NetAddress(
                                    ip,
                                    prefix < 0 || prefix > bits ? bits : prefix,
                                    nic.getName(),
                                    nic.getIndex(),
                                    speed,
                                    0),
                            kind));
        }
    }

    private static Kind kind(String name) {
        if (CONTAINER_BRIDGES.stream().anyMatch(name::startsWith)) {
            return Kind.BRIDGE;
        }
        try (Stream<Path> ports = Files.list(SYSFS.resolve(name).resolve("brif"))) {
            return ports.findAny().isPresent() ? Kind.ORDINARY : Kind.BRIDGE;
        } catch (IOException e) {
            return Kind.ORDINARY; // no bridge
        }
    }

    /// Reads the speed that the driver reports; virtual interfaces often have none.
    private static int speed(String name) {
        return number(SYSFS, name, "speed");
    }

    /// @return the number in a file, 0 when there is none or it is negative
    private static int number(Path folder, String nic, String file) {
        try {
            String text = Files.readString(folder.resolve(nic).resolve(file)).strip();
            return Math.max(0, Integer.parseInt(text));
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }

    /// Tells whether what is sent to an interface's address also arrives there. By default Linux
    /// answers for all its IPv4 addresses on every interface, so that with two interfaces in one
    /// subnet the answers to the one may come in by the other, where a socket that is tied to its
    /// device does not see them; and a strict reverse-path filter drops them at the right one.
    static boolean answersForItself(String nic, boolean inet6) {
        return inet6 || (setting(nic, "arp_ignore") >= 1 && setting(nic, "rp_filter") != 1);
    }

    /// The kernel goes by the larger of the value for all interfaces and the interface's own.
    private static int setting(String nic, String name) {
        return Math.max(number(IPV4_CONF, "all", name), number(IPV4_CONF, nic, name));
    }

    /// Picks the addresses to use.
    ///
    /// A choice is a subnet or address (`10.1.0.0/16`, `fd00::1`), an interface's name (`eth0`),
    /// the beginning of names where no interface has just that name (`eth`), a name and nothing
    /// else (`=eth0`), or a name or beginning not to use (`^docker`, `^=eth0`). Without a choice,
    /// or with exclusions only, bridges of containers are left out unless there is nothing else,
    /// and loopback is in.
    ///
    /// @throws TelpherException.Unsupported when the choices leave nothing
    static List<NetAddress> select(List<Candidate> all, List<String> choices) {
        List<String> wanted = choices.stream().filter(c -> !c.startsWith("^")).toList();
        List<String> unwanted =
                choices.stream().filter(c -> c.startsWith("^")).map(c -> c.substring(1)).toList();
        List<Candidate> left =
                all.stream()
                        .filter(c -> unwanted.stream().noneMatch(u -> matches(c, u, all)))
                        .toList();
        List<Candidate> chosen;
        if (!wanted.isEmpty()) {
            chosen =
                    left.stream()
                            .filter(c -> wanted.stream().anyMatch(w -> matches(c, w, all)))
                            .toList();
        } else {
            boolean ordinary = left.stream().anyMatch(c -> c.kind() == Kind.ORDINARY);
            chosen = left.stream().filter(c -> !ordinary || c.kind() != Kind.BRIDGE).toList();
        }
        if (chosen.isEmpty()) {
            throw new TelpherException.Unsupported(
                    "no network interface that is up matches interfaces="
                            + String.join(",", choices)
                            + "; there are "
                            + String.join(
                                    ", ",
                                    all.stream().map(c -> c.address().subnetText()).toList()));
        }
        return chosen.stream().map(Candidate::address).toList();
    }

    private static boolean matches(Candidate candidate, String choice, List<Candidate> all) {
        String name = candidate.address().nic();
        if (choice.startsWith("=")) {
            return name.equals(choice.substring(1));
        }
        int slash = choice.indexOf('/');
        if (slash >= 0 || choice.indexOf(':') >= 0 || choice.matches("[0-9.]+")) {
            return inSubnet(candidate.address(), choice, slash);
        }
        boolean exact = all.stream().anyMatch(c -> c.address().nic().equals(choice));
        return exact ? name.equals(choice) : name.startsWith(choice);
    }

    private static boolean inSubnet(NetAddress address, String choice, int slash) {
        try {
            byte[] subnet =
                    InetAddress.ofLiteral(slash < 0 ? choice : choice.substring(0, slash))
                            .getAddress();
            int bits =
                    slash < 0 ? subnet.length * 8 : Integer.parseInt(choice.substring(slash + 1));
            if (bits < 0 || bits > subnet.length * 8) {
                throw new IllegalArgumentException("prefix length " + bits);
            }
            return NetAddress.samePrefix(address.ip().getAddress(), subnet, bits);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "interfaces: '"
                            + choice
                            + "' is neither a name like eth0 nor a subnet like 10.1.0.0/16",
                    e);
        }
    }
}
