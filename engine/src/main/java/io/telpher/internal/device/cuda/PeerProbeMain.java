package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// The child of [PeerProbe]: copies a pattern between two devices, in both directions and by both,
/// and reads it back. The last line says what was found, the exit code what that means: bad is what
/// arrives damaged, while an error of the driver's says nothing of the pair.
final class PeerProbeMain {
    /// What it says when everything is there, and the copies begin.
    static final String BEGUN = "begun";

    static final int GOOD = 0;
    static final int BAD = 10;
    static final int UNKNOWN = 11;

    private static final int BYTES = 1 << 20;

    /// So many pieces go by kernel, where there are kernels.
    private static final int PIECES = 64;

    private PeerProbeMain() {}

    /// @param arguments the UUIDs of two devices
    public static void main(String[] arguments) {
        int code = UNKNOWN;
        try {
            CudaGpu first = open(arguments[0]);
            CudaGpu second = open(arguments[1]);
            String wrong = tryBoth(first, second);
            System.out.println(wrong == null ? "good" : wrong);
            code = wrong == null ? GOOD : BAD;
        } catch (TelpherException e) {
            System.out.println(e.getMessage());
        } finally {
            System.out.flush();
            // No exit handler of a driver that may hang.
            Runtime.getRuntime().halt(code);
        }
    }

    private static CudaGpu open(String uuid) {
        UUID wanted = UUID.fromString(uuid);
        List<Device> devices = CudaRuntime.INSTANCE.devices();
        for (Device device : devices) {
            if (device.uuid().equals(wanted)) {
                return CudaRuntime.INSTANCE.open(device);
            }
        }
        throw new TelpherException.Unsupported(
                "a child process does not see device %s, but %s".formatted(uuid, devices));
    }

    private static @Nullable String tryBoth(CudaGpu first, CudaGpu second) {
        try (Gpu.Allocation one = first.allocate(BYTES);
                Gpu.Allocation other = second.allocate(BYTES)) {
            long toOther = first.reach(second, other.address(), BYTES).address();
            long toOne = second.reach(first, one.address(), BYTES).address();
            CopyQueue by = first.queue(); // which compiles kernels
            CopyQueue byOther = second.queue();
            System.out.println(BEGUN);
            System.out.flush();
            String wrong = tryFrom(first, by, one, second, other, toOther);
            return wrong != null ? wrong : tryFrom(second, byOther, other, first, one, toOne);
        }
    }

    /// One device writes the other's memory, and reads it.
    private static @Nullable String tryFrom(
            CudaGpu by,
            CopyQueue queue,
            Gpu.Allocation own,
            CudaGpu of,
            Gpu.Allocation there,
            long reached) {
        String wrong = null;
        for (int round = 0; round < 4 && wrong == null; round++) {
            boolean write = round % 2 == 0;
            boolean pieces = round >= 2;
            fill(by, own.address(), write ? round + 1 : 0);
            fill(of, there.address(), write ? 0 : round + 1);
            String what =
                    "device %s %s memory of device %s"
                            .formatted(
                                    by.device().uuid(),
                                    write ? "writes" : "reads",
                                    of.device().uuid());
            String failure =
                    copy(
                            queue,
                            write ? reached : own.address(),
                            write ? own.address() : reached,
                            pieces ? PIECES : 1);
            if (failure != null) {
                throw new TelpherException.Unsupported(what + ": " + failure);
            }
            wrong =
                    check(
                            what,
                            write ? of : by,
                            write ? there.address() : own.address(),
                            round + 1);
        }
        return wrong;
    }

    private static @Nullable String copy(CopyQueue queue, long to, long from, int pieces) {
        AwaitedJob job = new AwaitedJob();
        queue.begin(CopyQueue.Way.PEER, pieces, BYTES);
        int each = BYTES / pieces;
        for (int i = 0; i < pieces; i++) {
            queue.copy(to + (long) i * each, from + (long) i * each, each);
        }
        queue.end(job);
        return job.await(queue);
    }

    private static void fill(CudaGpu gpu, long address, int seed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(BYTES, 8);
            for (long i = 0; i < BYTES; i += Long.BYTES) {
                host.set(ValueLayout.JAVA_LONG, i, word(i, seed));
            }
            gpu.copy(address, host.address(), BYTES);
        }
    }

    private static @Nullable String check(String what, CudaGpu gpu, long address, int seed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(BYTES, 8);
            gpu.copy(host.address(), address, BYTES);
            for (long i = 0; i < BYTES; i += Long.BYTES) {
                long found = host.get(ValueLayout.JAVA_LONG, i);
                if (found != word(i, seed)) {
                    return "%s, and byte %d arrives as %016x instead of %016x"
                            .formatted(what, i, found, word(i, seed));
                }
            }
            return null;
        }
    }

    /// Different at each place and in each round; 0 stays 0.
    private static long word(long at, int seed) {
        return seed * (at + 1) * 0x9e3779b97f4a7c15L;
    }
}
