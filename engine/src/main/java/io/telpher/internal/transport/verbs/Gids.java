package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.verbs.VerbsPorts;
import java.util.Comparator;
import java.util.List;

/// Chooses among the GIDs of a port, by type and address: their indices are an accident of the
/// order in which addresses were configured. Pure.
final class Gids {
    /// What a port lists of its addresses, at most.
    private static final int MOST = 8;

    private Gids() {}

    /// @param ethernet the port's link layer
    /// @param index the only one to use, or -1
    /// @return best first: on Ethernet IPv4, then global IPv6, and link-local ones where there is
    ///     nothing else
    static List<VerbsPorts.Gid> usable(List<VerbsPorts.Gid> gids, boolean ethernet, int index) {
        int type = ethernet ? VerbsPorts.IBV_GID_TYPE_ROCE_V2 : VerbsPorts.IBV_GID_TYPE_IB;
        List<VerbsPorts.Gid> fit =
                gids.stream()
                        .filter(g -> index < 0 || g.index() == index)
                        .filter(g -> g.type() == type)
                        .sorted(Comparator.comparingInt(g -> rank(g.gid())))
                        .toList();
        if (fit.isEmpty() || !ethernet) {
            return fit.stream().limit(1).toList();
        }
        boolean onlyLocal = rank(fit.getFirst().gid()) == 2;
        return fit.stream().filter(g -> onlyLocal || rank(g.gid()) < 2).limit(MOST).toList();
    }

    private static int rank(byte[] gid) {
        return Rail.isInet4(gid) ? 0 : Rail.isLinkLocal(gid) ? 2 : 1;
    }
}
