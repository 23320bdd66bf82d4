package io.telpher.sim;

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

/// Virtual time: a queue of events, and the turn that at most one task has.
///
/// Everything here is touched only by whoever has the turn: the loop, or one task. The turn passes
/// through a volatile field, so nothing else needs guarding.
final class Scheduler {
    /// Waits that are longer count as for ever: they need no event.
    private static final long FOREVER = Duration.ofDays(365).toNanos();

    /// Real time after which a task that keeps the turn is reported.
    private static final long STUCK = Duration.ofSeconds(30).toNanos();

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
    private @Nullable Task running;
    private @Nullable Thread loop;

    /// A task has the turn and does not give it back: nothing can happen any more.
    private boolean stuck;

    /// Who may run. The only thing that threads share without having the turn.
    private volatile @Nullable Thread turn;

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
    /// @return whether it is so
    boolean run(BooleanSupplier done, long until) {
        if (running != null) {
            throw new IllegalStateException(
                    "the simulation is running already: a program waits by sleep or await");
        }
        loop = Thread.currentThread();
        try {
            while (!done.getAsBoolean()) {
                Event next = events.peek();
                if (next == null || next.at > until) {
                    now = next == null && until >= FOREVER ? now : Math.max(now, until);
                    return false;
                }
                events.remove();
                now = next.at;
                next.action.run();
            }
            return true;
        } finally {
            loop = null;
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
                                    try {
                                        task.checkAlive();
                                        body.run();
                                    } catch (Platform.Ended e) {
                                        // The process is gone, and its tasks go with it.
                                    } catch (Throwable e) {
                                        task.failure = e;
                                    }
                                    task.ended = true;
                                    alive--;
                                    tasks.remove(task.thread);
                                    process.tasks.remove(task);
                                    programs.remove(task);
                                    turn = loop;
                                    LockSupport.unpark(loop);
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

    /// Gives a task the turn, and gets it back.
    void resume(Task task) {
        if (task.ended) {
            return;
        }
        if (task.process.isPaused() && !task.process.isOver()) {
            task.process.held.add(task);
            return;
        }
        running = task;
        turn = task.thread;
        if (task.started) {
            LockSupport.unpark(task.thread);
        } else {
            task.started = true;
            alive++;
            task.thread.start();
        }
        Thread self = Thread.currentThread();
        long since = System.nanoTime();
        while (turn != self) {
            LockSupport.parkNanos(this, 1_000_000_000L);
            if (turn != self && System.nanoTime() - since > STUCK) {
                stuck = true;
                throw stuck(task);
            }
        }
        running = null;
        Throwable failure = task.failure;
        if (failure != null) {
            task.failure = null;
            task.process.failed(task, failure);
        }
    }

    private static IllegalStateException stuck(Task task) {
        IllegalStateException e =
                new IllegalStateException(
                        "%s has not waited for anything in the simulation for 30 s of real time:"
                                        .formatted(task)
                                + " it computes, or waits by other means than the engine's and the"
                                + " simulation's; see where it stands");
        e.setStackTrace(task.thread.getStackTrace());
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

    /// Whether a task is running, rather than the loop.
    boolean inTask() {
        return running != null;
    }

    private void giveTurnBack(Task task) {
        Thread to = loop;
        turn = to;
        LockSupport.unpark(to);
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
        giveTurnBack(task);
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
        giveTurnBack(task);
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
