package io.telpher.cli.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/// How much of the machine other programs use, since figures from a busy machine mean little.
final class Disturbance {
    /// Share of all processors above which a remark is due.
    static final double NOTABLE = 0.05;

    private static final long LOOK_NANOS = 100_000_000;
    private static final double TICKS_PER_SECOND = 100; // what the kernel shows to programs

    private final long busy = busyTicks();
    private final long own = ownTicks();
    private final long start = System.nanoTime();

    /// @return share of all processors that other programs have used since this object was made
    double share() {
        double seconds = (System.nanoTime() - start) / 1e9;
        double ticks = seconds * TICKS_PER_SECOND * Math.max(1, Cores.available().size());
        return Math.clamp((busyTicks() - busy - (ownTicks() - own)) / ticks, 0, 1);
    }

    /// Waits until others use little of the machine, but not longer than this.
    static void awaitQuiet(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        Disturbance look;
        do {
            look = new Disturbance();
            LockSupport.parkNanos(LOOK_NANOS);
        } while (look.share() > NOTABLE && System.nanoTime() - end < 0);
    }

    /// Ends a table with a remark on it.
    void report(Table table, JsonLines json) {
        double share = share();
        json.metric("processor share of other programs", share, "of all processors", NOTABLE);
        if (share > NOTABLE) {
            table.remark(
                    "other programs used %s of the processors meanwhile: the figures are disturbed"
                            .formatted(Spread.percent(share)));
        }
    }

    private static long busyTicks() {
        try {
            String[] words = Files.readAllLines(Path.of("/proc/stat")).getFirst().split(" +");
            // After the name: user, nice, system, idle, iowait, irq, softirq.
            return ticks(words, 1, 2, 3, 6, 7);
        } catch (IOException e) {
            return 0;
        }
    }

    /// This process, those that it started, and those of them that have ended.
    private static long ownTicks() {
        ProcessHandle self = ProcessHandle.current();
        return ticksOf(self) + self.descendants().mapToLong(Disturbance::ticksOf).sum();
    }

    private static long ticksOf(ProcessHandle process) {
        try {
            String text = Files.readString(Path.of("/proc/" + process.pid() + "/stat"));
            // From the state on, since the name before it may have spaces: utime, stime, and the
            // same of children that have ended.
            return ticks(text.substring(text.lastIndexOf(')') + 2).split(" "), 11, 12, 13, 14);
        } catch (IOException e) {
            return 0; // it has just ended
        }
    }

    private static long ticks(String[] words, int... places) {
        long sum = 0;
        for (int place : places) {
            sum += Long.parseLong(words[place]);
        }
        return sum;
    }
}
