package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The peers that were asked for and are installed.
///
/// @param ucx null when missing or not wanted
/// @param iperf3 likewise
/// @param memcpy likewise
/// @param cuda likewise
/// @param perftest likewise
/// @param python those that are Python packages
/// @param missing what is missing, why, and what brings it
record Peers(
        @Nullable UcxPeer ucx,
        @Nullable Iperf3Peer iperf3,
        @Nullable MemcpyPeer memcpy,
        @Nullable CudaPeer cuda,
        @Nullable PerftestPeer perftest,
        List<PythonPeer> python,
        List<String> missing)
        implements AutoCloseable {
    /// Those that the figures are compared with.
    static final List<String> OF_FIGURES = List.of("ucx", "iperf3", "memcpy");

    /// Those that need no Python.
    private static final List<String> NATIVE =
            List.of("ucx", "iperf3", "memcpy", "cuda", "perftest");

    private static final List<String> PYTHON =
            Stream.concat(PythonPeer.NAMES.stream(), Stream.of(PythonPeer.NCCL)).toList();

    /// Checks names that a user wrote.
    ///
    /// @throws IllegalArgumentException when one is no peer
    static void check(List<String> names) {
        for (String name : names) {
            if (!NATIVE.contains(name) && !PYTHON.contains(name)) {
                throw new IllegalArgumentException(
                        "'%s' is no peer: %s, %s, or all"
                                .formatted(
                                        name,
                                        String.join(", ", NATIVE),
                                        String.join(", ", PYTHON)));
            }
        }
    }

    /// Looks for peers.
    ///
    /// @param names which
    /// @param cores cores of the two ranks, none where they are not pinned
    static Peers find(List<String> names, List<Integer> cores) {
        Set<String> wanted = new LinkedHashSet<>(names);
        List<String> missing = new ArrayList<>();
        UcxPeer ucx = wanted.contains("ucx") ? UcxPeer.find(cores) : null;
        if (ucx == null && wanted.contains("ucx")) {
            missing.add("ucx: ucx_perftest is missing (package " + UcxPeer.PACKAGE + ")");
        }
        Iperf3Peer iperf3 = wanted.contains("iperf3") ? Iperf3Peer.find(cores) : null;
        if (iperf3 == null && wanted.contains("iperf3")) {
            missing.add("iperf3: iperf3 is missing (package " + Iperf3Peer.PACKAGE + ")");
        }
        MemcpyPeer memcpy = wanted.contains("memcpy") ? new MemcpyPeer(cores) : null;
        String noCuda = wanted.contains("cuda") ? CudaPeer.missing() : null;
        if (noCuda != null) {
            missing.add("cuda: " + noCuda);
        }
        CudaPeer cuda = wanted.contains("cuda") && noCuda == null ? new CudaPeer() : null;
        PerftestPeer perftest =
                wanted.contains("perftest") ? PerftestPeer.find(cores, missing) : null;
        List<PythonPeer> python = new ArrayList<>();
        PeerInstall install = PeerInstall.ofUser();
        for (String name : PYTHON) {
            PythonPeer peer = wanted.contains(name) ? install.find(name, cores, missing) : null;
            if (peer != null) {
                python.add(peer);
            }
        }
        return new Peers(ucx, iperf3, memcpy, cuda, perftest, python, missing);
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
        if (cuda != null) {
            all.add(cuda);
        }
        if (perftest != null) {
            all.add(perftest);
        }
        all.addAll(python);
        return all;
    }

    @Override
    public void close() {
        present().forEach(Peer::close);
    }
}
