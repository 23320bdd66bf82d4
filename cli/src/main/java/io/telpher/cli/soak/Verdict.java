package io.telpher.cli.soak;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// Counts, and the judgement on memory, descriptors and threads. These are followed in rank 0,
/// which lives from the first moment to the last and sees every other one die; descriptors and
/// threads in the driver, too. Used by the driver's thread.
final class Verdict {
    private static final int STATS = 6;
    private static final int ENDED = 0;
    private static final int DONE = 1;
    private static final int BYTES = 2;
    private static final int CHECKED = 3;
    private static final int UNCHECKED = 4;
    private static final int HEAP = 5;
    private static final double MEGA = 1e6;

    /// What is not counted, since JIT and class loading go on: a third of short soaks, at most
    /// this.
    private static final double WARM_UP = 120;

    private final double warmUp;
    private final long[] dead = new long[STATS];
    private final Trend descriptors = new Trend("descriptors of rank 0", 40);
    private final Trend threads = new Trend("threads of rank 0", 20);
    private final Trend shared = new Trend("shared memory objects of rank 0", 30);
    private final Trend resident = new Trend("MB of memory of rank 0", 100);
    private final Trend heap = new Trend("MB of live heap of rank 0", 24);
    private final Trend driver = new Trend("descriptors of the driver", 40);
    private final Trend driverThreads = new Trend("threads of the driver", 20);
    private Held now = new Held(0, 0, 0, 0);

    Verdict(SoakOptions options) {
        warmUp = Math.min(WARM_UP, options.seconds() / 3);
    }

    private List<Trend> trends() {
        return List.of(descriptors, threads, shared, resident, heap, driver, driverThreads);
    }

    /// Looks at the ranks' processes.
    ///
    /// @param seconds since all of them work
    void sample(double seconds, RankChild[] ranks) throws IOException {
        int open = 0;
        int memory = 0;
        int running = 0;
        long bytes = 0;
        for (RankChild rank : ranks) {
            if (rank.killed || rank.finished) {
                continue;
            }
            Held held;
            try {
                held = Held.by(rank.pid());
            } catch (IOException e) {
                continue; // it is ending, which its line will say
            }
            open += held.descriptors();
            memory += held.shared();
            running += held.threads();
            bytes += held.residentBytes();
            if (rank.number == 0 && seconds > warmUp) {
                descriptors.add(seconds, held.descriptors());
                threads.add(seconds, held.threads());
                shared.add(seconds, held.shared());
                resident.add(seconds, held.residentBytes() / MEGA);
                heap.add(seconds, rank.stat[HEAP] / MEGA);
            }
        }
        if (seconds > warmUp) {
            Held own = Held.by(ProcessHandle.current().pid());
            driver.add(seconds, own.descriptors());
            driverThreads.add(seconds, own.threads());
        }
        now = new Held(open, memory, running, bytes);
    }

    /// Keeps what a rank has counted that is being killed.
    void dead(RankChild rank) {
        for (int i = 0; i < STATS; i++) {
            dead[i] += rank.stat[i];
        }
    }

    /// @return what grows; null when nothing does
    @Nullable String grows() {
        List<String> growing = new ArrayList<>();
        for (Trend trend : trends()) {
            String how = trend.grows();
            if (how != null) {
                growing.add(how);
            }
        }
        return growing.isEmpty() ? null : "something leaks: " + String.join("; ", growing);
    }

    /// @param wrong how much was wrong
    /// @return all of it in one line
    String line(
            double seconds, @Nullable RankChild[] ranks, Map<Fault, Integer> faults, int wrong) {
        long[] sum = dead.clone();
        long live = 0;
        for (RankChild rank : ranks) {
            if (rank == null) {
                continue;
            }
            live += rank.stat[HEAP];
            for (int i = 0; !rank.killed && i < STATS; i++) {
                sum[i] += rank.stat[i];
            }
        }
        Duration time = Duration.ofSeconds((long) seconds);
        int harm = faults.values().stream().mapToInt(n -> n).sum();
        return String.format(
                Locale.ROOT,
                "%d:%02d:%02d  %,d operations, %,d done, %.1f GB, %,d checked, %,d not; %d faults%s;"
                        + " RSS %.0f MB, heap %.0f MB, descriptors %d, threads %d, shm %d; wrong %d; %s",
                time.toHours(),
                time.toMinutesPart(),
                time.toSecondsPart(),
                sum[ENDED],
                sum[DONE],
                sum[BYTES] / 1e9,
                sum[CHECKED],
                sum[UNCHECKED],
                harm,
                faults.entrySet().stream()
                        .map(e -> e.getKey().text() + " " + e.getValue())
                        .collect(Collectors.joining(", ", " (", ")")),
                now.residentBytes() / MEGA,
                live / MEGA,
                now.descriptors(),
                now.threads(),
                now.shared(),
                wrong,
                state());
    }

    private String state() {
        String how = grows();
        return how != null
                ? how
                : trends().stream().allMatch(Trend::isKnown) ? "flat" : "warming up";
    }
}
