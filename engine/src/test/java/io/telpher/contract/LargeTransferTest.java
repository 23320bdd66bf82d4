package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Memory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Sizes and offsets beyond 32 bits.
class LargeTransferTest {
    private static final long SIZE = (5L << 30) + 12_345;

    /// What the source repeats; no power of two, so that an offset that lost its upper bits shows.
    private static final long PERIOD = (192L << 20) + 3 * 4096;

    @ParameterizedTest
    @EnumSource(names = {"MAPPED", "TCP"})
    void fiveGibibytes(TestPath path) throws IOException {
        long needed = ((SIZE + PERIOD) >> 20) + 1500;
        long available = availableMebibytes();
        assumeTrue(
                available >= needed,
                "needs " + needed + " MiB of memory, " + available + " are available");
        Participant.Tweak options = path::restrict;
        try (Participant here = new Participant();
                LocalPeer peer = new LocalPeer();
                Arena arena = Arena.ofShared()) {
            here.open(options);
            byte[] address = peer.run(self -> self.open(options));
            CompletableFuture<Boolean> accepted = peer.begin(Participant::accept);
            here.connect(address);
            Peer.result(accepted);

            MemorySegment memory = repeated(arena);
            Content.fill(memory, 0, PERIOD, 5);
            MemoryRegion source = here.endpoint().register(memory);
            RemoteMemory target = peer.add("target", Kind.TELPHER, SIZE + 100);
            Outcome.of(here.connection().write(source.slice(0, SIZE), target.slice(50, SIZE)))
                    .assertDone(SIZE);
            MemorySegment found = peer.participant().segment("target");
            for (long at = 0; at < SIZE; at += PERIOD) {
                Content.check(found, 50 + at, Math.min(PERIOD, SIZE - at), 5);
            }
            Content.checkAll(found, 0, 50, (byte) 0);
            Content.checkAll(found, 50 + SIZE, 50, (byte) 0);

            // A small one on either side of 4 GiB, and back.
            long middle = (1L << 32) - 30;
            MemoryRegion small = here.add("small", Kind.FOREIGN, 100);
            here.fill("small", 0, 100, 6);
            here.write("small", 0, 100, target.slice(middle, 100)).assertDone(100);
            Content.check(found, middle, 100, 6);
            Outcome.of(here.connection().read(small.all(), target.slice(middle + 50, 100)))
                    .assertDone(100);
            Content.check(here.segment("small"), 0, 50, 6, 50);
            Content.check(here.segment("small"), 50, 50, 5, (middle + 100 - 50) % PERIOD);
            source.close();
        }
    }

    /// Memory in which the same pages come again and again: large, and small in reality.
    private static MemorySegment repeated(Arena arena) {
        long length = SIZE + PERIOD;
        int memfd = Memory.memfdCreate("test-repeated", Memory.MFD_CLOEXEC);
        assertThat(memfd).isNotNegative();
        assertThat(Memory.ftruncate(memfd, PERIOD)).isZero();
        int access = Memory.PROT_READ | Memory.PROT_WRITE;
        int reserve = Memory.MAP_PRIVATE | Memory.MAP_ANONYMOUS | Memory.MAP_NORESERVE;
        long address = Memory.mmap(0, length, Memory.PROT_NONE, reserve, -1, 0);
        assertThat(address).isPositive();
        for (long at = 0; at + PERIOD <= length; at += PERIOD) {
            long mapped =
                    Memory.mmap(
                            address + at,
                            PERIOD,
                            access,
                            Memory.MAP_SHARED | Memory.MAP_FIXED,
                            memfd,
                            0);
            assertThat(mapped).isEqualTo(address + at);
        }
        assertThat(Descriptors.close(memfd)).isZero();
        return Memory.owned(address, length, arena).asSlice(0, SIZE);
    }

    private static long availableMebibytes() throws IOException {
        return Files.readAllLines(Path.of("/proc/meminfo")).stream()
                .filter(line -> line.startsWith("MemAvailable:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) >> 10)
                .findFirst()
                .orElse(0);
    }
}
