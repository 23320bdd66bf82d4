package io.telpher.internal.engine;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.telpher.Connection;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.spi.Link;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Ends of regions and endpoints that are in use.
class EndpointCloseTest {
    private static final Duration LONG = Duration.ofMinutes(2);

    @Test
    void aReceiveThatNothingHasComeForKeepsNoRegion() {
        try (EndpointImpl endpoint = new EndpointImpl(Loopback.OPTIONS.withDrainLimit(LONG))) {
            ConnectionCore core = Loopback.connection(endpoint, 1);
            endpoint.remember(core);
            Link link = new Link(new StubLane(StubLane.LEAST_PAYLOAD), null);
            assertThat(core.add(link, 0, "stub", "")).isTrue();
            MemoryRegion region = endpoint.allocate(8);
            Transfer receive = new ConnectionImpl(core).receive(1, region.all());
            long start = System.nanoTime();
            region.close();
            assertThat(receive.error()).isInstanceOf(TelpherException.StaleRegion.class);
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(LONG.dividedBy(4));
        }
    }

    /// It gets a part of the drain limit to end by itself.
    @Test
    void aReceiveThatPeersMayFillIsNotEndedAtOnce() {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore core = Loopback.connection(endpoint, 1);
            endpoint.remember(core);
            RegionImpl region = (RegionImpl) endpoint.allocate(8);
            Transfer receive = new ConnectionImpl(core).receive(1, region.all());
            core.table.at(0).exposed = true;
            core.endUsers(region, Operation::isUntouched);
            assertThat(receive.state()).isEqualTo(TransferState.PENDING);
            region.close();
            assertThat(receive.error()).isInstanceOf(TelpherException.StaleRegion.class);
        }
    }

    /// As of a thread that a debugger has stopped.
    @Test
    @Timeout(30)
    void aLaneThatIsHeldKeepsNobodyForEver() {
        try (EndpointImpl endpoint =
                new EndpointImpl(Loopback.OPTIONS.withDrainLimit(Duration.ofMillis(200)))) {
            ConnectionCore core = Loopback.connection(endpoint, 1);
            endpoint.remember(core);
            LaneState lane = new StubLane(StubLane.LEAST_PAYLOAD).addTo(core, 0);
            MemoryRegion region = endpoint.allocate(8);
            lane.pollToken.take();
            assertThatThrownBy(region::close)
                    .isInstanceOf(TelpherException.RegionBusy.class)
                    .hasMessageContaining(lane.name())
                    .hasMessageContaining("close it again later");
            assertThat(region.segment().byteSize()).as("the memory is there").isEqualTo(8);
            region.segment().fill((byte) 1);
            lane.pollToken.giveBack();
            region.close();
        }
    }

    @Test
    @Timeout(30)
    void aLaneThatIsHeldLeavesThePeersNoWindow() {
        EndpointOptions options =
                Loopback.OPTIONS
                        .withTransports(List.of("shm", "tcp"))
                        .withDrainLimit(Duration.ofMillis(200));
        try (EndpointImpl owner = new EndpointImpl(options);
                EndpointImpl peer = new EndpointImpl(options)) {
            Connection connection = peer.connect(owner.address(), Duration.ofSeconds(10));
            MemoryRegion source = peer.allocate(8);
            MemoryRegion target = owner.allocate(8);
            connection.write(source.all(), target.remote()).await();
            ConnectionCore core = Loopback.connection(owner, 99);
            owner.remember(core);
            LaneState lane = new StubLane(StubLane.LEAST_PAYLOAD).addTo(core, 0);
            lane.pollToken.take();
            assertThatThrownBy(target::close).isInstanceOf(TelpherException.RegionBusy.class);
            Transfer late = connection.write(source.all(), target.remote());
            late.await(Duration.ofSeconds(10));
            assertThat(late.error()).isInstanceOf(TelpherException.StaleRegion.class);
            lane.pollToken.giveBack();
            target.close();
        }
    }

    /// A native call works on its memory when it is closed, and not when it is closed again.
    /// Another region that peers map has come in between.
    @Test
    @Timeout(30)
    void aRegionThatIsClosedAgainLeavesOthersAlone() throws Throwable {
        EndpointOptions options =
                Loopback.OPTIONS
                        .withTransports(List.of("shm"))
                        .withPaths(List.of("mapped", "shm-ring"));
        try (EndpointImpl owner = new EndpointImpl(options);
                EndpointImpl peer = new EndpointImpl(options)) {
            Connection connection = peer.connect(owner.address(), Duration.ofSeconds(10));
            MemoryRegion source = peer.allocate(8);
            MemoryRegion busy = owner.allocate(8);
            assertThat(whileANativeCallUses(busy.segment(), busy::close))
                    .isInstanceOf(TelpherException.RegionBusy.class);
            MemoryRegion other = owner.allocate(8);
            assertThat(connection.write(source.all(), other.remote()).await(LONG)).isTrue();
            busy.close();
            Transfer late = connection.write(source.all(), other.remote());
            assertThat(late.await(LONG)).isTrue();
            assertThat(late.state()).as("%s", late.error()).isEqualTo(TransferState.DONE);
            assertThat(late.path()).isEqualTo("mapped");
        }
    }

    /// @param words two ints: the C library's `qsort` compares them, which is what calls `body`
    /// @return what that threw
    private static Throwable whileANativeCallUses(MemorySegment words, Runnable body)
            throws Throwable {
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        IntSupplier compare =
                () -> {
                    thrown.set(catchThrowable(body::run));
                    return 0;
                };
        Linker linker = Linker.nativeLinker();
        MethodHandle sort =
                linker.downcallHandle(
                        linker.defaultLookup().findOrThrow("qsort"),
                        FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS));
        MethodHandle called =
                MethodHandles.dropArguments(
                        MethodHandles.lookup()
                                .bind(compare, "getAsInt", MethodType.methodType(int.class)),
                        0,
                        MemorySegment.class,
                        MemorySegment.class);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment comparator =
                    linker.upcallStub(
                            called, FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS), arena);
            sort.invokeExact(words, 2L, 4L, comparator);
        }
        return thrown.get();
    }

    @Test
    void memoryThatIsOneRegionTooManyIsGivenBack() throws IOException {
        try (EndpointImpl endpoint = Loopback.open()) {
            MemorySegment foreign = Arena.ofAuto().allocate(8);
            for (int i = 0; i < RegionTable.CAPACITY; i++) {
                MemoryRegion unused = endpoint.register(foreign);
            }
            long before = memoryFiles();
            assertThatThrownBy(() -> endpoint.allocate(8))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("close some");
            assertThat(memoryFiles()).isEqualTo(before);
        }
    }

    /// @return how many files of regions this process has open
    private static long memoryFiles() throws IOException {
        long count = 0;
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path one : all) {
                count += isMemory(one) ? 1 : 0;
            }
        }
        return count;
    }

    private static boolean isMemory(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString().contains("telpher-region-");
        } catch (IOException e) {
            return false; // closed since
        }
    }

    @Test
    void allWhoCloseAtTheSameTimeHearOfABusyRegion() throws Exception {
        EndpointImpl endpoint =
                new EndpointImpl(Loopback.OPTIONS.withDrainLimit(Duration.ofSeconds(1)));
        RegionImpl region = (RegionImpl) endpoint.allocate(8);
        assertThat(region.enter()).isTrue();
        CompletableFuture<Throwable> first =
                CompletableFuture.supplyAsync(() -> catchThrowable(endpoint::close));
        while (!endpoint.isClosed()) {
            Thread.sleep(1);
        }
        assertThatThrownBy(endpoint::close)
                .isInstanceOf(TelpherException.RegionBusy.class)
                .hasMessageContaining("1 operations of this process");
        assertThat(first.get()).isInstanceOf(TelpherException.RegionBusy.class);
        endpoint.close(); // later: nothing
        region.exit();
        region.close();
    }
}
