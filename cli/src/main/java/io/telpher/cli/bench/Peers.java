package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// The peers that were asked for and are installed.
///
/// @param ucx null when missing or not wanted
/// @param iperf3 likewise
/// @param memcpy likewise
/// @param missing what is missing, and the package that brings it
record Peers(
        @Nullable UcxPeer ucx,
        @Nullable Iperf3Peer iperf3,
        @Nullable MemcpyPeer memcpy,
        List<String> missing) {
    /// Every peer's name.
    static final List<String> ALL = List.of("ucx", "iperf3", "memcpy");

    /// Looks for peers.
    ///
    /// @param names which
    /// @param cores cores of the two ranks
    static Peers find(List<String> names, List<Integer> cores) {
        Set<String> wanted = new LinkedHashSet<>(names);
        for (String name : wanted) {
            if (!ALL.contains(name)) {
                throw new IllegalArgumentException(
                        "'" + name + "' is no peer: " + String.join(", ", ALL) + ", or all");
            }
        }
        List<String> missing = new ArrayList<>();
        UcxPeer ucx = wanted.contains("ucx") ? UcxPeer.find(cores) : null;
        if (ucx == null && wanted.contains("ucx")) {
            missing.add("ucx: ucx_perftest is missing (package " + UcxPeer.PACKAGE + ")");
        }
        Iperf3Peer iperf3 = wanted.contains("iperf3") ? Iperf3Peer.find(cores) : null;
        if (iperf3 == null && wanted.contains("iperf3")) {
            missing.add("iperf3: iperf3 is missing (package " + Iperf3Peer.PACKAGE + ")");
        }
        MemcpyPeer memcpy = wanted.contains("memcpy") ? new MemcpyPeer() : null;
        return new Peers(ucx, iperf3, memcpy, missing);
    }

    /// @return those that are there
    List<Peer> present() {
        List<Peer> all = new ArrayList<>();
        if (ucx != null) {
            all.add(ucx);
        }
        if (iperf3 != null) {
            all.add(iperf3);
        }
        if (memcpy != null) {
            all.add(memcpy);
        }
        return all;
    }
}
