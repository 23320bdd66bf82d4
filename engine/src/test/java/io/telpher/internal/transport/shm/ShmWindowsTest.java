package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.CounterUpdate;
import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.Link;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// One-sided access inside one process, over each path.
class ShmWindowsTest {
    private static final int SIZE = 4 << 20;
    private static final Duration SECOND = Duration.ofSeconds(1);

    private final List<AutoCloseable> resources = new ArrayList<>();
    private ShmHarness importer;
    private ShmHarness owner;
    private Windows windows;
    private Link owners;

    private void link(String path) throws Exception {
        EndpointOptions options = EndpointOptions.DEFAULTS.withPaths(List.of(path, "shm-ring"));
        importer = keep(new ShmHarness(options));
        owner = keep(new ShmHarness(options));
        ShmHarness.Pair pair = keep(ShmHarness.pair(importer, owner));
        owners = pair.right();
        windows = pair.left().windows();
    }

    private <T extends AutoCloseable> T keep(T resource) {
        resources.add(resource);
        return resource;
    }

    @AfterEach
    void closeAll() throws Exception {
        for (AutoCloseable resource : resources.reversed()) {
            resource.close();
        }
    }

    private ShmHarness.Region region(Access access) {
        return owner.register(keep(SharedMemory.allocate(SIZE, access, SharedMemory.Pages.SMALL)));
    }

    private Window open(ShmHarness.Region region) {
        return windows.open(owner.remote(region), ShmHarness.soon()).join();
    }

    private static MemorySegment random(long bytes) {
        MemorySegment segment = Arena.ofAuto().allocate(bytes, 8);
        Random random = new Random(bytes);
        for (long i = 0; i < bytes; i++) {
            segment.set(JAVA_BYTE, i, (byte) random.nextInt());
        }
        return segment;
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void writesAndReads(String path) throws Exception {
        link(path);
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        assertThat(window.path()).isEqualTo(path);
        MemorySegment from = random(SIZE);
        MemorySegment to = Arena.ofAuto().allocate(SIZE, 8);
        int ticket = window.enter();
        assertThat(ticket).isNotNegative();
        long length = SIZE - 1001;
        assertThat(window.write(ticket, from, 7, 1001, length, () -> true)).isEqualTo(length);
        assertThat(window.read(ticket, to, 3, 1001, length - 3, () -> true)).isEqualTo(length - 3);
        window.exit(ticket);
        assertThat(region.segment().asSlice(1001).mismatch(from.asSlice(7, length))).isEqualTo(-1);
        assertThat(to.asSlice(3, length - 3).mismatch(from.asSlice(7, length - 3))).isEqualTo(-1);
        assertThat(region.segment().get(JAVA_BYTE, 1000)).isZero();
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void keepsInsideTheRegionAndItsRights(String path) throws Exception {
        link(path);
        MemorySegment local = Arena.ofAuto().allocate(SIZE, 8);
        Window both = open(region(Access.READ_WRITE));
        int ticket = both.enter();
        for (long[] range :
                new long[][] {
                    {-1, 1}, {SIZE, 1}, {0, SIZE + 1}, {8, -1}, {Long.MAX_VALUE, 2}, {SIZE - 1, 2}
                }) {
            assertThat(both.write(ticket, local, 0, range[0], range[1], () -> true))
                    .isEqualTo(Window.DENIED);
            assertThat(both.read(ticket, local, 0, range[0], range[1], () -> true))
                    .isEqualTo(Window.DENIED);
        }
        assertThat(both.write(ticket, local, 0, SIZE, 0, () -> true)).isZero();
        both.exit(ticket);

        Window readOnly = open(region(Access.READ));
        ticket = readOnly.enter();
        assertThat(readOnly.write(ticket, local, 0, 0, 8, () -> true)).isEqualTo(Window.DENIED);
        assertThat(readOnly.read(ticket, local, 0, 0, SIZE, () -> true)).isEqualTo(SIZE);
        assertThat(readOnly.update(ticket, 0, CounterUpdate.Kind.ADD, 1)).isEqualTo(Window.DENIED);
        readOnly.exit(ticket);

        Window writeOnly = open(region(Access.WRITE));
        ticket = writeOnly.enter();
        assertThat(writeOnly.read(ticket, local, 0, 0, 8, () -> true)).isEqualTo(Window.DENIED);
        assertThat(writeOnly.write(ticket, local, 0, 0, SIZE, () -> true)).isEqualTo(SIZE);
        writeOnly.exit(ticket);
    }

    /// As of a GPU whose copies stood in its queue for longer than the owner waits.
    @Test
    void whoCopiesInTheBackgroundLearnsThatTheRegionWasClosed() throws Exception {
        link("mapped");
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        assertThat(window.join()).isZero();
        assertThat(window.leave()).as("open").isTrue();
        assertThat(window.join()).isZero();
        assertThat(window.join()).isZero();
        assertThat(owner.revoke(region, Duration.ofMillis(1))).isNull();
        assertThat(window.leave()).as("open, the first").isFalse();
        assertThat(window.leave()).as("open, the last").isFalse();
        assertThat(window.join()).isEqualTo(Window.STALE);
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped"})
    void raisesCounters(String path) throws Exception {
        link(path);
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        assertThat(window.updatesCounters()).isTrue();
        int ticket = window.enter();
        assertThat(window.update(ticket, 8, CounterUpdate.Kind.SET, 40)).isZero();
        assertThat(window.update(ticket, 8, CounterUpdate.Kind.ADD, 2)).isZero();
        assertThat(window.update(ticket, 12, CounterUpdate.Kind.ADD, 2)).isEqualTo(Window.DENIED);
        assertThat(window.update(ticket, SIZE, CounterUpdate.Kind.ADD, 2)).isEqualTo(Window.DENIED);
        window.exit(ticket);
        assertThat(region.segment().get(JAVA_LONG, 8)).isEqualTo(42);
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void refusesWrongDescriptors(String path) throws Exception {
        link(path);
        ShmHarness.Region region = region(Access.READ_WRITE);
        RemoteMemory good = owner.remote(region);
        assertThatThrownBy(() -> openChanged(good, 1, 0, 0))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThatThrownBy(() -> openChanged(good, 0, 1, 0))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThatThrownBy(() -> openChanged(good, 0, 0, 1))
                .isInstanceOf(TelpherException.AccessDenied.class);
        assertThatThrownBy(() -> open(region(Access.NONE)))
                .isInstanceOf(TelpherException.AccessDenied.class);
        ShmHarness.Region far =
                owner.add(RegionEntries.CAPACITY, 1, region.segment(), Access.READ, -1);
        assertThatThrownBy(() -> open(far)).isInstanceOf(TelpherException.Unsupported.class);
    }

    private Window openChanged(RemoteMemory good, int incarnation, int generation, int key) {
        RemoteMemory bad =
                new RemoteMemory(
                        good.incarnation() + incarnation,
                        good.region(),
                        good.generation() + generation,
                        good.key() + key,
                        0,
                        good.length(),
                        good.access());
        return windows.open(bad, ShmHarness.soon()).join();
    }

    @Test
    void foreignMemoryCannotBeMapped() throws Exception {
        link("mapped");
        MemorySegment foreign = Arena.ofAuto().allocate(100, 8);
        assertThatThrownBy(() -> open(owner.register(foreign, Access.READ_WRITE)))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("cma: no, not among the option 'paths'");
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void nothingIsWrittenAfterTheRegionWasRevoked(String path) throws Exception {
        link(path);
        long seed = System.nanoTime();
        Random random = new Random(seed);
        MemorySegment ones = Arena.ofAuto().allocate(SIZE, 8).fill((byte) 1);
        try (SharedMemory memory =
                SharedMemory.allocate(SIZE, Access.READ_WRITE, SharedMemory.Pages.SMALL)) {
            for (int generation = 1; generation <= 60; generation++) {
                ShmHarness.Region region =
                        owner.add(5, generation, memory.segment(), memory.access(), memory.memfd());
                Window window = open(region);
                CountDownLatch started = new CountDownLatch(3);
                List<CompletableFuture<Long>> writers = new ArrayList<>();
                for (int thread = 0; thread < 3; thread++) {
                    int size = thread == 0 ? 8 : thread == 1 ? 10_000 : SIZE;
                    writers.add(
                            CompletableFuture.supplyAsync(
                                    () -> writeUntilStale(window, ones, size, started)));
                }
                assertThat(started.await(20, TimeUnit.SECONDS)).isTrue();
                Thread.sleep(random.nextInt(3), random.nextInt(1_000_000));
                assertThat(owner.revoke(region, Duration.ofSeconds(20))).isNull();
                memory.segment().fill((byte) 0);
                for (CompletableFuture<Long> writer : writers) {
                    assertThat(writer.get(20, TimeUnit.SECONDS)).isEqualTo(Window.STALE);
                }
                for (long i = 0; i < SIZE; i += 8) {
                    assertThat(memory.segment().get(JAVA_LONG, i)).as("seed " + seed).isZero();
                }
                window.close();
            }
        }
    }

    private static long writeUntilStale(
            Window window, MemorySegment ones, int size, CountDownLatch started) {
        while (true) {
            int ticket = window.enter();
            if (ticket < 0) {
                return ticket;
            }
            long written = window.write(ticket, ones, 0, 0, size, () -> true);
            window.exit(ticket);
            started.countDown();
            if (written < 0) {
                return written;
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void theGuardStopsACopyBetweenSlices(String path) throws Exception {
        link(path);
        Window window = open(region(Access.READ_WRITE));
        MemorySegment local = Arena.ofAuto().allocate(SIZE, 8);
        int ticket = window.enter();
        long slice = path.equals("cma") ? CmaWindow.SLICE : DirectWindow.SLICE;
        int[] asked = {0};
        long written = window.write(ticket, local, 0, 0, SIZE, () -> ++asked[0] < 3);
        window.exit(ticket);
        assertThat(written).isPositive().isLessThan(SIZE).isEqualTo(3 * slice);
    }

    /// As of a thread that was stopped in its last slice, for longer than the owner waits. That one
    /// has the memory back by then, and what was written is in pages that nobody looks at.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aCopyOverlapsNoEndOfItsRegion(boolean write) throws Exception {
        link("mapped");
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        MemorySegment local = Arena.ofAuto().allocate(SIZE, 8);
        int ticket = window.enter();
        Window.Guard closesIt =
                () -> {
                    assertThat(owner.revoke(region, Duration.ofMillis(1))).isNull();
                    return true;
                };
        long length = 2 * DirectWindow.SLICE; // the guard is asked once, in front of the last one
        assertThat(
                        write
                                ? window.write(ticket, local, 0, 0, length, closesIt)
                                : window.read(ticket, local, 0, 0, length, closesIt))
                .isEqualTo(Window.STALE);
        assertThat(window.update(ticket, 0, CounterUpdate.Kind.ADD, 1)).isEqualTo(Window.STALE);
        window.exit(ticket);
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void aHeldRegionIsReportedUnlessItCanBeAbandoned(String path) throws Exception {
        link(path);
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        int ticket = window.enter();
        String holder = owner.revoke(region, Duration.ofMillis(50));
        if (path.equals("mapped")) {
            assertThat(holder).isNull();
        } else {
            assertThat(holder).contains("process " + ProcessHandle.current().pid());
        }
        MemorySegment local = Arena.ofAuto().allocate(8);
        assertThat(window.write(ticket, local, 0, 0, 8, () -> true)).isEqualTo(Window.STALE);
        window.exit(ticket);
        assertThat(owner.revoke(region, SECOND)).isNull();
        assertThat(window.enter()).isEqualTo(Window.STALE);
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void closingAWindowWaitsForThreadsInside(String path) throws Exception {
        link(path);
        Window window = open(region(Access.READ_WRITE));
        MemorySegment local = Arena.ofAuto().allocate(SIZE, 8);
        CountDownLatch inside = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        CompletableFuture<Long> copy =
                CompletableFuture.supplyAsync(
                        () -> {
                            int ticket = window.enter();
                            long bytes =
                                    window.write(
                                            ticket,
                                            local,
                                            0,
                                            0,
                                            SIZE,
                                            () -> {
                                                inside.countDown();
                                                awaitQuietly(goOn);
                                                return true;
                                            });
                            window.exit(ticket);
                            return bytes;
                        });
        assertThat(inside.await(20, TimeUnit.SECONDS)).isTrue();
        CompletableFuture<Void> closing = CompletableFuture.runAsync(window::close);
        Thread.sleep(50);
        assertThat(closing).isNotDone();
        goOn.countDown();
        closing.get(20, TimeUnit.SECONDS);
        assertThat(copy.get(20, TimeUnit.SECONDS)).isPositive();
        assertThat(window.enter()).isEqualTo(Window.STALE);
        window.close();
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void aThreadOfThisProcessIsWaitedForAfterTheLinkWasClosed() throws Exception {
        link("self");
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        int ticket = window.enter();
        owners.windows().close();
        owners.lane().close();
        assertThat(owner.revoke(region, Duration.ofMillis(50))).contains("in the middle of a copy");
        window.exit(ticket);
        assertThat(owner.revoke(region, SECOND)).isNull();
    }

    @Test
    void moreThreadsThanSlotsTakeTurns() throws Exception {
        link("mapped");
        ShmHarness.Region region = region(Access.READ_WRITE);
        Window window = open(region);
        int[] tickets = new int[HazardPage.WORDS];
        for (int i = 0; i < tickets.length; i++) {
            tickets[i] = window.enter();
        }
        assertThat(tickets).doesNotHaveDuplicates();
        CompletableFuture<Integer> last = CompletableFuture.supplyAsync(window::enter);
        Thread.sleep(20);
        assertThat(last).isNotDone();
        window.exit(tickets[77]);
        assertThat(last.get(20, TimeUnit.SECONDS)).isEqualTo(tickets[77]);
        for (int ticket : tickets) {
            window.exit(ticket);
        }
    }
}
