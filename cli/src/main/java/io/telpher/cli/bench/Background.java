package io.telpher.cli.bench;

import io.telpher.MemorySlice;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/// Large transfers on the connection from rank 0 to rank 1, one after the other, by a thread of its
/// own, while something else is measured there.
final class Background implements AutoCloseable {
    private final AtomicBoolean stop = new AtomicBoolean();
    private final AtomicLong operations = new AtomicLong();
    private final long bytes;
    private final Thread thread;
    private long start;
    private long before;
    private volatile @Nullable TelpherException failure;

    /// Starts the load.
    ///
    /// @param near its first byte in the memory of either side
    Background(Stand stand, BenchOptions.Background load, long near) {
        bytes = load.bytes();
        Neighbour peer = stand.neighbour(1);
        Transfer transfer =
                load.op() == Op.WRITE
                        ? peer.connection()
                                .prepareWrite(
                                        new MemorySlice(stand.source, near, bytes),
                                        peer.target().slice(near, bytes),
                                        TransferOptions.DEFAULTS)
                        : peer.connection()
                                .prepareRead(
                                        new MemorySlice(
                                                stand.target, stand.landing(1) + near, bytes),
                                        peer.source().slice(near, bytes),
                                        TransferOptions.DEFAULTS);
        thread =
                Thread.ofPlatform()
                        .daemon()
                        .name("telpher-bench-background")
                        .start(() -> run(transfer));
        count();
    }

    /// Starts counting anew.
    void count() {
        before = operations.get();
        start = System.nanoTime();
    }

    private void run(Transfer transfer) {
        try {
            while (!stop.get()) {
                transfer.post();
                transfer.await();
                operations.incrementAndGet();
            }
        } catch (TelpherException e) {
            failure = e;
        }
    }

    /// @return what it has moved since it counts, in 1e9 bytes a second
    double gbps() {
        return (operations.get() - before) * (double) bytes / (System.nanoTime() - start);
    }

    /// Ends the load.
    ///
    /// @throws BenchFailure when a transfer failed
    @Override
    public void close() {
        stop.set(true);
        try {
            if (!thread.join(Duration.ofSeconds(40))) {
                throw new BenchFailure("the background load does not end");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        TelpherException error = failure;
        if (error != null) {
            throw new BenchFailure("the background load failed: " + error.getMessage(), error);
        }
    }
}
