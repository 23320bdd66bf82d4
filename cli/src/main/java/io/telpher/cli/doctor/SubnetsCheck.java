package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;

/// Interfaces that share a subnet. By default Linux answers for all its IPv4 addresses on every
/// interface, so a peer may learn the wrong interface's hardware address for an IP address, and
/// packets for one cable travel over the other.
final class SubnetsCheck implements Check {
    private static final String CONF = "/proc/sys/net/ipv4/conf/";

    @Override
    public String name() {
        return "subnets";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        List<Nic> nics = host.nics().stream().filter(nic -> !nic.loopback()).toList();
        for (int i = 0; i < nics.size(); i++) {
            for (int j = i + 1; j < nics.size(); j++) {
                pair(host, nics.get(i), nics.get(j), found);
            }
        }
        if (found.isEmpty()) {
            List<String> seen = new ArrayList<>();
            for (Nic nic : nics) {
                seen.add(nic.name() + " " + nic.addresses());
            }
            found.add(
                    Finding.info(
                            name(),
                            "no two interfaces share a subnet",
                            seen.isEmpty()
                                    ? "no interface but loopback is up"
                                    : String.join("; ", seen)));
        }
        return found;
    }

    private void pair(Host host, Nic a, Nic b, List<Finding> found) {
        for (Nic.Subnet x : a.addresses()) {
            for (Nic.Subnet y : b.addresses()) {
                if (!x.inet4() || !(x.covers(y.ip()) || y.covers(x.ip()))) {
                    continue;
                }
                found.add(shared(host, a, b, x + " and " + y));
                return; // one finding for a pair of interfaces is enough
            }
        }
    }

    private Finding shared(Host host, Nic a, Nic b, String addresses) {
        List<String> wrong = new ArrayList<>();
        List<String> remedies = new ArrayList<>();
        for (Nic nic : List.of(a, b)) {
            wants(host, nic, "arp_ignore", 1, wrong, remedies);
            wants(host, nic, "arp_announce", 2, wrong, remedies);
            if (setting(host, nic, "rp_filter") == 1) {
                wrong.add(evidence(host, nic, "rp_filter"));
                remedies.add("net.ipv4.conf." + nic.name() + ".rp_filter=2");
            }
        }
        String where = "%s and %s: %s".formatted(a.name(), b.name(), addresses);
        if (wrong.isEmpty()) {
            return Finding.info(
                    name(),
                    "two interfaces share a subnet and answer for their own addresses only",
                    where + "; " + evidence(host, a, "arp_ignore"));
        }
        return Finding.warning(
                name(),
                "two interfaces share a subnet and answer for each other: traffic for one may"
                        + " come in by the other",
                where + "; " + String.join("; ", wrong),
                "give each cable a subnet of its own; or sysctl -w " + String.join(" ", remedies),
                "arping -I INTERFACE ADDRESS from the peer: one hardware address answers");
    }

    private static void wants(
            Host host, Nic nic, String setting, int least, List<String> wrong, List<String> cure) {
        if (setting(host, nic, setting) < least) {
            wrong.add(evidence(host, nic, setting));
            cure.add("net.ipv4.conf." + nic.name() + "." + setting + "=" + least);
        }
    }

    /// The kernel goes by the larger of the value for all interfaces and the interface's own.
    private static long setting(Host host, Nic nic, String setting) {
        return Math.max(
                host.number(CONF + "all/" + setting).orElse(0),
                host.number(CONF + nic.name() + "/" + setting).orElse(0));
    }

    /// The file that decides: the interface's own, unless that for all says more.
    private static String evidence(Host host, Nic nic, String setting) {
        String all = CONF + "all/" + setting;
        String own = CONF + nic.name() + "/" + setting;
        return host.evidence(host.number(all).orElse(0) > host.number(own).orElse(0) ? all : own);
    }
}
