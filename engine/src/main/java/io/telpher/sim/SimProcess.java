package io.telpher.sim;

import io.telpher.Access;
import io.telpher.internal.engine.Platform;
import io.telpher.internal.engine.Readiness;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Transport;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// One simulated process: what its engine takes for the machine. It has tasks, descriptors,
/// streams, and ends with its host or before.
final class SimProcess extends Platform {
    /// What a descriptor stands for.
    interface Pollable {
        boolean isReadable();

        boolean isWritable();
    }

    final Set<Task> tasks = new LinkedHashSet<>();

    /// Tasks that would run if the process were not paused.
    final ArrayDeque<Task> held = new ArrayDeque<>();

    private final Simulation simulation;
    private final SimHost host;
    private final String name;
    private final int number;
    private final SplittableRandom random;
    private final Map<Integer, Pollable> descriptors = new HashMap<>();
    private final List<StreamEnd> streams = new ArrayList<>();
    private final Map<Integer, SimTransportEndpoint> listeners = new HashMap<>();
    private final List<SimReadiness> readiness = new ArrayList<>();
    private final List<SimWindows> windows = new ArrayList<>();
    private int nextDescriptor = 3;
    private int nextPort = 1;
    private boolean paused;
    private boolean over;

    SimProcess(Simulation simulation, SimHost host, int number) {
        this.simulation = simulation;
        this.host = host;
        this.number = number;
        this.name = number == 1 ? host.name() : host.name() + "#" + number;
        this.random = scheduler().random.split();
        simulation.add(this);
    }

    Simulation simulation() {
        return simulation;
    }

    Scheduler scheduler() {
        return simulation.scheduler;
    }

    SimHost host() {
        return host;
    }

    String name() {
        return name;
    }

    boolean isPaused() {
        return paused;
    }

    boolean isOver() {
        return over;
    }

    void log(String what) {
        scheduler().log(name, what);
    }

    // --- faults ---------------------------------------------------------------------------------

    void pause() {
        paused = true;
    }

    void resume() {
        paused = false;
        Scheduler scheduler = scheduler();
        for (Task task : List.copyOf(held)) {
            scheduler.in(scheduler.random.nextInt(10_000), () -> scheduler.resume(task));
        }
        held.clear();
    }

    /// Ends it. Its kernel closes the streams, unless the host is gone with it.
    void end(boolean closeStreams) {
        if (over) {
            return;
        }
        over = true;
        listeners.clear();
        for (StreamEnd end : List.copyOf(streams)) {
            if (closeStreams || end.stream().link().options().style() == LinkOptions.Style.RING) {
                end.close(); // who shares memory is on the same machine, and is told
            } else {
                end.vanish();
            }
        }
        scheduler().endTasks(this);
    }

    /// Its host is back with another process: whoever still talks to this one is told so.
    void disown() {
        for (StreamEnd end : List.copyOf(streams)) {
            StreamEnd other = end.stream().end(1 - end.side());
            scheduler()
                    .in(
                            end.stream().link().latencyNow(),
                            () -> other.fail("the host was started again"));
            end.close();
        }
    }

    /// A program or callback of this process threw.
    void failed(Task task, Throwable failure) {
        log(task.name + " failed: " + failure);
        simulation.failed(task, failure);
    }

    // --- descriptors and streams ----------------------------------------------------------------

    int open(Pollable what) {
        int descriptor = nextDescriptor++;
        descriptors.put(descriptor, what);
        return descriptor;
    }

    void close(int descriptor) {
        descriptors.remove(descriptor);
    }

    @Nullable Pollable descriptor(int number) {
        return descriptors.get(number);
    }

    /// Something about a descriptor changed.
    void changed(int descriptor) {
        for (SimReadiness one : readiness) {
            one.changed(descriptor);
        }
    }

    void add(StreamEnd end) {
        streams.add(end);
    }

    void remove(StreamEnd end) {
        streams.remove(end);
    }

    void add(SimWindows opened) {
        windows.add(opened);
    }

    void remove(SimWindows ended) {
        windows.remove(ended);
    }

    /// What its windows hold though no operation is under way.
    List<String> windowLeftovers() {
        return windows.stream().flatMap(each -> each.leftovers().stream()).toList();
    }

    /// What it still holds: nothing, when its programs have ended and its endpoints are closed.
    List<String> leftovers() {
        List<String> found = new ArrayList<>();
        streams.forEach(end -> found.add(end.stream().name()));
        descriptors.keySet().forEach(number -> found.add("descriptor " + number));
        listeners.keySet().forEach(port -> found.add("port " + port));
        readiness.forEach(one -> found.add("a readiness"));
        windows.forEach(each -> found.add("windows"));
        tasks.forEach(task -> found.add(task.toString()));
        return found;
    }

    int listen(SimTransportEndpoint endpoint) {
        int port = nextPort++;
        listeners.put(port, endpoint);
        return port;
    }

    void unlisten(int port) {
        listeners.remove(port);
    }

    @Nullable SimTransportEndpoint listener(int port) {
        return listeners.get(port);
    }

    int number() {
        return number;
    }

    // --- what the engine takes from it ----------------------------------------------------------

    @Override
    public String toString() {
        return name;
    }

    @Override
    public long nanoTime() {
        return scheduler().now();
    }

    @Override
    public void park(Object blocker, long nanos) {
        scheduler().park(nanos);
    }

    @Override
    public void unpark(Thread thread) {
        scheduler().unpark(thread);
    }

    @Override
    public void pause(int round) {
        scheduler().sleep(round < 64 ? 100 : round < 256 ? 2_000 : 50_000);
    }

    /// Time goes on for programs that poll, too.
    @Override
    public void polledInVain() {
        if (scheduler().inTask()) {
            scheduler().sleep(200);
        }
    }

    @Override
    public Thread thread(String threadName, Runnable body) {
        return scheduler().task(this, threadName, false, body).thread;
    }

    @Override
    public void start(Thread thread) {
        scheduler().start(thread);
    }

    @Override
    public ExecutorService executor() {
        return new TaskExecutor();
    }

    @Override
    public Readiness readiness() {
        SimReadiness made = new SimReadiness(this);
        readiness.add(made);
        return made;
    }

    void remove(SimReadiness ended) {
        readiness.remove(ended);
    }

    @Override
    public RandomGenerator random() {
        return random;
    }

    @Override
    public HostIdentity identity() {
        return new HostIdentity("simulated-" + host.name(), number, 1, 1);
    }

    @Override
    public List<Transport> transports() {
        return List.of(new SimTransport(this));
    }

    @Override
    public @Nullable SharedMemory share(long bytes, Access access, SharedMemory.Pages pages) {
        return null;
    }

    /// Starts a task for each that is brought.
    private final class TaskExecutor extends AbstractExecutorService {
        private boolean shut;

        @Override
        public void execute(Runnable task) {
            if (!shut && !over) {
                start(thread("control", task));
            }
        }

        @Override
        public void shutdown() {
            shut = true;
        }

        @Override
        public List<Runnable> shutdownNow() {
            shut = true;
            return List.of();
        }

        @Override
        public boolean isShutdown() {
            return shut;
        }

        @Override
        public boolean isTerminated() {
            return shut;
        }

        @Override
        public boolean awaitTermination(long timeout, TimeUnit unit) {
            scheduler().sleep(Math.min(unit.toNanos(timeout), Duration.ofMillis(1).toNanos()));
            return shut;
        }
    }
}
