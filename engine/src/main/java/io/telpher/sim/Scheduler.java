package io.telpher.sim;

import io.telpher.TelpherException;
import io.telpher.internal.engine.Platform;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/// Virtual time: a queue of events, and the turn that one thread has: the driver, who called
/// [#run], or a task.
///
/// Whoever gives up the turn lets the next events happen, up to one that wakes a task, and hands
/// it the turn: itself, without a switch of threads, where its own wait is the first to end. The
/// driver gets it back at the end.
///
/// Everything here is touched only by whoever has the turn. It passes through a volatile field, so
/// nothing else needs guarding.
final class Scheduler {
    /// Waits that are longer count as for ever: they need no event.
    private static final long FOREVER = Duration.ofDays(365).toNanos();

    /// Real time after which a task that keeps the turn is reported.
    private static final long STUCK = Duration.ofSeconds(30).toNanos();

    /// How often the driver looks whether things go on.
    private static final long LOOK = Duration.ofSeconds(1).toNanos();

    /// Virtual time starts here, so that 0 is no moment.
    private static final long START = 1_000_000_000L;

    /// Of so many scheduling points ...
    private static final int LOAD_SCALE = 10_000;

    private static final class Event implements Comparable<Event> {
        final long at;
        final long number;
        final Runnable action;

        Event(long at, long number, Runnable action) {
            this.at = at;
            this.number = number;
            this.action = action;
        }

        @Override
        public int compareTo(Event other) {
            int byTime = Long.compare(at, other.at);
            return byTime != 0 ? byTime : Long.compare(number, other.number);
        }
    }

    final SplittableRandom random;
    final EventLog log = new EventLog();

    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private final Map<Thread, Task> tasks = new HashMap<>();
    private final Set<Task> programs = new LinkedHashSet<>();
    private long now = START;
    private long numbers;
    private int load;
    private int alive;

    /// The task that has the turn; null while events happen, and while the driver has it.
    private @Nullable Task running;

    /// What the event that happens has woken.
    private @Nullable Task woken;

    private @Nullable Thread driver;
    private BooleanSupplier done = () -> true;
    private long until;

    /// Whether it ended because it was done.
    private boolean reached;

    /// What an event, or the question whether it is done, has thrown.
    private @Nullable Throwable thrown;

    /// How often the turn was given up, for the driver, who sees from it that things go on.
    private long passed;

    // What threads share without having the turn:

    /// Who may run.
    private volatile @Nullable Thread turn;

    /// The driver does not want to wait any more.
    private volatile boolean interrupted;

    /// A task has the turn and does not give it back: nothing can happen any more.
    private volatile boolean stuck;

    Scheduler(long seed) {
        random = new SplittableRandom(seed);
    }

    // --- time and events ------------------------------------------------------------------------

    long now() {
        return now;
    }

    /// Virtual time since the start.
    long elapsed() {
        return now - START;
    }

    void load(double share) {
        load = (int) (share * LOAD_SCALE);
    }

    /// Lets something happen; it must not wait.
    void at(long moment, Runnable action) {
        events.add(new Event(Math.max(moment, now), numbers++, action));
    }

    void in(long nanos, Runnable action) {
        at(now + nanos, action);
    }

    void log(String where, String what) {
        log.add(now - START, where, what);
    }

    boolean isStuck() {
        return stuck;
    }

    /// Lets events happen until something is so, nothing is left, or a moment has come.
    ///
    /// @param done whether it is so; asked by whichever thread has the turn
    /// @return whether it is so
    /// @throws TelpherException.Cancelled when the calling thread is interrupted
    boolean run(BooleanSupplier done, long until) {
        if (driver != null) {
            throw new IllegalStateException(
                    "the simulation is running already: a program waits by sleep or await");
        }
        Thread self = Thread.currentThread();
        driver = self;
        this.done = done;
        this.until = until;
        pass();
        try {
            awaitDriversTurn(self);
        } finally {
            driver = null;
        }
        if (interrupted) {
            interrupted = false;
            self.interrupt();
            throw new TelpherException.Cancelled("interrupted while the simulation runs");
        }
        Throwable failure = thrown;
        thrown = null;
        switch (failure) {
            case null -> {}
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            default -> throw new IllegalStateException(failure);
        }
        return reached;
    }

    /// Gives up the turn: lets events happen, and gives it to the task that one of them wakes, or
    /// to the driver.
    private void pass() {
        running = null;
        Task next = null;
        try {
            next = nextTask();
        } catch (Throwable e) {
            thrown = e;
        }
        running = next;
        passed++;
        if (next != null && !next.started) {
            next.started = true;
            alive++;
            turn = next.thread;
            next.thread.start();
            return;
        }
        Thread to = next == null ? driver : next.thread;
        turn = to;
        if (to != Thread.currentThread()) {
            LockSupport.unpark(to);
        }
    }

    /// Lets events happen until one wakes a task.
    ///
    /// @return that task, or null when the driver wants no more
    private @Nullable Task nextTask() {
        reached = false;
        while (!interrupted && !stuck && !(reached = done.getAsBoolean())) {
            Event next = events.peek();
            if (next == null || next.at > until) {
                now = next == null && until >= FOREVER ? now : Math.max(now, until);
                return null;
            }
            events.remove();
            now = next.at;
            next.action.run();
            Task task = woken;
            if (task != null) {
                woken = null;
                return task;
            }
        }
        return null;
    }

    private void awaitDriversTurn(Thread self) {
        long seen = -1;
        long since = 0;
        while (turn != self) {
            LockSupport.parkNanos(this, LOOK);
            if (Thread.interrupted()) {
                interrupted = true;
            }
            if (passed != seen) {
                seen = passed;
                since = System.nanoTime();
            } else if (turn != self && System.nanoTime() - since > STUCK) {
                stuck = true;
                throw stuck(running);
            }
        }
    }

    // --- tasks ----------------------------------------------------------------------------------

    /// Makes a task; [#start] starts it.
    Task task(SimProcess process, String name, boolean program, Runnable body) {
        Task task = new Task(process, name, program);
        task.thread =
                Thread.ofVirtual()
                        .name(process.name() + " " + name)
                        .unstarted(
                                () -> {
                                    awaitTurn(Thread.currentThread());
                                    Throwable failure = null;
                                    try {
                                        task.checkAlive();
                                        body.run();
                                    } catch (Platform.Ended e) {
                                        // The process is gone, and its tasks go with it.
                                    } catch (Throwable e) {
                                        failure = e;
                                    }
                                    task.ended = true;
                                    alive--;
                                    tasks.remove(task.thread);
                                    process.tasks.remove(task);
                                    programs.remove(task);
                                    if (failure != null) {
                                        process.failed(task, failure);
                                    }
                                    pass();
                                });
        tasks.put(task.thread, task);
        process.tasks.add(task);
        if (program) {
            programs.add(task);
        }
        return task;
    }

    void start(Thread thread) {
        Task task = tasks.get(thread);
        if (task == null || task.started) {
            throw new IllegalStateException(thread + " is no new task");
        }
        in(random.nextInt(2_000), () -> resume(task));
    }

    /// The programs that have not ended.
    Set<Task> programs() {
        return programs;
    }

    /// Wakes a task: it gets the turn after the event that calls this.
    void resume(Task task) {
        if (task.ended) {
            return;
        }
        if (task.process.isPaused() && !task.process.isOver()) {
            task.process.held.add(task);
            return;
        }
        woken = task;
    }

    private static IllegalStateException stuck(@Nullable Task task) {
        IllegalStateException e =
                new IllegalStateException(
                        "%s has not waited for anything in the simulation for 30 s of real time:"
                                        .formatted(task == null ? "an event" : task)
                                + " it computes, or waits by other means than the engine's and the"
                                + " simulation's; see where it stands");
        if (task != null) {
            e.setStackTrace(task.thread.getStackTrace());
        }
        return e;
    }

    private void awaitTurn(Thread self) {
        boolean interrupted = false;
        while (turn != self) {
            LockSupport.park(this);
            interrupted |= Thread.interrupted();
        }
        if (interrupted) {
            self.interrupt();
        }
    }

    /// The task that calls.
    Task current() {
        Task task = running;
        if (task == null || task.thread != Thread.currentThread()) {
            throw new IllegalStateException(
                    "only a program of the simulation can wait in it: start one with SimHost.start");
        }
        return task;
    }

    /// Whether no task has been started that has not ended.
    boolean isQuiet() {
        return alive == 0;
    }

    /// Where every task stands, for people.
    String standings() {
        StringBuilder text = new StringBuilder();
        for (Task task : tasks.values().stream().sorted(Task.BY_NAME).toList()) {
            text.append("\n  ").append(task);
            for (StackTraceElement frame : task.thread.getStackTrace()) {
                text.append("\n    at ").append(frame);
            }
        }
        return text.toString();
    }

    /// Whether a task is running, rather than an event or the driver.
    boolean inTask() {
        return running != null;
    }

    private void giveUpTurn(Task task) {
        pass();
        awaitTurn(task.thread);
        task.checkAlive();
    }

    /// Waits until [#unpark] or so long.
    void park(long nanos) {
        Task task = current();
        task.checkAlive();
        if (task.permit) {
            task.permit = false;
            return;
        }
        long epoch = ++task.epoch;
        task.parked = true;
        if (nanos < FOREVER) {
            in(
                    Math.max(nanos, 1),
                    () -> {
                        if (task.parked && task.epoch == epoch) {
                            task.parked = false;
                            resume(task);
                        }
                    });
        }
        giveUpTurn(task);
    }

    void unpark(Thread thread) {
        Task task = tasks.get(thread);
        if (task == null) {
            return;
        }
        if (task.parked) {
            task.parked = false;
            in(random.nextInt(3_000), () -> resume(task));
        } else {
            task.permit = true;
        }
    }

    /// Waits so long.
    void sleep(long nanos) {
        Task task = current();
        task.checkAlive();
        task.epoch++;
        in(Math.max(nanos, 1), () -> resume(task));
        giveUpTurn(task);
    }

    /// A point where a thread can be descheduled, as often as the load says: mostly for some
    /// microseconds, sometimes for a scheduler's time slice or more.
    void preempt() {
        if (running == null || load == 0 || random.nextInt(LOAD_SCALE) >= load) {
            return;
        }
        int dice = random.nextInt(100);
        int most = dice < 80 ? 5_000 : dice < 97 ? 300_000 : 20_000_000;
        sleep(random.nextInt(1, most));
    }

    /// Ends all tasks of a process where they stand.
    void endTasks(SimProcess process) {
        for (Task task : List.copyOf(process.tasks)) {
            if (task != running) {
                task.parked = false;
                in(0, () -> resume(task));
            }
        }
        process.held.clear();
    }
}
