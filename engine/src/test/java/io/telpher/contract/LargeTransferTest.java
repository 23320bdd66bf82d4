package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Memory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Sizes and offsets beyond 32 bits: between two processes, and for the path within one in one.
class LargeTransferTest {
    private static final long SIZE = (5L << 30) + 12_345;

    /// Where the bytes start at the peer.
    private static final long AT = 50;

    /// What is looked at, and how far apart.
    private static final int PART = 32 << 10;

    private static final long STEP = 113 * 4096;

    /// What large memory repeats; no power of two: offsets that lose their upper bits show.
    private static final long PERIOD = 109 * STEP;

    /// Periods that have pages, and so bytes, of their own, at both ends: all others hold what any
    /// of them got last, so that what is missing or cut off there does not show. One is in the
    /// middle of what lies beyond 4 GiB, one the last.
    private static final List<Long> OWN = List.of((9L << 29) / PERIOD, (SIZE - 1) / PERIOD);

    private static final Duration LIMIT = Duration.ofSeconds(100);

    @ParameterizedTest
    @EnumSource(names = {"SELF", "MAPPED", "CMA", "RING", "TCP"})
    void fiveGibibytes(TestPath path) throws IOException {
        // What Telpher allocates is there whole.
        boolean allocated = path == TestPath.MAPPED;
        long repeated = (1 + OWN.size()) * PERIOD;
        long needed = (((allocated ? SIZE : repeated) + repeated) >> 20) + 1500;
        long available = availableMebibytes();
        assumeTrue(
                available >= needed,
                "needs " + needed + " MiB of memory, " + available + " are available");
        Place place = path == TestPath.SELF ? Place.ONE : Place.TWO;
        try (Peer peer = new Setting(path, place).startPeer();
                Participant here = new Participant()) {
            peer.openWith(here, options -> path.restrict(options).withDeadline(LIMIT));
            MemorySegment near = register(here, "near");
            peer.tell(
                    self -> {
                        if (allocated) {
                            self.add("far", Kind.TELPHER, SIZE + 2 * AT);
                        } else {
                            register(self, "far");
                        }
                    });
            RemoteMemory far =
                    RemoteMemory.ofBytes(peer.run(self -> self.region("far").remote().toBytes()));
            RemoteMemory target = far.slice(AT, SIZE);
            MemoryRegion local = here.region("near");

            fill(near, 5);
            finish(here.connection().write(local.slice(0, SIZE), target));
            peer.tell(self -> check(self.segment("far").asSlice(AT), 5));

            fill(near, 6);
            finish(here.connection().read(local.slice(0, SIZE), target));
            check(near, 5);

            fill(near, 7);
            peer.tell(
                    self ->
                            self.keep(
                                    "received",
                                    self.connection().receive(1, self.slice("far", AT, SIZE))));
            finish(here.connection().send(1, local.slice(0, SIZE)));
            peer.tell(
                    self -> {
                        finish(self.transfer("received"));
                        check(self.segment("far").asSlice(AT), 7);
                    });

            // A small one across 4 GiB, and back.
            long middle = (1L << 32) - 30;
            here.add("small", Kind.FOREIGN, 100);
            here.fill("small", 0, 100, 8);
            here.write("small", 0, 100, far.slice(middle, 100)).assertDone(100);
            peer.tell(self -> Content.check(self.segment("far"), middle, 100, 8));
            Transfer read =
                    here.connection().read(here.region("small").all(), far.slice(middle + 50, 100));
            Outcome.of(read).assertDone(100);
            Content.check(here.segment("small"), 0, 50, 8, 50);
            Content.check(here.segment("small"), 50, 50, 7, position(middle + 100 - AT));
        }
    }

    private static void finish(Transfer transfer) {
        Outcome.of(transfer, LIMIT).assertDone(SIZE);
    }

    /// @return which byte of the content stands there
    private static long position(long at) {
        return OWN.contains(at / PERIOD) ? at : at % PERIOD;
    }

    private static void fill(MemorySegment memory, long seed) {
        Content.fill(memory, 0, PERIOD, seed);
        for (long own : OWN) {
            long at = own * PERIOD;
            Content.fill(memory, at, Math.min(PERIOD, SIZE - at), seed, at);
        }
    }

    /// Looks at a part of every step, and at the end.
    private static void check(MemorySegment memory, long seed) {
        for (long at = 0; at + PART <= SIZE; at += STEP) {
            Content.check(memory, at, PART, seed, position(at));
        }
        Content.check(memory, SIZE - 100, 100, seed, position(SIZE - 100));
    }

    /// Registers memory in which the same pages come again and again, but for a few: large, and
    /// small in reality.
    private static MemorySegment register(Participant self, String name) {
        Arena arena = Participant.arena();
        return self.keep(name, self.endpoint().register(repeated(arena)), arena).segment();
    }

    private static MemorySegment repeated(Arena arena) {
        long length = SIZE + PERIOD;
        int memfd = Memory.memfdCreate("test-repeated", Memory.MFD_CLOEXEC);
        assertThat(memfd).isNotNegative();
        assertThat(Memory.ftruncate(memfd, (1 + OWN.size()) * PERIOD)).isZero();
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
                            (1 + OWN.indexOf(at / PERIOD)) * PERIOD);
            assertThat(mapped).isEqualTo(address + at);
        }
        assertThat(Descriptors.close(memfd)).isZero();
        return Memory.owned(address, length, arena).asSlice(0, SIZE + 2 * AT);
    }

    private static long availableMebibytes() throws IOException {
        return Files.readAllLines(Path.of("/proc/meminfo")).stream()
                .filter(line -> line.startsWith("MemAvailable:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) >> 10)
                .findFirst()
                .orElse(0);
    }
}
