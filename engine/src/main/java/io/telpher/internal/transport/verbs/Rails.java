package io.telpher.internal.transport.verbs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiPredicate;

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

    /// What is known of ways beyond the addresses of their rails.
    interface Known {
        /// Whether packets of a rail here find a way to one in another subnet, of the same family.
        boolean routed(Rail from, Rail to);

        /// Whether nothing has arrived when this pair was tried.
        default boolean vain(Pair pair) {
            return false;
        }

        /// How far a rail here is from this process's memory.
        default int distance(Rail local) {
            return 0;
        }
    }

    /// What was decided.
    ///
    /// @param pairs best first: the fastest, of these the nearest, those tried in vain last
    /// @param unreachable rails of the peer that are in no pair
    record Plan(List<Pair> pairs, List<Unreachable> unreachable) {}

    /// Pairs rails: those in one subnet, one to one, in the order in which they are listed, so that
    /// each port of either side is used and none twice as much as others. Then ports that are in no
    /// pair so, where the network may lead from one to the other: a host may have a port in a
    /// subnet with everybody, and others each in a subnet of its own.
    ///
    /// What was tried in vain is not tried again before the ports' other combinations: ports may
    /// seem to be in one subnet, and each be cabled to one of the others.
    static Plan plan(List<Rail> local, List<Rail> remote, Known known) {
        List<Pair> pairs = new ArrayList<>();
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
            meet(here, there, (l, x) -> true, known, pairs);
        }
        for (boolean inet4 : new boolean[] {true, false}) {
            List<Rail> here = unpaired(inet4, local, pairs.stream().map(Pair::local).toList());
            List<Rail> there = unpaired(inet4, remote, pairs.stream().map(Pair::remote).toList());
            meet(here, there, known::routed, known, pairs);
        }
        List<Unreachable> unreachable = new ArrayList<>();
        for (Rail r : remote) {
            if (pairs.stream().noneMatch(p -> samePort(p.remote(), r))) {
                unreachable.add(new Unreachable(r, whyNot(r, local)));
            }
        }
        pairs.sort( // stable
                Comparator.comparing(known::vain)
                        .thenComparing(Comparator.comparingInt(Rails::speed).reversed())
                        .thenComparing(pair -> known.distance(pair.local())));
        return new Plan(List.copyOf(pairs), List.copyOf(unreachable));
    }

    /// Each rail here meets one there, or each there one here, whichever are more: the i-th the
    /// i-th, or the next that it can reach, that has met fewer than others, and that it has not
    /// tried in vain.
    private static void meet(
            List<Rail> here,
            List<Rail> there,
            BiPredicate<Rail, Rail> reaches,
            Known known,
            List<Pair> pairs) {
        int most = here.isEmpty() || there.isEmpty() ? 0 : Math.max(here.size(), there.size());
        int[] uses = new int[there.size()];
        for (int i = 0; i < most; i++) {
            Rail from = here.get(i % here.size());
            int best = -1;
            int least = Integer.MAX_VALUE;
            for (int k = 0; k < there.size(); k++) {
                int at = (i + k) % there.size();
                int cost = 2 * uses[at] + (known.vain(new Pair(from, there.get(at))) ? 1 : 0);
                if (cost < least && reaches.test(from, there.get(at))) {
                    best = at;
                    least = cost;
                }
            }
            if (best < 0) {
                continue;
            }
            uses[best]++;
            Rail to = there.get(best);
            // Several addresses of two ports are one way.
            if (pairs.stream()
                    .noneMatch(p -> samePort(p.local(), from) && samePort(p.remote(), to))) {
                pairs.add(new Pair(from, to));
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

    /// @return of each port that is not among those in pairs the best address of a family that
    ///     others may be routed to
    private static List<Rail> unpaired(boolean inet4, List<Rail> rails, List<Rail> paired) {
        List<Rail> all = new ArrayList<>();
        for (Rail r : rails) {
            if (r.ethernet()
                    && !r.linkLocal()
                    && r.inet4() == inet4
                    && paired.stream().noneMatch(p -> samePort(p, r))
                    && all.stream().noneMatch(p -> samePort(p, r))) {
                all.add(r);
            }
        }
        return all;
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
        return "no port here shares its subnet (/%d), or has a route to it and is in no other pair"
                .formatted(remote.prefix());
    }
}
