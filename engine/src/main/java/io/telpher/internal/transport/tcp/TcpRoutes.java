package io.telpher.internal.transport.tcp;

import io.telpher.spi.Route;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Decides which pairs of addresses carry lanes. Pure: depends on its arguments only.
///
/// Two addresses form a pair when each one's own prefix says that the other is on its link; a pair
/// leaves from its local address, so that every cable carries its own stream. Where no pair exists
/// the routing table decides; where pairs do, that is for later, in case they are silent.
final class TcpRoutes {
    /// The transport's name, which its locators carry too.
    static final String TRANSPORT = "tcp";

    /// Link speeds in Mb/s from which one stream does not fill the link any more.
    private static final int TWO_LANES_FROM = 25_000;

    private static final int FOUR_LANES_FROM = 100_000;

    private static final TcpTarget NOWHERE = new TcpTarget.None();

    private TcpRoutes() {}

    /// Where the peer is, as far as the network is concerned.
    enum Proximity {
        /// In this network namespace: its loopback is ours.
        SAME_NAMESPACE,
        /// Anywhere else.
        ELSEWHERE
    }

    /// How many lanes to make.
    ///
    /// @param lanes for each pair, 0 to let the link's speed decide
    /// @param total for all pairs together
    record Budget(int lanes, int total) {
        /// @return lanes that a link of this speed gets
        int of(int speed) {
            if (lanes > 0) {
                return lanes;
            }
            return speed >= FOUR_LANES_FROM ? 4 : speed >= TWO_LANES_FROM ? 2 : 1;
        }
    }

    /// A way that is possible, before lanes are shared out.
    ///
    /// @param later as a [Route] has it
    private record Way(@Nullable NetAddress local, NetAddress remote, @Nullable String later) {
        Way(@Nullable NetAddress local, NetAddress remote) {
            this(local, remote, null);
        }

        Way later(String why) {
            return new Way(local, remote, why);
        }

        int speed() {
            return local == null ? remote.speed() : Math.min(local.speed(), remote.speed());
        }

        String text() {
            return (local == null ? "routed" : local.withPort(0).toString()) + " -> " + remote;
        }
    }

    /// Plans the routes from the local addresses to those of a peer, best first, the impossible
    /// ones last.
    static List<Route> plan(
            List<NetAddress> local, List<NetAddress> remote, Proximity proximity, Budget budget) {
        List<Route> rejected = new ArrayList<>();
        if (proximity == Proximity.SAME_NAMESPACE) {
            Way loopback = loopback(local, remote);
            if (loopback != null) {
                for (NetAddress r : remote) {
                    if (!r.equals(loopback.remote())) {
                        reject(rejected, r, "the same host and network: loopback is used");
                    }
                }
                return share(List.of(loopback), List.of(), local, proximity, budget, rejected);
            }
        }
        List<Way> later = new ArrayList<>();
        List<Way> pairs = pairs(local, remote, proximity, later, rejected);
        if (!pairs.isEmpty()) {
            // An interface may be up and its cable dead, so nothing else is given up for a pair.
            List<NetAddress> others = new ArrayList<>(remote);
            pairs.forEach(way -> others.remove(way.remote()));
            later.forEach(way -> others.remove(way.remote()));
            others.removeIf(r -> rejected.stream().anyMatch(x -> x.text().endsWith(r.toString())));
            for (Way way : routed(local, others, proximity, rejected)) {
                later.add(
                        way.later(
                                "no local address in %s, and an address on a shared subnet exists"
                                        .formatted(way.remote().subnetText())));
            }
            for (Way way : linkLocalPairs(local, remote)) {
                later.add(way.later("link-local, and an address on a shared subnet exists"));
            }
            return share(pairs, later, local, proximity, budget, rejected);
        }
        List<Way> routed = routed(local, remote, proximity, rejected);
        List<Way> linkLocal = linkLocalPairs(local, remote);
        List<Way> best = routed.isEmpty() ? linkLocal : routed;
        List<Way> rest = new ArrayList<>();
        if (!best.isEmpty()) {
            // Of these each may lead to the same cable or to none, so only one gets bulk lanes.
            rest.addAll(best.subList(1, best.size()));
            if (best == routed) {
                rest.addAll(linkLocal);
            }
            best = best.subList(0, 1);
        }
        return share(best, rest, local, proximity, budget, rejected);
    }

    private static @Nullable Way loopback(List<NetAddress> local, List<NetAddress> remote) {
        Way best = null;
        for (NetAddress l : local) {
            for (NetAddress r : remote) {
                if (l.loopback() && l.ip().equals(r.ip()) && (best == null || !l.inet6())) {
                    best = new Way(l, r);
                }
            }
        }
        return best;
    }

    /// Finds the pairs that share a subnet, one for each pair of interfaces.
    ///
    /// @param later gets the others
    private static List<Way> pairs(
            List<NetAddress> local,
            List<NetAddress> remote,
            Proximity proximity,
            List<Way> later,
            List<Route> rejected) {
        List<Way> found = new ArrayList<>();
        for (NetAddress l : local) {
            for (NetAddress r : remote) {
                if (l.loopback() || r.loopback() || l.linkLocal() || r.linkLocal()) {
                    continue;
                }
                if (!l.covers(r.ip()) || !r.covers(l.ip())) {
                    continue;
                }
                Way way = new Way(l, r);
                if (l.ip().equals(r.ip()) && proximity == Proximity.ELSEWHERE) {
                    reject(rejected, way, "both hosts have this address, so it leads nowhere");
                } else {
                    found.add(way);
                }
            }
        }
        found.sort(
                Comparator.comparingInt((Way w) -> -w.speed())
                        .thenComparing(w -> !sameName(w))
                        .thenComparing(w -> w.remote().inet6()));
        Map<List<String>, Way> byNics = new HashMap<>();
        List<Way> kept = new ArrayList<>();
        for (Way way : found) {
            NetAddress l = java.util.Objects.requireNonNull(way.local());
            Way first = byNics.putIfAbsent(List.of(l.nic(), way.remote().nic()), way);
            if (first == null) {
                kept.add(way);
            } else {
                later.add(way.later("the same interfaces as " + first.text()));
            }
        }
        return kept;
    }

    /// On one host, and on hosts cabled alike, interfaces of one name belong together.
    private static boolean sameName(Way way) {
        return way.local() != null && way.local().nic().equals(way.remote().nic());
    }

    private static List<Way> routed(
            List<NetAddress> local,
            List<NetAddress> remote,
            Proximity proximity,
            List<Route> rejected) {
        // Within one namespace every address leads to every other, whichever was chosen.
        boolean here = proximity == Proximity.SAME_NAMESPACE;
        List<Way> found = new ArrayList<>();
        for (NetAddress r : remote) {
            boolean family =
                    local.stream()
                            .filter(l -> l.inet6() == r.inet6())
                            .anyMatch(l -> here || (!l.loopback() && !l.linkLocal()));
            if (r.loopback() && !here) {
                reject(rejected, r, "loopback of another host or network namespace");
            } else if (r.linkLocal()) {
                continue;
            } else if (!here && local.stream().anyMatch(l -> l.ip().equals(r.ip()))) {
                reject(rejected, r, "both hosts have this address, so it leads nowhere");
            } else if (!family) {
                reject(rejected, r, "no local " + (r.inet6() ? "IPv6" : "IPv4") + " address");
            } else {
                found.add(new Way(null, r));
            }
        }
        found.sort(
                Comparator.comparingInt((Way w) -> -w.speed())
                        .thenComparing(w -> w.remote().inet6()));
        return found;
    }

    /// Every interface has a link-local address, so these pairs say nothing about cables: they are
    /// tried only where there is nothing else.
    private static List<Way> linkLocalPairs(List<NetAddress> local, List<NetAddress> remote) {
        List<Way> found = new ArrayList<>();
        for (NetAddress l : local) {
            for (NetAddress r : remote) {
                if (l.linkLocal() && r.linkLocal() && l.inet6() == r.inet6()) {
                    found.add(new Way(l, r));
                }
            }
        }
        found.sort(Comparator.comparing((Way w) -> !sameName(w)).thenComparingInt(w -> -w.speed()));
        return found;
    }

    /// Shares out the lanes: every pair gets one before any gets its second.
    private static List<Route> share(
            List<Way> ways,
            List<Way> alternatives,
            List<NetAddress> local,
            Proximity proximity,
            Budget budget,
            List<Route> rejected) {
        int[] lanes = new int[ways.size()];
        int left = budget.total();
        boolean more = true;
        while (left > 0 && more) {
            more = false;
            for (int i = 0; i < lanes.length && left > 0; i++) {
                if (lanes[i] < budget.of(ways.get(i).speed())) {
                    lanes[i]++;
                    left--;
                    more = true;
                }
            }
        }
        List<Route> routes = new ArrayList<>();
        for (int i = 0; i < lanes.length; i++) {
            routes.add(route(ways.get(i), lanes[i], local, proximity));
        }
        alternatives.forEach(way -> routes.add(route(way, 0, local, proximity)));
        routes.addAll(rejected);
        return List.copyOf(routes);
    }

    private static Route route(Way way, int lanes, List<NetAddress> local, Proximity proximity) {
        TcpTarget target =
                new TcpTarget.Address(way.local(), device(way, local, proximity), way.remote());
        return new Route(TRANSPORT, way.text(), lanes, null, way.later(), target);
    }

    /// Binding to the address is enough where one interface leads to the subnet. Where several do,
    /// the routing table would send everything by the first, so the socket is better tied to its
    /// own.
    private static @Nullable String device(Way way, List<NetAddress> local, Proximity proximity) {
        NetAddress own = way.local();
        if (own == null || own.loopback() || proximity == Proximity.SAME_NAMESPACE) {
            return null;
        }
        boolean others =
                local.stream()
                        .anyMatch(
                                l ->
                                        !l.nic().equals(own.nic())
                                                && !l.linkLocal()
                                                && l.covers(way.remote().ip()));
        return others ? own.nic() : null;
    }

    /// A route from a host and port.
    static Route named(String text, Budget budget) {
        try {
            TcpTarget.Host host = TcpTarget.Host.parse(text);
            int lanes = Math.min(budget.total(), budget.of(0));
            return new Route(TRANSPORT, text, lanes, null, host);
        } catch (IllegalArgumentException e) {
            return new Route(TRANSPORT, text, 0, String.valueOf(e.getMessage()), NOWHERE);
        }
    }

    /// A route that a locator which cannot be read would have given.
    static Route unreadable(String text, IllegalArgumentException why) {
        return new Route(TRANSPORT, text, 0, String.valueOf(why.getMessage()), NOWHERE);
    }

    private static void reject(List<Route> rejected, NetAddress remote, String reason) {
        rejected.add(new Route(TRANSPORT, remote.toString(), 0, reason, NOWHERE));
    }

    private static void reject(List<Route> rejected, Way way, String reason) {
        rejected.add(new Route(TRANSPORT, way.text(), 0, reason, NOWHERE));
    }
}
