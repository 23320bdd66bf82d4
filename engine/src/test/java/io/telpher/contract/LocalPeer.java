package io.telpher.contract;

import java.util.concurrent.CompletableFuture;

/// A peer in the process of the test.
final class LocalPeer extends Peer {
    private final Participant self = new Participant();

    /// @return the peer's things, which the test may look at
    Participant participant() {
        return self;
    }

    @Override
    <T> CompletableFuture<T> start(Task<T> task) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread.ofPlatform().daemon().name("test-peer").start(() -> run(task, result));
        return result;
    }

    @Override
    <T> T run(Task<T> task) {
        CompletableFuture<T> result = new CompletableFuture<>();
        run(task, result);
        return result(result);
    }

    private <T> void run(Task<T> task, CompletableFuture<T> result) {
        try {
            result.complete(task.run(self));
        } catch (Throwable e) {
            result.completeExceptionally(e);
        }
    }

    @Override
    void abandon() {
        try {
            self.close();
        } catch (RuntimeException e) {
            // The failure that came before is reported.
        }
    }

    @Override
    public void close() {
        self.close();
    }
}
