package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;

/// The largest packet of each interface and of each route.
final class MtuCheck implements Check {
    /// What IPv6 demands of every link.
    private static final long LEAST = 1280;

    private static final long ETHERNET = 1500;

    /// From here on the number of packets is what bounds the throughput.
    private static final long FAST = 10_000;

    @Override
    public String name() {
        return "mtu";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        for (Nic nic : host.nics()) {
            if (!nic.loopback()) {
                found.add(nic(host, nic.name()));
            }
        }
        routes(host, found);
        if (host.nics().isEmpty()) {
            found.add(
                    Finding.warning(
                            name(),
                            "no interface has an address, loopback included: TCP does not work",
                            "network interfaces that are up: none",
                            "ip link set lo up (a new network namespace starts with it down)",
                            "ip address"));
        } else if (found.isEmpty()) {
            found.add(
                    Finding.info(name(), "no interface but loopback is up", "network interfaces"));
        }
        return found;
    }

    private Finding nic(Host host, String nic) {
        String file = mtuFile(nic);
        long mtu = host.number(file).orElse(0);
        long speed = host.number("/sys/class/net/" + nic + "/speed").orElse(0);
        String evidence = host.evidence(file);
        if (mtu > 0 && mtu < LEAST) {
            return Finding.warning(
                    name(),
                    nic + " takes packets of " + mtu + " bytes at most: IPv6 does not work there",
                    evidence,
                    "ip link set " + nic + " mtu " + ETHERNET + ", on both ends and between",
                    "ping -M do -s 1472 PEER");
        }
        // Virtual interfaces report a speed too, but have no device behind them.
        boolean physical = !host.list("/sys/class/net/" + nic + "/device").isEmpty();
        if (physical && mtu > 0 && mtu <= ETHERNET && speed >= FAST) {
            return Finding.info(
                    name(),
                    nic
                            + " is fast and takes small packets: 9000 costs less CPU, where both"
                            + " ends and all switches between know it",
                    evidence + "; " + host.evidence("/sys/class/net/" + nic + "/speed"));
        }
        return Finding.info(name(), nic + ": " + mtu + " bytes", evidence);
    }

    private static String mtuFile(String nic) {
        return "/sys/class/net/" + nic + "/mtu";
    }

    /// A size that a route was given is less than its interface's for a reason, such as a tunnel
    /// behind it, so it is no fault by itself.
    private void routes(Host host, List<Finding> found) {
        for (Probes.Route route : host.probes().routes()) {
            String file = mtuFile(route.nic());
            long device = host.number(file).orElse(0);
            if (route.mtu() < device) {
                found.add(
                        Finding.info(
                                name(),
                                "the route to %s takes packets of %d bytes, its interface %d"
                                        .formatted(route.target(), route.mtu(), device),
                                "RTM_GETROUTE: %s dev %s mtu %d; %s"
                                        .formatted(
                                                route.target(),
                                                route.nic(),
                                                route.mtu(),
                                                host.evidence(file))));
            }
        }
    }
}
