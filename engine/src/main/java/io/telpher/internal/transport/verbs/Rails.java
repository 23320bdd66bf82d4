package io.telpher.internal.transport.verbs;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/// Decides which rails of two endpoints carry lanes. Pure: depends on its arguments only.
final class Rails {
    private Rails() {}

    /// Two rails that can reach each other.
    ///
    /// @param local this side's
    /// @param remote the peer's
    record Pair(Rail local, Rail remote) {
        String text() {
            return local + " -> " + remote;
        }
    }

    /// A rail of the peer that nothing here reaches.
    ///
    /// @param rail which
    /// @param why for people
    record Unreachable(Rail rail, String why) {}

    /// What was decided.
    ///
    /// @param pairs best first: the fastest
    /// @param unreachable rails of the peer that are in no pair
    record Plan(List<Pair> pairs, List<Unreachable> unreachable) {}

    /// Pairs rails: those in one subnet, one to one, in the order in which they are listed, so that
    /// each port of either side is used and none twice as much as others; where nothing shares an
    /// Ethernet subnet, those that may be routed.
    static Plan plan(List<Rail> local, List<Rail> remote) {
        List<Pair> pairs = new ArrayList<>();
        Set<String> ports = new HashSet<>();
        Set<Rail> met = new HashSet<>();
        for (Rail r : remote) {
            if (!met.add(r)) {
                continue;
            }
            List<Rail> here = local.stream().filter(l -> sameLink(l, r)).toList();
            if (here.isEmpty()) {
                continue;
            }
            Rail first = here.getFirst();
            List<Rail> there = remote.stream().filter(x -> sameLink(first, x)).toList();
            met.addAll(there);
            meet(here, there, ports, pairs);
        }
        if (pairs.isEmpty()) {
            meet(routed(local), routed(remote), ports, pairs);
        }
        List<Unreachable> unreachable = new ArrayList<>();
        for (Rail r : remote) {
            if (pairs.stream().noneMatch(p -> samePort(p.remote(), r))) {
                unreachable.add(new Unreachable(r, whyNot(r, local)));
            }
        }
        pairs.sort((a, b) -> Integer.compare(speed(b), speed(a))); // stable
        return new Plan(List.copyOf(pairs), List.copyOf(unreachable));
    }

    private static void meet(
            List<Rail> here, List<Rail> there, Set<String> ports, List<Pair> pairs) {
        int most = here.isEmpty() || there.isEmpty() ? 0 : Math.max(here.size(), there.size());
        for (int i = 0; i < most; i++) {
            Pair pair = new Pair(here.get(i % here.size()), there.get(i % there.size()));
            // Several addresses of two ports are one way.
            if (ports.add(pair.local().portText() + " " + pair.remote().portText())) {
                pairs.add(pair);
            }
        }
    }

    private static boolean sameLink(Rail local, Rail remote) {
        if (local.ethernet() != remote.ethernet()) {
            return false;
        }
        return local.ethernet()
                ? local.covers(remote) && remote.covers(local) && !local.linkLocal()
                : local.sameSubnetPrefix(remote);
    }

    private static List<Rail> routed(List<Rail> rails) {
        return rails.stream().filter(r -> r.ethernet() && !r.linkLocal() && r.inet4()).toList();
    }

    private static boolean samePort(Rail a, Rail b) {
        return a.device().equals(b.device()) && a.port() == b.port();
    }

    private static int speed(Pair pair) {
        return Math.min(pair.local().mbps(), pair.remote().mbps());
    }

    private static String whyNot(Rail remote, List<Rail> local) {
        if (local.stream().noneMatch(l -> l.ethernet() == remote.ethernet())) {
            return remote.ethernet()
                    ? "Ethernet, and this side has InfiniBand only"
                    : "InfiniBand, and this side has Ethernet only";
        }
        if (!remote.ethernet()) {
            return "another InfiniBand subnet: RDMA does not reach it from "
                    + local.stream().filter(l -> !l.ethernet()).map(Rail::toString).toList();
        }
        return "no port here shares its subnet (/" + remote.prefix() + ")";
    }
}
