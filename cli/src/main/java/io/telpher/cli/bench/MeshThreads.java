package io.telpher.cli.bench;

import io.telpher.TelpherException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// Threads that help a rank for as long as one call lasts. The first part is the caller's own.
final class MeshThreads implements AutoCloseable {
    private final List<Thread> threads = new ArrayList<>();
    private final AtomicReference<@Nullable RuntimeException> failure = new AtomicReference<>();
    private volatile boolean over;

    private MeshThreads() {}

    /// Does each part on a thread of its own, and waits for all.
    ///
    /// @throws BenchFailure what the first that failed threw
    static <T> void run(List<List<T>> parts, Consumer<List<T>> work) {
        try (MeshThreads helpers = new MeshThreads()) {
            parts.stream().skip(1).forEach(part -> helpers.start(() -> work.accept(part)));
            parts.stream().limit(1).forEach(work);
            helpers.join();
        }
    }

    /// Does each part again and again, on a thread of its own.
    ///
    /// @param until asked by the caller's thread
    static <T> void serve(List<List<T>> parts, Consumer<List<T>> work, BooleanSupplier until) {
        try (MeshThreads helpers = new MeshThreads()) {
            for (List<T> part : parts.stream().skip(1).toList()) {
                helpers.start(
                        () -> {
                            while (!helpers.over) {
                                work.accept(part);
                            }
                        });
            }
            while (!until.getAsBoolean() && helpers.failure.get() == null) {
                parts.stream().limit(1).forEach(work);
            }
            helpers.over = true;
            helpers.join();
        }
    }

    private void start(Runnable work) {
        threads.add(
                Thread.ofPlatform()
                        .daemon()
                        .name("telpher-fullmesh-" + threads.size())
                        .start(
                                () -> {
                                    try {
                                        work.run();
                                    } catch (BenchFailure | TelpherException e) {
                                        failure.compareAndSet(null, e);
                                    }
                                }));
    }

    private void join() {
        try {
            for (Thread thread : threads) {
                thread.join();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new BenchFailure("interrupted", e);
        }
        RuntimeException first = failure.get();
        if (first != null) {
            throw first;
        }
    }

    @Override
    public void close() {
        over = true;
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }
}
