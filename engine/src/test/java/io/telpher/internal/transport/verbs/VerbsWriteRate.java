package io.telpher.internal.transport.verbs;

import com.sun.management.ThreadMXBean;
import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/// What writes by tokens take from posting to their end, one at a time and 16 in flight, between
/// devices of the machine of `scripts/rdma-vm`: prints microseconds for each, and how much of them
/// the thread had a processor for. With `RDMA_VM_COUNT` the first is thousands of instructions. Not
/// a test: `docs/rdma.md` has the figures.
final class VerbsWriteRate {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final int ROUNDS = 3;
    private static final int DEPTH = 16;
    private static final long NANOS = 600_000_000;

    private VerbsWriteRate() {}

    /// @param arguments devices of the one side, as A,B; those of the other; bytes of a write
    public static void main(String[] arguments) {
        RdmaNode.warmUp();
        EndpointOptions options =
                EndpointOptions.DEFAULTS
                        .withTransports(List.of(VerbsTransport.NAME))
                        .withDeadline(LIMIT)
                        .withConnectDeadline(LIMIT);
        Provider near = RdmaNode.provider(List.of(arguments[0].split(",")));
        Provider far = RdmaNode.provider(List.of(arguments[1].split(",")));
        int bytes = Integer.parseInt(arguments[2]);
        try (Endpoint here = FakeVerbs.open(options, near);
                Endpoint there = FakeVerbs.open(options, far)) {
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> there.accept(LIMIT));
            Connection connection = here.connect(there.address(), LIMIT);
            accepted.join();
            MemoryRegion from = here.allocate((long) DEPTH * bytes, Access.READ_WRITE);
            RemoteMemory into = there.allocate((long) DEPTH * bytes, Access.READ_WRITE).remote();
            connection.write(from.all(), into).await();
            for (int round = 0; round < ROUNDS; round++) {
                measure(connection, from, into, bytes, 1);
                measure(connection, from, into, bytes, DEPTH);
            }
        }
    }

    private static void measure(
            Connection connection, MemoryRegion from, RemoteMemory into, int bytes, int depth) {
        long[] tokens = new long[depth];
        long posted = 0;
        long ended = 0;
        long cpu = THREADS.getCurrentThreadCpuTime();
        long start = System.nanoTime();
        boolean late = false;
        while (!late || ended < posted) {
            while (!late && posted - ended < depth) {
                long at = posted++ % depth;
                tokens[(int) at] = connection.tryWrite(from, at * bytes, into, at * bytes, bytes);
                late = System.nanoTime() - start > NANOS;
            }
            int result = connection.poll(tokens[(int) (ended % depth)]);
            if (result == Connection.DONE) {
                ended++;
            } else if (result != Connection.PENDING) {
                throw new AssertionError(result);
            }
        }
        double wall = System.nanoTime() - start;
        System.out.printf(
                "%d B, %d in flight: %.1f us each, with a processor %.0f%% of the time%n",
                bytes,
                depth,
                wall / 1e3 / ended,
                100 * (THREADS.getCurrentThreadCpuTime() - cpu) / wall);
    }
}
