package io.telpher.internal.transport.verbs;

import io.telpher.internal.observe.Log;
import io.telpher.topology.CpuSet;
import io.telpher.topology.NicPort;
import io.telpher.topology.NumaNode;
import io.telpher.topology.Topology;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/// How far the ports of this machine are from the NUMA node to which this process is bound, where
/// its memory comes from. A process that may run anywhere is near to all of them.
final class Nearness {
    private static final Path STATUS = Path.of("/proc/self/status");
    private static final String CPUS = "Cpus_allowed_list:";

    /// The firmware's numbers for memory of the own node, and of another one where it says nothing.
    private static final int OWN = 10;

    private static final int OTHER = 20;

    /// This machine and process, as they were when somebody asked first. The files of the kernel
    /// alone: asking the GPUs' driver may take a second.
    private static final class Here {
        static final Nearness NEARNESS = of(Topology.under(Path.of("/")), cpus());

        private static CpuSet cpus() {
            try {
                for (String line : Files.readAllLines(STATUS)) {
                    if (line.startsWith(CPUS)) {
                        return CpuSet.parseList(line.substring(CPUS.length()).strip());
                    }
                }
            } catch (IOException | IllegalArgumentException e) {
                Log.debug("no CPUs in " + STATUS, e);
            }
            return CpuSet.NONE;
        }
    }

    private final Topology machine;
    private final @Nullable NumaNode node;

    private Nearness(Topology machine, @Nullable NumaNode node) {
        this.machine = machine;
        this.node = node;
    }

    static Nearness here() {
        return Here.NEARNESS;
    }

    /// @param cpus those on which the process may run
    static Nearness of(Topology machine, CpuSet cpus) {
        NumaNode only = null;
        for (NumaNode node : machine.numaNodes()) {
            if (node.cpus().intersects(cpus)) {
                if (only != null) {
                    return new Nearness(machine, null);
                }
                only = node;
            }
        }
        return new Nearness(machine, only);
    }

    /// @return 10 for a port at the process's own node, and where nobody knows; more for others, as
    ///     the firmware has it
    int distance(Rail local) {
        NumaNode from = node;
        if (from == null) {
            return OWN;
        }
        for (NicPort port : machine.ports()) {
            if (names(port, local)) {
                return machine.numaNode(port).map(at -> distance(from, at)).orElse(OWN);
            }
        }
        return OWN;
    }

    private static int distance(NumaNode from, NumaNode to) {
        return from.numa() == to.numa() ? OWN : from.distances().getOrDefault(to.numa(), OTHER);
    }

    /// The topology names a port by its device where that has only one.
    private static boolean names(NicPort port, Rail rail) {
        return port.name().equals(rail.device() + ":" + rail.port())
                || port.name().equals(rail.device());
    }
}
