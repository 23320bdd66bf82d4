package io.telpher.internal.observe;

import io.telpher.EndpointMetrics;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.zip.CRC32C;

/// The writing side of the page: an anonymous file of this process. Belongs to one thread at a
/// time. Nobody looks at most pages: they are written seldom, until a reader asks.
public final class MetricsPage implements AutoCloseable {
    /// The file's name, as the descriptors of the process show it.
    static final String NAME = "telpher-metrics";

    static final long MAGIC = 0x54454c50_48455231L; // TELPHER1
    static final int HEADER = 24;
    static final int SEQUENCE = 16;

    /// Behind the header: another value than before, and a reader has asked. The writer never
    /// writes it.
    static final int ASKED = 24;

    static final int SLOT_HEADER = 24;
    static final long FIRST_SLOT = 4096;
    static final long SECOND_SLOT = 8 << 20;

    /// Between two snapshots while nobody asks.
    static final long SELDOM_NANOS = 10_000_000_000L;

    /// So long after a reader has asked the page is written often: longer than scrapers take from
    /// one look to the next, which is a minute for Prometheus if nobody says otherwise.
    static final long WANTED_NANOS = 150_000_000_000L;

    private final int descriptor;
    private final MemorySegment asked = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG);
    private long sequence;
    private long seen;
    private long wantedUntil;
    private long nextSeldom;

    private MetricsPage(int descriptor) {
        this.descriptor = descriptor;
    }

    /// Makes an empty page.
    ///
    /// @throws io.telpher.TelpherException.NativeFailure when the system does not give a file
    public static MetricsPage create() {
        return create(NAME);
    }

    /// For tests: by another name no reader finds the page among the descriptors.
    static MetricsPage create(String name) {
        int descriptor = Memory.memfdCreate(name, Memory.MFD_CLOEXEC);
        if (descriptor < 0) {
            throw Errno.failure(descriptor, "memfd_create", name);
        }
        return new MetricsPage(descriptor);
    }

    /// For tests: where this process finds the file.
    Path file() {
        return Path.of("/proc/self/fd/" + descriptor);
    }

    /// @return where a snapshot's slot begins
    static long slot(long sequence) {
        return (sequence & 1) == 0 ? FIRST_SLOT : SECOND_SLOT;
    }

    /// Whether a snapshot is wanted: a reader has asked of late, or the last one is old.
    ///
    /// @param now by the clock of `System.nanoTime()`, as in all of these calls
    public boolean isWanted(long now) {
        boolean first = sequence == 0;
        if (first) {
            wantedUntil = now;
        }
        // A file that is still too short has nobody's question.
        if (Descriptors.pread(descriptor, asked, Long.BYTES, ASKED) == Long.BYTES) {
            long value = asked.get(ValueLayout.JAVA_LONG, 0);
            if (value != seen) {
                seen = value;
                wantedUntil = now + WANTED_NANOS;
            }
        }
        boolean wanted = first || now - wantedUntil < 0 || now - nextSeldom >= 0;
        if (wanted) {
            nextSeldom = now + SELDOM_NANOS;
        }
        return wanted;
    }

    /// Publishes a snapshot.
    ///
    /// @throws io.telpher.TelpherException.NativeFailure when there is no memory for it; the one
    ///     before stays
    public void write(List<EndpointMetrics> endpoints) {
        byte[] body = Snapshot.encode(endpoints);
        CRC32C crc = new CRC32C();
        crc.update(body);
        long next = sequence + 1;
        put(
                slot(next),
                ByteBuffer.allocate(SLOT_HEADER + body.length)
                        .putLong(next)
                        .putLong(System.currentTimeMillis())
                        .putInt(body.length)
                        .putInt((int) crc.getValue())
                        .put(body)
                        .array());
        put(
                0,
                ByteBuffer.allocate(HEADER)
                        .putLong(MAGIC)
                        .putInt(Snapshot.VERSION)
                        .putInt(0)
                        .putLong(next)
                        .array());
        sequence = next;
    }

    private void put(long offset, byte[] bytes) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment memory = arena.allocate(bytes.length, 8);
            MemorySegment.copy(bytes, 0, memory, ValueLayout.JAVA_BYTE, 0, bytes.length);
            long done = 0;
            while (done < bytes.length) {
                long n =
                        Descriptors.pwrite(
                                descriptor,
                                memory.asSlice(done),
                                bytes.length - done,
                                offset + done);
                if (n <= 0) {
                    throw Errno.failure(n, "pwrite", NAME);
                }
                done += n;
            }
        }
    }

    @Override
    public void close() {
        Descriptors.close(descriptor);
    }
}
