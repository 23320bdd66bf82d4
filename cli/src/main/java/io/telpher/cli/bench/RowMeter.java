package io.telpher.cli.bench;

import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.HdrHistogram.Histogram;

/// Measures rows on an open [Stage]: checks data with buffers of their own, finds out how long an
/// operation takes, then measures in segments of random length, each with new contents that are
/// checked at its end.
final class RowMeter {
    private static final double SUB_MICROSECOND = 1_000;
    private static final int CHECKED_IN_FLIGHT = 16;
    private static final int STREAM_MASK = 63;

    /// Of operations in flight that take less than this only some are timed: two looks at the clock
    /// and a record in the histogram are 80 ns, and the peers do without.
    private static final double TIMED_EACH = 20_000;

    /// Warming up goes on, within its limit, as long as the compilers of this rank, which are those
    /// of all ranks in kind, have worked for more than 10 of the last 300 ms.
    private static final long COMPILER_WATCH = 300_000_000L;
    private static final long COMPILER_AT_REST = 10;
    private static final long LARGE = 1 << 20;
    private static final int LARGE_PER_SMALL = 64;

    /// Seconds of warming up at least what the JVM has not run before, and what it has.
    private static final double UNKNOWN = 0.8;

    private static final double KNOWN = 0.1;
    private static final CompilationMXBean COMPILATION = ManagementFactory.getCompilationMXBean();

    private final Crew crew;
    private final long longestWarmUp;
    private final SplittableRandom random = new SplittableRandom();
    private final Set<Case> warm = new HashSet<>();
    private long round = 1;

    /// @param warmUp seconds to spend at most on warming an operation up
    RowMeter(Crew crew, double warmUp) {
        this.crew = crew;
        longestWarmUp = (long) (warmUp * 1e9);
    }

    /// Lets the JIT compile what an operation needs, small and in chunks: longer when the JVM has
    /// not run it before, and until the compilers have come to rest. On two cores they take
    /// processors from what is measured.
    ///
    /// @param largest the bytes of the largest of the operations to be measured
    void warmUp(Op op, long largest) {
        Case large = large(op, largest);
        warmUp(large, warm.add(large) ? UNKNOWN : KNOWN);
    }

    private static Case large(Op op, long largest) {
        return new Case(op, Math.min(largest, LARGE), 1, 1);
    }

    private void warmUp(Case large, double seconds) {
        Case small = new Case(large.op(), 8, 1, 1);
        long start = System.nanoTime();
        long latest = start + longestWarmUp;
        long end = Math.min(latest, start + (long) (seconds * 1e9));
        long compiled = COMPILATION.getTotalCompilationTime();
        long count = LARGE_PER_SMALL;
        while (System.nanoTime() < end) {
            for (Phase.Shape shape : shapes()) {
                warmUp(small, shape, count);
                warmUp(large, shape, count / LARGE_PER_SMALL);
            }
            count = Math.min(count * 2, 4096);
            long now = System.nanoTime();
            if (now >= end && now < latest) {
                long all = COMPILATION.getTotalCompilationTime();
                if (all - compiled > COMPILER_AT_REST) {
                    end = Math.min(latest, now + COMPILER_WATCH);
                }
                compiled = all;
            }
        }
    }

    private void warmUp(Case test, Phase.Shape shape, long count) {
        crew.run(phase(test, shape, Phase.Place.SHARED, count, 0.01, 10, STREAM_MASK, 16));
    }

    /// Measures one row beside a load, after warming up beside it: the JVM compiles anew what has
    /// only run alone so far, and on two cores that takes longer than the row.
    ///
    /// @param seconds how long operations are timed, checks not counted
    Row measure(Case test, double seconds, Background load) {
        warmUp(large(test.op(), test.bytes()), UNKNOWN);
        load.count();
        return measure(test, seconds);
    }

    /// Measures one row.
    ///
    /// @param seconds how long operations are timed, checks not counted
    Row measure(Case test, double seconds) {
        Stage stage = crew.stand().stage;
        Phase.Shape shape = test.depth() == 1 ? shapes().getFirst() : Phase.Shape.STREAM;
        Tally tally = new Tally(stage, test, shape);

        int apart = checkedInFlight(test);
        tally.check(
                crew.run(
                        phase(test, Phase.Shape.STREAM, Phase.Place.APART, apart, 0, 1, 0, apart)));
        double nanos = calibrate(test, shape, Math.min(seconds / 8, 0.02));
        if (shape == Phase.Shape.STREAM) {
            double part = seconds * random.nextDouble(0.3, 0.7);
            int mask = nanos < TIMED_EACH ? STREAM_MASK : 0;
            segments(tally, tally.medians, nanos, part, 1, mask);
            segments(tally, tally.medians, nanos, seconds - part, 1, mask);
            tally.tails.add(tally.medians);
        } else {
            double part = seconds * random.nextDouble(0.4, 0.6);
            int group = group(nanos);
            tally.group = group;
            segments(tally, tally.medians, nanos, part, group, 0);
            segments(tally, tally.tails, nanos, seconds - part, 1, 0);
            if (group == 1) {
                tally.medians.add(tally.tails);
                tally.tails.add(tally.medians);
            }
        }
        return tally.row();
    }

    /// @return how many operations are timed together for the median, since one of them is too
    ///     short for the clock
    static int group(double nanos) {
        return nanos < SUB_MICROSECOND ? Math.clamp((int) (2_000 / nanos), 10, 100) : 1;
    }

    /// A ping-pong needs one initiator and one target.
    private List<Phase.Shape> shapes() {
        Stage stage = crew.stand().stage;
        return stage.traffic() == Traffic.PAIR && stage.direction() == Traffic.Direction.ONE
                ? List.of(Phase.Shape.PING_PONG, Phase.Shape.STREAM)
                : List.of(Phase.Shape.STREAM);
    }

    private int checkedInFlight(Case test) {
        long spacing = (test.bytes() + 7) & -8L;
        long fit = crew.stand().room() / spacing;
        return Math.clamp(fit, 1, Math.max(CHECKED_IN_FLIGHT, test.depth()));
    }

    private double calibrate(Case test, Phase.Shape shape, double seconds) {
        if (test.op().oneSided()) {
            PhaseOutcome outcome =
                    crew.run(
                            phase(
                                    test,
                                    shape,
                                    Phase.Place.SHARED,
                                    Long.MAX_VALUE,
                                    seconds,
                                    1,
                                    0,
                                    test.depth()));
            return outcome.nanosPerOperation();
        }
        for (long count = 8; ; count *= 8) {
            double nanos = calibrate(test, shape, count);
            if (nanos * count > seconds * 2e8 || count > 1_000_000) {
                // Once more: a pause of the machine in the few of the first try would look like
                // slow operations, and the row would be over after a thousand of them.
                return Math.min(nanos, calibrate(test, shape, count));
            }
        }
    }

    private double calibrate(Case test, Phase.Shape shape, long count) {
        return crew.run(phase(test, shape, Phase.Place.SHARED, count, 0, 1, 0, test.depth()))
                .nanosPerOperation();
    }

    private void segments(
            Tally tally, Histogram times, double nanos, double seconds, int group, int mask) {
        Portions portions = new Portions(seconds, !tally.test.op().oneSided());
        while (portions.hasNext()) {
            double next = portions.next();
            PhaseOutcome outcome =
                    crew.run(segment(tally.test, tally.shape, nanos, next, group, mask));
            tally.add(outcome, times);
            nanos = outcome.nanosPerOperation();
            portions.took(outcome.seconds());
        }
    }

    private Phase segment(
            Case test, Phase.Shape shape, double nanos, double seconds, int group, int mask) {
        long count = Math.max(3, (long) (seconds * 1e9 / nanos));
        count = Math.max(1, count / group) * group;
        return phase(
                test,
                shape,
                Phase.Place.SHARED,
                test.op().oneSided() ? Long.MAX_VALUE : count,
                seconds,
                group,
                mask,
                test.depth());
    }

    /// Measures what the engine allocates for 8-byte operations.
    ///
    /// @return bytes per operation, all ranks together
    double allocatedPerOperation(Op op, Phase.Style style) {
        Case small = new Case(op, 8, 1, 16);
        long count = crew.stand().stage.memory().onGpu() ? 2_000 : 20_000;
        for (int i = 0; i < 3; i++) {
            crew.run(styled(small, style, count));
        }
        PhaseOutcome outcome = crew.run(styled(small, style, count));
        return (double) outcome.allocated() / count;
    }

    private Phase styled(Case small, Phase.Style style, long count) {
        return new Phase(
                small.op(),
                small.bytes(),
                1,
                small.depth(),
                Phase.Shape.STREAM,
                Phase.Place.SHARED,
                style,
                count,
                0,
                1,
                STREAM_MASK,
                round++);
    }

    private Phase phase(
            Case test,
            Phase.Shape shape,
            Phase.Place place,
            long count,
            double seconds,
            int group,
            int mask,
            int depth) {
        return new Phase(
                test.op(),
                test.bytes(),
                test.pieces(),
                depth,
                shape,
                place,
                test.list() ? Phase.Style.LIST : Phase.Style.TOKEN,
                test.op().oneSided() && seconds > 0 ? Long.MAX_VALUE : count,
                seconds,
                group,
                mask,
                round++);
    }
}
