package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
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

    /// Of so many seeds one is run twice, and each that fails is. What makes two runs differ is in
    /// the engine or in the simulation, and so in many seeds: a thousand of them have it, or it is
    /// too rare for ten thousand as well.
    private static final int SAMPLE = 10;

    /// So many seeds are run in another JVM, too.
    private static final int ELSEWHERE = 200;

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
            if (violations.isEmpty() && seed % SAMPLE != 0) {
                return violations;
            }
            try (RandomRun again = new RandomRun(seed, Planted.NONE, null)) {
                List<String> unused = again.run();
                if (again.simulation.fingerprint() != run.simulation.fingerprint()) {
                    List<String> all = new ArrayList<>(violations);
                    all.add("two runs differ: " + difference(run, again));
                    return all;
                }
            }
            return violations;
        }
    }

    /// The first event that one run has and the other has not.
    private static String difference(RandomRun one, RandomRun other) {
        List<SimEvent> a = one.simulation.log();
        List<SimEvent> b = other.simulation.log();
        int at = 0;
        while (at < Math.min(a.size(), b.size()) && a.get(at).equals(b.get(at))) {
            at++;
        }
        return "event %d is %s, or %s"
                .formatted(at, at < a.size() ? a.get(at) : "-", at < b.size() ? b.get(at) : "-");
    }

    /// About 10 ms of processor time a seed, on as many cores as there are.
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
                                        while ((seed = next.getAndIncrement()) < first + SEEDS
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
        long seconds = (System.nanoTime() - began) / 1_000_000_000;
        System.out.println("simulation: the seeds took %d s".formatted(seconds));
        assertThat(failures).as("rerun one with -Dtelpher.sim.seed=SEED").isEmpty();
    }

    /// What differs from one JVM to the next, such as the salt that immutable collections are
    /// ordered by, hash codes of objects and addresses, has no part in what happens.
    @Test
    @Timeout(value = 5, unit = TimeUnit.MINUTES)
    void anotherJvmSeesTheSame() throws Exception {
        long first = System.currentTimeMillis();
        System.out.println("simulation in two JVMs: %d seeds from %d".formatted(ELSEWHERE, first));
        Process other =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin/java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                "-XX:+UseSerialGC",
                                "-cp",
                                System.getProperty("java.class.path"),
                                Fingerprints.class.getName(),
                                Long.toString(first),
                                Integer.toString(ELSEWHERE))
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        try {
            List<String> here = new ArrayList<>();
            for (int i = 0; i < ELSEWHERE; i++) {
                here.add(Fingerprints.of(first + i));
            }
            assertThat(other.inputReader().lines().toList()).isEqualTo(here);
            assertThat(other.waitFor()).isZero();
        } finally {
            other.destroyForcibly();
        }
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
