package io.telpher.sim;

import io.telpher.TelpherException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// Hosts, links and programs in virtual time. The same seed and the same calls give the same run,
/// event for event.
///
/// Not thread-safe, and need not be: programs take turns, and one other thread drives them by
/// [#run()]. `docs/simulation.md` has an example.
public final class Simulation implements AutoCloseable {
    private static final Duration LONGEST = Duration.ofDays(1);

    final Scheduler scheduler;

    /// What a test has planted.
    Planted planted = Planted.NONE;

    private final long seed;
    private final Map<String, SimHost> hosts = new LinkedHashMap<>();
    private final List<SimLink> links = new ArrayList<>();
    private final List<SimProcess> processes = new ArrayList<>();
    private final RandomGenerator random;
    private final SimHost outside;
    private @Nullable Failure failure;
    private int streams;

    private record Failure(Task task, Throwable cause) {}

    /// Makes an empty simulation.
    ///
    /// @param seed what all chance comes from
    public Simulation(long seed) {
        this.seed = seed;
        this.scheduler = new Scheduler(seed);
        this.random = scheduler.random.split();
        this.outside = new SimHost(this, "outside");
    }

    /// @return the seed
    public long seed() {
        return seed;
    }

    /// @return a generator for the test's own decisions, from the seed
    public RandomGenerator random() {
        return random;
    }

    // --- the world ------------------------------------------------------------------------------

    /// Makes a host, with a link to itself.
    ///
    /// @throws IllegalArgumentException when there is one of that name
    public SimHost host(String name) {
        SimHost made = new SimHost(this, name);
        if (hosts.putIfAbsent(name, made) != null) {
            throw new IllegalArgumentException("there is a host '" + name + "' already");
        }
        links.add(
                new SimLink(
                        this,
                        made,
                        made,
                        LinkOptions.DEFAULTS.withLatency(Duration.ofNanos(2_000)),
                        links.size() + 1));
        return made;
    }

    /// Makes a link. Endpoints use all links between their hosts, the first for control.
    public SimLink link(SimHost a, SimHost b, LinkOptions options) {
        SimLink made = new SimLink(this, a, b, options, links.size() + 1);
        links.add(made);
        return made;
    }

    /// Cuts all links between these hosts and all others; [#heal()] ends it.
    public void partition(SimHost... group) {
        for (SimLink link : links) {
            if (link.crosses(Arrays.asList(group))) {
                link.cut();
            }
        }
    }

    /// Mends all links.
    public void heal() {
        for (SimLink link : links) {
            link.mend();
        }
    }

    /// How often a thread loses the processor in the middle of the engine's work: a share of the
    /// points where it can, 0 to 1. 0 from the start.
    public void load(double share) {
        if (!(share >= 0 && share <= 1)) {
            throw new IllegalArgumentException("load is " + share + "; it must lie in 0 to 1");
        }
        scheduler.load(share);
    }

    @Nullable SimHost find(String name) {
        return hosts.get(name);
    }

    List<SimLink> links(SimHost a, SimHost b) {
        List<SimLink> found = new ArrayList<>();
        for (SimLink link : links) {
            if (link.joins(a, b)) {
                found.add(link);
            }
        }
        return found;
    }

    void add(SimProcess process) {
        processes.add(process);
    }

    int nextStream() {
        return ++streams;
    }

    // --- time -----------------------------------------------------------------------------------

    /// @return virtual time since the start
    public Duration now() {
        return Duration.ofNanos(scheduler.elapsed());
    }

    /// Lets something happen after a while: a fault, for instance. It runs as a program of no host.
    public void after(Duration delay, Runnable action) {
        scheduler.in(
                delay.toNanos(),
                () -> {
                    SimProcess nowhere = new SimProcess(this, outside, 1);
                    nowhere.start(nowhere.thread("action", action));
                });
    }

    /// Waits, as a program.
    public void sleep(Duration time) {
        scheduler.sleep(time.toNanos());
    }

    /// Waits until something is so, as a program.
    ///
    /// @throws TelpherException.TimedOut when it takes too long
    public void await(BooleanSupplier condition, Duration atMost) {
        long since = scheduler.now();
        while (!condition.getAsBoolean()) {
            long waited = scheduler.now() - since;
            if (waited >= atMost.toNanos()) {
                throw new TelpherException.TimedOut("it did not come about within " + atMost);
            }
            // The longer it takes, the less an exact moment matters.
            scheduler.sleep(Math.clamp(waited / 8, 20_000, 50_000_000));
        }
    }

    /// Runs until every program has ended, and throws what one of them has thrown.
    ///
    /// @throws IllegalStateException when some have not ended after a day of virtual time, or wait
    ///     for what cannot happen any more
    public void run() {
        if (!drive(scheduler.programs()::isEmpty, LONGEST)) {
            throw new IllegalStateException(
                    "these programs do not end: %s; where everything stands:%s"
                            .formatted(scheduler.programs(), scheduler.standings()));
        }
    }

    /// Runs for so long, and throws what a program has thrown.
    public void runFor(Duration time) {
        boolean never = drive(() -> false, time);
        assert !never;
    }

    /// Runs until something is so.
    ///
    /// @return whether it is so; false when it took too long
    public boolean runUntil(BooleanSupplier condition, Duration atMost) {
        return drive(condition, atMost);
    }

    private boolean drive(BooleanSupplier done, Duration atMost) {
        boolean so =
                scheduler.run(
                        () -> failure != null || done.getAsBoolean(),
                        scheduler.now() + atMost.toNanos());
        Failure thrown = failure;
        if (thrown != null) {
            failure = null;
            throw new IllegalStateException(
                    "%s failed after %s, seed %d".formatted(thrown.task, now(), seed),
                    thrown.cause);
        }
        return so;
    }

    void failed(Task task, Throwable cause) {
        if (failure == null) {
            failure = new Failure(task, cause);
        }
    }

    // --- what happened --------------------------------------------------------------------------

    /// Adds an entry of the test's own to the log.
    public void log(String where, String what) {
        scheduler.log(where, what);
    }

    /// @return what happened: the newest 200,000 events
    public List<SimEvent> log() {
        return scheduler.log.events();
    }

    /// @return a hash of all that happened
    public long fingerprint() {
        return scheduler.log.hash();
    }

    /// Ends all processes.
    @Override
    public void close() {
        if (scheduler.isStuck()) {
            return; // has been told, and its tasks cannot be ended
        }
        for (SimProcess process : processes) {
            process.end(true);
        }
        failure = null;
        boolean interrupted = Thread.interrupted(); // tasks are ended all the same
        boolean unused = scheduler.run(scheduler::isQuiet, scheduler.now());
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
