package io.telpher.sim;

import io.telpher.internal.engine.Platform;
import java.util.Comparator;

/// A thread of a simulated process. It runs only while it has the turn; see [Scheduler].
final class Task {
    static final Comparator<Task> BY_NAME = Comparator.comparing(Task::toString);

    final SimProcess process;
    final String name;

    /// Whether the simulation waits for its end.
    final boolean program;

    /// Set once, before anybody else sees the task.
    Thread thread = Thread.currentThread();

    boolean started;
    boolean ended;

    /// Waits for an unpark or a timer.
    boolean parked;

    /// An unpark came while it was not parked.
    boolean permit;

    /// Which of its waits this is: a timer of an earlier one is stale.
    long epoch;

    Task(SimProcess process, String name, boolean program) {
        this.process = process;
        this.name = name;
        this.program = program;
    }

    /// Unwinds it when its process is gone.
    void checkAlive() {
        if (process.isOver()) {
            throw new Platform.Ended(process.name());
        }
    }

    @Override
    public String toString() {
        return "'" + name + "' of " + process.name();
    }
}
