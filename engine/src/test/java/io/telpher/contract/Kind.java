package io.telpher.contract;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.WeakHashMap;

/// The kinds of host memory that can be registered.
enum Kind {
    /// Allocated by Telpher.
    TELPHER,
    /// A segment of the caller's shared arena.
    FOREIGN,
    /// A direct buffer.
    BUFFER,
    /// A mapped file.
    FILE;

    /// The kinds that need different treatment.
    static final Kind[] MAIN = {TELPHER, FOREIGN};

    /// Which GPU the memory of an endpoint is on; guarded by itself, as the count.
    private static final Map<Endpoint, Integer> GPUS = new WeakHashMap<>();

    private static int endpoints;

    /// Makes a region.
    ///
    /// @param arena owns the caller's memory
    MemoryRegion create(Endpoint endpoint, long bytes, Access access, Arena arena) {
        return switch (this) {
            case TELPHER ->
                    TestPath.isOnGpus(endpoint.options())
                            ? endpoint.allocate(device(endpoint), bytes, access)
                            : endpoint.allocate(bytes, access);
            case FOREIGN -> endpoint.register(arena.allocate(bytes, 64), access);
            case BUFFER -> {
                ByteBuffer buffer = ByteBuffer.allocateDirect(Math.toIntExact(bytes));
                yield access == Access.READ_WRITE
                        ? endpoint.register(buffer)
                        : endpoint.register(MemorySegment.ofBuffer(buffer), access);
            }
            case FILE -> endpoint.register(file(bytes, arena), access);
        };
    }

    /// The two endpoints of a test in one process lie on different GPUs.
    private static Device device(Endpoint endpoint) {
        synchronized (GPUS) {
            Integer gpu = GPUS.computeIfAbsent(endpoint, unused -> endpoints++ % 2);
            return Device.list().get(gpu);
        }
    }

    private static MemorySegment file(long bytes, Arena arena) {
        try {
            Path file = Files.createTempFile("tlp-test-", ".memory");
            try (FileChannel channel =
                    FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                return channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
            } finally {
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
