package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Random operations and faults, a seed each, in every run other ones: the first seed comes from
/// the time. `-Dtelpher.sim.seed=N` runs one seed and prints its log, `-Dtelpher.sim.seeds=N` and
/// `-Dtelpher.sim.first=N` change how many are run and which.
class SimulationTest {
    private static final int SEEDS = Integer.getInteger("telpher.sim.seeds", 10_000);
    private static final @Nullable Long ONE = Long.getLong("telpher.sim.seed");

    /// A run that comes to fewer within its time has not looked at enough.
    private static final int FEWEST = SEEDS / 2;

    private static final long MOST_NANOS = Duration.ofMinutes(4).toNanos();

    /// Of so many seeds one is run twice.
    private static final int SAMPLE = 50;

    /// So many failures are printed.
    private static final int MOST_FAILURES = 5;

    /// So many seeds must be enough to find a planted fault.
    private static final int ENOUGH = 400;

    private static List<String> run(long seed, boolean print) {
        try (RandomRun run = new RandomRun(seed, Planted.NONE, null)) {
            List<String> violations = run.run();
            if (print) {
                run.simulation.log().forEach(System.out::println);
            }
            if (violations.isEmpty() && seed % SAMPLE == 0) {
                try (RandomRun again = new RandomRun(seed, Planted.NONE, null)) {
                    List<String> unused = again.run();
                    if (again.simulation.fingerprint() != run.simulation.fingerprint()) {
                        return List.of("two runs differ");
                    }
                }
            }
            return violations;
        }
    }

    /// About 15 ms of processor time a seed. A busy machine gets as far as it comes in a few
    /// minutes, and says so; half of the seeds must be done by then.
    @Test
    @Timeout(value = 20, unit = TimeUnit.MINUTES)
    void promisesHold() throws InterruptedException {
        if (ONE != null) {
            assertThat(run(ONE, true)).isEmpty();
            return;
        }
        long began = System.nanoTime();
        long first = Long.getLong("telpher.sim.first", System.currentTimeMillis());
        System.out.println("simulation: %d seeds, -Dtelpher.sim.first=%d".formatted(SEEDS, first));
        List<String> failures = Collections.synchronizedList(new ArrayList<>());
        AtomicLong next = new AtomicLong(first);
        AtomicInteger failed = new AtomicInteger();
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < Runtime.getRuntime().availableProcessors(); i++) {
            workers.add(
                    Thread.ofPlatform()
                            .name("simulations " + i)
                            .start(
                                    () -> {
                                        long seed;
                                        while (System.nanoTime() - began < MOST_NANOS
                                                && (seed = next.getAndIncrement()) < first + SEEDS
                                                && failed.get() < MOST_FAILURES) {
                                            List<String> wrong;
                                            try {
                                                wrong = run(seed, false);
                                            } catch (Throwable e) {
                                                wrong = List.of(String.valueOf(e));
                                            }
                                            if (!wrong.isEmpty()) {
                                                failed.incrementAndGet();
                                                String text =
                                                        "seed "
                                                                + seed
                                                                + ": "
                                                                + String.join("\n    ", wrong);
                                                System.out.println(text);
                                                failures.add(text);
                                            }
                                        }
                                    }));
        }
        for (Thread worker : workers) {
            worker.join();
        }
        long done = Math.min(SEEDS, next.get() - first);
        long seconds = (System.nanoTime() - began) / 1_000_000_000;
        System.out.println("simulation: %d seeds in %d s".formatted(done, seconds));
        assertThat(failures).as("rerun one with -Dtelpher.sim.seed=SEED").isEmpty();
        if (done < SEEDS) {
            System.out.println(
                    "WARNING: simulation: only %d of %d seeds were run, for lack of time"
                            .formatted(done, SEEDS));
        }
        assertThat(done)
                .as("seeds run in %d s, on a machine that may be too busy", seconds)
                .isGreaterThanOrEqualTo(FEWEST);
    }

    @ParameterizedTest
    @EnumSource(value = Planted.class, names = "NONE", mode = EnumSource.Mode.EXCLUDE)
    void plantedFaultsAreFound(Planted planted) {
        for (long seed = 1; seed <= ENOUGH; seed++) {
            LinkOptions.Style style =
                    planted == Planted.CONFIRM_EARLY
                            ? LinkOptions.Style.RING
                            : LinkOptions.Style.values()[(int) (seed % 2)];
            try (RandomRun run = new RandomRun(seed, planted, style)) {
                if (!run.run().isEmpty()) {
                    return;
                }
            }
        }
        throw new AssertionError(planted + " was not found within " + ENOUGH + " seeds");
    }
}
