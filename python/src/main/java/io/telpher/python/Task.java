package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;

import io.telpher.Connection;
import io.telpher.bootstrap.Group;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/// A blocking call of the engine that Python waits for in slices: it runs on a thread of its own.
final class Task {
    /// The result of a call that has none.
    static final Object DONE = new Object();

    /// More than a call that is interrupted needs to end: a rank leaves its job within two seconds.
    private static final Duration FAREWELL = Duration.ofSeconds(5);

    private final CompletableFuture<Object> result = new CompletableFuture<>();
    private final Thread thread;
    private final boolean interruptible;

    private Task(Callable<Object> call, boolean interruptible) {
        this.interruptible = interruptible;
        thread =
                Thread.ofPlatform()
                        .daemon()
                        .name("telpher-python-task")
                        .unstarted(
                                () -> {
                                    try {
                                        result.complete(call.call());
                                    } catch (Throwable e) {
                                        result.completeExceptionally(e);
                                    }
                                });
    }

    /// Starts a call that goes on to its end, whether or not somebody still waits for it.
    ///
    /// @return the task's handle
    static long start(Callable<Object> call) {
        return start(new Task(call, false));
    }

    /// Starts a call that an interrupt ends, and undoes.
    ///
    /// @return the task's handle
    static long startInterruptible(Callable<Object> call) {
        return start(new Task(call, true));
    }

    private static long start(Task task) {
        task.thread.start();
        return HANDLES.put(task);
    }

    /// @return whether it has ended
    /// @throws Throwable what the call threw
    boolean await(long nanos) throws Throwable {
        try {
            result.get(nanos, TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException _) {
            return false;
        } catch (ExecutionException e) {
            throw e.getCause() == null ? e : e.getCause();
        }
    }

    /// @return what the call returned; it has ended
    Object result() {
        return result.join();
    }

    /// Nobody wants the result any more: a connection or a group that still comes is closed. A call
    /// that may be interrupted is, and has ended when this returns, so that it can be made again.
    void abandon() throws InterruptedException {
        var _ =
                result.thenAccept(
                        value -> {
                            switch (value) {
                                case Connection connection -> connection.close();
                                case Group group -> group.close();
                                default -> {}
                            }
                        });
        if (interruptible) {
            thread.interrupt();
            boolean ended = thread.join(FAREWELL);
            assert ended || thread.isAlive();
        }
    }
}
