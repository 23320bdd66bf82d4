package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;

import io.telpher.Connection;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/// A blocking call of the engine that Python waits for in slices: it runs on a thread of its own.
final class Task {
    private final CompletableFuture<Object> result = new CompletableFuture<>();

    private Task() {}

    /// @return the task's handle
    static long start(Callable<Object> call) {
        Task task = new Task();
        Thread.ofPlatform()
                .daemon()
                .name("telpher-python-task")
                .start(
                        () -> {
                            try {
                                task.result.complete(call.call());
                            } catch (Throwable e) {
                                task.result.completeExceptionally(e);
                            }
                        });
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

    /// Nobody wants the result any more: a connection that still comes is closed.
    void abandon() {
        var _ =
                result.thenAccept(
                        value -> {
                            if (value instanceof Connection connection) {
                                connection.close();
                            }
                        });
    }
}
