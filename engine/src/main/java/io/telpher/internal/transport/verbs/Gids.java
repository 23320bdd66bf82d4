package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.topology.Gid;
import java.util.List;

/// Chooses among the GIDs of a port, by the rule that the topology has ([Gid#usable]). Pure.
final class Gids {
    /// What a port lists of its addresses, at most.
    private static final int MOST = 8;

    /// The last index that a queue pair's path can name.
    static final int LAST = 255;

    private Gids() {}

    /// @param ethernet the port's link layer
    /// @param index the only one to use, or -1
    /// @return best first
    static List<VerbsPorts.Gid> usable(List<VerbsPorts.Gid> gids, boolean ethernet, int index) {
        List<VerbsPorts.Gid> named =
                gids.stream()
                        .filter(g -> index < 0 ? g.index() <= LAST : g.index() == index)
                        .toList();
        return Gid.usable(named.stream().map(g -> known(g, ethernet)).toList()).stream()
                .map(best -> entry(named, best.index()))
                .limit(MOST)
                .toList();
    }

    private static Gid known(VerbsPorts.Gid gid, boolean ethernet) {
        Gid.Type type =
                !ethernet
                        ? Gid.Type.INFINIBAND
                        : gid.type() == VerbsPorts.IBV_GID_TYPE_ROCE_V2
                                ? Gid.Type.ROCE_V2
                                : Gid.Type.ROCE_V1;
        return new Gid(gid.index(), type, Rail.text(gid.gid()));
    }

    private static VerbsPorts.Gid entry(List<VerbsPorts.Gid> gids, int index) {
        return gids.stream().filter(g -> g.index() == index).findFirst().orElseThrow();
    }
}
