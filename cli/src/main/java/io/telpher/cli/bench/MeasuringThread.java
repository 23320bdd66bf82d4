package io.telpher.cli.bench;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;

/// The thread that measures, which can be kept on a core. It is not the one that starts processes:
/// what a thread starts may run where that thread may, and other programs are free.
final class MeasuringThread implements AutoCloseable {
    private final ExecutorService thread;

    MeasuringThread(String name) {
        thread =
                Executors.newSingleThreadExecutor(
                        Thread.ofPlatform().daemon().name(name).factory());
    }

    /// Keeps it on one core.
    ///
    /// @return why that could not be done, or ""
    String pin(int core) {
        return call(
                () -> {
                    String problem = Cores.pinThisThread(core);
                    return problem == null ? "" : problem;
                });
    }

    /// Runs something there, and waits for its end.
    ///
    /// @return what it gave; what it threw is thrown
    <T> T call(Supplier<T> work) {
        try {
            return CompletableFuture.supplyAsync(work, thread).join();
        } catch (CompletionException e) {
            switch (e.getCause()) {
                case RuntimeException known -> throw known;
                case Error known -> throw known;
                case null, default -> throw e;
            }
        }
    }

    /// The same for what gives nothing.
    void run(Runnable work) {
        boolean unused =
                call(
                        () -> {
                            work.run();
                            return true;
                        });
    }

    @Override
    public void close() {
        thread.close();
    }
}
