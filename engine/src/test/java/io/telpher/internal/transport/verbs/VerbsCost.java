package io.telpher.internal.transport.verbs;

import com.sun.management.ThreadMXBean;
import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/// What one-sided transfers cost this side's processor, on an [IdleNic]: prints nanoseconds of CPU
/// and bytes allocated for each transfer. Not a test: `docs/rdma.md` has the figures.
final class VerbsCost {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final int ROUNDS = 15;
    private static final int COUNT = 200_000;
    private static final int BYTES = 64;
    private static final int PIECES = 1000;

    private VerbsCost() {}

    public static void main(String[] arguments) {
        IdleNic nic = new IdleNic();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, nic, nic)) {
            Connection c = couple.connection;
            MemoryRegion source = couple.here.allocate(2 * BYTES * PIECES, Access.READ_WRITE);
            RemoteMemory target =
                    couple.there.allocate(2 * BYTES * PIECES, Access.READ_WRITE).remote();
            c.write(source.slice(0, BYTES), target).await();
            Transfer write =
                    c.prepareWrite(source.slice(0, BYTES), target, TransferOptions.DEFAULTS);
            measure("64 B write by a token", COUNT, () -> complete(c, source, target));
            measure("64 B prepared write", COUNT, () -> complete(write));
            List<MemorySlice> near = new ArrayList<>();
            List<RemoteMemory> far = new ArrayList<>();
            for (int i = 0; i < PIECES; i++) {
                near.add(source.slice(2L * BYTES * i, BYTES));
                far.add(target.slice(2L * BYTES * i, BYTES));
            }
            Transfer pieces =
                    c.prepareWrite(
                            MemorySlices.of(near), RemoteSlices.of(far), TransferOptions.DEFAULTS);
            measure("1000 pieces of 64 B", COUNT / PIECES, () -> complete(pieces));
        }
    }

    private static void complete(Connection c, MemoryRegion source, RemoteMemory target) {
        long token = c.tryWrite(source, 0, target, 0, BYTES);
        int result;
        do {
            result = c.poll(token);
        } while (result == Connection.PENDING);
        if (result != Connection.DONE) {
            throw new AssertionError(result);
        }
    }

    private static void complete(Transfer transfer) {
        transfer.post();
        while (!transfer.poll().isTerminal()) {
            Thread.onSpinWait();
        }
    }

    private static void measure(String what, int count, Runnable operation) {
        for (int round = 0; round < ROUNDS; round++) {
            long cpu = THREADS.getCurrentThreadCpuTime();
            long bytes = THREADS.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < count; i++) {
                operation.run();
            }
            System.out.printf(
                    "%s: %.0f ns, %.3f bytes%n",
                    what,
                    (THREADS.getCurrentThreadCpuTime() - cpu) / (double) count,
                    (THREADS.getCurrentThreadAllocatedBytes() - bytes) / (double) count);
        }
    }
}
