package io.telpher.cli.bench;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// Gets the ranks of a run together.
final class CrewFactory {
    private CrewFactory() {}

    /// @param connect the other machine, or null for processes of this host
    /// @return the cores that ranks are pinned to, and that other programs get too; none where all
    ///     is left to the scheduler
    static List<Integer> cores(BenchOptions options, @Nullable String connect) {
        List<Integer> cores = Cores.available();
        boolean pinned =
                options.pinning() == BenchOptions.Pinning.PINNED
                        && cores.size() >= 2
                        && options.ranks() <= cores.size()
                        && connect == null
                        && !options.wantedPaths().contains("self");
        return pinned ? cores : List.of();
    }

    /// Starts or finds every rank but the driver's own, and pins them.
    ///
    /// @param connect the other machine, or null for processes of this host
    /// @param cores what [#cores] gave
    static void fill(
            Crew crew,
            BenchOptions options,
            @Nullable String connect,
            List<Integer> cores,
            Table table) {
        if (connect != null) {
            Hosts.Way way = Hosts.connect(connect, options.rails(), Hosts.PATIENCE);
            crew.add(way.control(), way);
        } else if (options.wantedPaths().equals(List.of("self"))) {
            inThisProcess(crew, options.ranks());
        } else {
            for (int rank = 1; rank < options.ranks(); rank++) {
                RankProcess process = RankProcess.start(rank, List.of());
                crew.add(process.control(), process);
            }
        }
        for (String machine : crew.machines()) {
            if (!machine.equals(Machine.describe())) {
                table.remark("the other machine: " + machine);
            }
        }
        if (!cores.isEmpty()) {
            crew.pin(cores).forEach(table::remark);
        }
        table.remark(options.ranks() + " ranks, " + crew.pins());
    }

    private static void inThisProcess(Crew crew, int ranks) {
        for (int rank = 1; rank < ranks; rank++) {
            Control[] ends = QueueControl.pair();
            Thread.ofPlatform()
                    .daemon()
                    .name("telpher-bench-rank-" + rank)
                    .start(new RankServer(ends[1])::serve);
            crew.add(ends[0], ends[0]);
        }
    }
}
