package io.telpher.internal.transport.verbs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.BiPredicate;
import org.jspecify.annotations.Nullable;

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
        /// Packets have arrived, ever.
        long WORKED = -1;

        long UNTRIED = 0;

        /// Whether packets of a rail here find a way to one in another subnet, of the same family.
        boolean routed(Rail from, Rail to);

        /// What came of trying this pair.
        ///
        /// @return [#WORKED], [#UNTRIED], or above that where nothing has arrived: the greater, the
        ///     later it was tried
        default long tried(Pair pair) {
            return UNTRIED;
        }

        /// How far a rail here is from this process's memory.
        default int distance(Rail local) {
            return 0;
        }
    }

    /// What was decided.
    ///
    /// @param pairs best first: those that have worked, those that were not tried, those tried in
    ///     vain; of these the fastest, of equal ones the nearest
    /// @param spared pairs tried in vain that are left out this time
    /// @param unreachable rails of the peer that are in no pair
    record Plan(List<Pair> pairs, List<Pair> spared, List<Unreachable> unreachable) {}

    /// A pair that may be.
    ///
    /// @param turn whose turn to meet one it is, see [#meet]
    /// @param at the place of the rail there
    /// @param tried see [Known#tried], asked once: others go on meanwhile
    private record Candidate(int turn, int at, Pair pair, long tried) {}

    /// Pairs rails: those in one subnet, one to one, in the order in which they are listed, so that
    /// each port of either side is used and none twice as much as others. Then ports that are in no
    /// pair so, where the network may lead from one to the other: a host may have a port in a
    /// subnet with everybody, and others each in a subnet of its own.
    ///
    /// What has worked stays as it is. What was tried in vain is not tried again before the ports'
    /// other combinations: ports may seem to be in one subnet, and each be cabled to one of the
    /// others. Where no pair has worked, such a try costs seconds in which nothing is connected:
    /// none is planned then beside those that are new, and one alone where none is new, the one
    /// that was tried longest ago.
    static Plan plan(List<Rail> local, List<Rail> remote, Known known) {
        List<Candidate> met = new ArrayList<>();
        Set<Rail> seen = new HashSet<>();
        for (Rail r : remote) {
            if (!seen.add(r)) {
                continue;
            }
            List<Rail> here = local.stream().filter(l -> sameLink(l, r)).toList();
            if (here.isEmpty()) {
                continue;
            }
            Rail first = here.getFirst();
            List<Rail> there = remote.stream().filter(x -> sameLink(first, x)).toList();
            seen.addAll(there);
            meet(here, there, (l, x) -> true, known, met);
        }
        for (boolean inet4 : new boolean[] {true, false}) {
            List<Rail> here =
                    unpaired(inet4, local, met.stream().map(c -> c.pair().local()).toList());
            List<Rail> there =
                    unpaired(inet4, remote, met.stream().map(c -> c.pair().remote()).toList());
            meet(here, there, known::routed, known, met);
        }
        List<Unreachable> unreachable = new ArrayList<>();
        for (Rail r : remote) {
            if (met.stream().noneMatch(c -> samePort(c.pair().remote(), r))) {
                unreachable.add(new Unreachable(r, whyNot(r, local)));
            }
        }
        met.sort( // stable
                Comparator.comparingLong(Candidate::tried)
                        .thenComparingInt(c -> -speed(c.pair()))
                        .thenComparingInt(c -> known.distance(c.pair().local())));
        List<Pair> pairs = met.stream().map(Candidate::pair).toList();
        int now = pairs.size();
        if (met.stream().noneMatch(c -> c.tried() == Known.WORKED)) {
            int untried = (int) met.stream().filter(c -> c.tried() == Known.UNTRIED).count();
            now = Math.min(now, Math.max(1, untried));
        }
        return new Plan(
                pairs.subList(0, now), pairs.subList(now, pairs.size()), List.copyOf(unreachable));
    }

    /// Each rail here meets one there, or each there one here, whichever are more. First they meet
    /// as it has worked, then as it was not tried, then as it was in vain longest ago; of equal
    /// combinations the i-th meets the i-th, or the next that it can reach. None meets more others
    /// than it must.
    private static void meet(
            List<Rail> here,
            List<Rail> there,
            BiPredicate<Rail, Rail> reaches,
            Known known,
            List<Candidate> met) {
        int turns = here.isEmpty() || there.isEmpty() ? 0 : Math.max(here.size(), there.size());
        List<Candidate> left = new ArrayList<>();
        for (int k = 0; k < there.size(); k++) {
            for (int turn = 0; turn < turns; turn++) {
                int at = (turn + k) % there.size();
                Pair pair = new Pair(here.get(turn % here.size()), there.get(at));
                left.add(new Candidate(turn, at, pair, known.tried(pair)));
            }
        }
        left.sort(Comparator.comparingLong(Candidate::tried)); // stable
        @Nullable Candidate[] chosen = new @Nullable Candidate[turns];
        int[] uses = new int[there.size()];
        // What has worked needs no second round, where others would have taken its place.
        int share = Math.ceilDiv(turns, Math.max(1, there.size()));
        for (int most = 1; most <= turns; most++) {
            for (Iterator<Candidate> each = left.iterator(); each.hasNext(); ) {
                Candidate next = each.next();
                int limit = next.tried() == Known.WORKED ? Math.max(share, most) : most;
                if (chosen[next.turn()] != null || uses[next.at()] >= limit) {
                    continue;
                }
                each.remove();
                if (reaches.test(next.pair().local(), next.pair().remote())) {
                    chosen[next.turn()] = next;
                    uses[next.at()]++;
                }
            }
        }
        for (Candidate each : chosen) {
            // Several addresses of two ports are one way.
            if (each != null
                    && met.stream()
                            .noneMatch(
                                    c ->
                                            samePort(c.pair().local(), each.pair().local())
                                                    && samePort(
                                                            c.pair().remote(),
                                                            each.pair().remote()))) {
                met.add(each);
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
