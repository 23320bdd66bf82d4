package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;

/// The stages and rows of a run, and how much time each row gets.
final class Plan {
    /// The sweep without `--sizes`.
    static final List<Long> SIZES =
            List.of(
                    8L,
                    64L,
                    512L,
                    4L << 10,
                    32L << 10,
                    64L << 10,
                    256L << 10,
                    1L << 20,
                    8L << 20,
                    64L << 20);

    /// The sweep of memory of GPUs that GPUs copy.
    static final List<Long> GPU_SIZES =
            List.of(8L, 4L << 10, 64L << 10, 1L << 20, 16L << 20, 256L << 20, 1L << 30);

    /// And of that which is staged, and so moves slowly.
    static final List<Long> STAGED_SIZES =
            List.of(8L, 4L << 10, 64L << 10, 1L << 20, 16L << 20, 64L << 20);

    /// The largest notification of the sweep: larger messages are what `send` is for.
    private static final long NOTIFY_SWEEP = 64 << 10;

    private static final double BUDGET_SECONDS = 85;
    private static final double SHORTEST = 0.03;
    private static final double LONGEST = 0.5;

    private Plan() {}

    /// One stage with its rows.
    ///
    /// @param stage where
    /// @param cases the rows, in order: all depths of a size, all sizes of an operation
    record Part(Stage stage, List<Case> cases) {}

    static List<Part> parts(BenchOptions options) {
        List<Part> parts = new ArrayList<>();
        for (String path : options.wantedPaths()) {
            List<Case> cases = new ArrayList<>();
            Stage form = stage(options, path, 1);
            for (Op op : options.ops()) {
                if (!form.fits(op)) {
                    continue;
                }
                for (long size : sizes(options, form, op)) {
                    for (int depth : options.depths()) {
                        cases.add(row(options, op, size, depth));
                    }
                }
            }
            if (cases.isEmpty()) {
                continue;
            }
            long room = cases.stream().mapToLong(Case::bytes).max().orElse(1);
            parts.add(new Part(stage(options, path, room), cases));
        }
        return parts;
    }

    private static Case row(BenchOptions options, Op op, long size, int depth) {
        boolean list = options.posting() == BenchOptions.Posting.LIST;
        return new Case(op, size, options.pieces(), depth, list && op.oneSided() && depth > 1);
    }

    private static List<Long> sizes(BenchOptions options, Stage stage, Op op) {
        if (!options.sizes().isEmpty()) {
            return options.sizes();
        }
        List<Long> sweep =
                stage.byGpu() ? GPU_SIZES : stage.memory().onGpu() ? STAGED_SIZES : SIZES;
        return sweep.stream()
                .filter(size -> size <= NOTIFY_SWEEP || (op != Op.NOTIFY && op != Op.COUNTER))
                .filter(size -> size % options.pieces() == 0)
                .toList();
    }

    private static Stage stage(BenchOptions options, String path, long room) {
        MemoryPair memory = options.memory();
        if (memory == null) {
            memory =
                    MemoryPair.parse(
                            switch (path) {
                                case "cma" -> "foreign";
                                case "cuda-cumem", "cuda-via-gpu" -> "cuda";
                                case "cuda-ipc" -> "cuda-foreign";
                                default -> "telpher";
                            });
        }
        return new Stage(
                path,
                memory,
                options.lanes(),
                options.rails(),
                options.traffic(),
                options.direction(),
                options.ranks(),
                room,
                options.background() == null ? 0 : options.background().bytes(),
                options.waiting());
    }

    /// Shares what is left of the time among the rows that are left.
    static final class Budget {
        private final double fixed;
        private final LongSupplier clock;
        private final long end;
        private int rows;

        /// @param seconds for each row, or 0 to fit all rows into about two minutes
        /// @param rows how many there are
        Budget(double seconds, int rows) {
            this(seconds, rows, System::nanoTime);
        }

        /// @param clock of nanoseconds
        Budget(double seconds, int rows, LongSupplier clock) {
            this.fixed = seconds;
            this.rows = rows;
            this.clock = clock;
            this.end = clock.getAsLong() + (long) (BUDGET_SECONDS * 1e9);
        }

        /// @return seconds to time the next row for; checks and calibration take about as long
        ///     again
        double next() {
            if (fixed > 0) {
                return fixed;
            }
            double left = (end - clock.getAsLong()) / 1e9;
            return Math.clamp(left / Math.max(1, rows--) * 0.5, SHORTEST, LONGEST);
        }

        /// Leaves rows out that cannot be measured here.
        void skip(int count) {
            rows -= count;
        }
    }
}
