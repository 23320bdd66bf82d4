package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.Lane;
import io.telpher.spi.Link;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import io.telpher.spi.Window;
import java.io.BufferedReader;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// One-sided access between two processes, and what happens when one of them stops, dies or becomes
/// another program.
class ShmProcessesTest {
    private static final int SIZE = 1 << 20;
    private static final Receiver NOBODY =
            new Receiver() {
                @Override
                public boolean begin(MemorySegment header, long at, Placement placement) {
                    return true;
                }

                @Override
                public void end(
                        MemorySegment header,
                        long at,
                        MemorySegment payload,
                        long payloadAt,
                        Placement placement) {}
            };

    /// The second process: owns a region, or opens one, and does what it is told.
    static final class Child {
        public static void main(String[] arguments) throws Throwable {
            BufferedReader in = ChildJvm.parent();
            PeerAddress peer = ChildJvm.address(in.readLine());
            EndpointOptions options =
                    EndpointOptions.DEFAULTS.withPaths(List.of(arguments[1], "shm-ring"));
            ShmHarness harness = new ShmHarness(options);
            System.out.println(ChildJvm.text(harness.address()));
            Link link = harness.accept(peer);
            if (arguments[0].equals("own")) {
                own(harness, in);
            } else {
                hold(link, in);
            }
        }

        private static void own(ShmHarness harness, BufferedReader in) throws Throwable {
            try (SharedMemory memory =
                    SharedMemory.allocate(SIZE, Access.READ_WRITE, SharedMemory.Pages.SMALL)) {
                ShmHarness.Region region = harness.register(memory);
                System.out.println(HexFormat.of().formatHex(harness.remote(region).toBytes()));
                in.readLine();
                System.out.println(memory.segment().get(JAVA_BYTE, SIZE - 1));
                in.readLine();
                becomeSleep();
            }
        }

        /// `int execv(const char *path, char *const argv[])`
        private static void becomeSleep() throws Throwable {
            Linker linker = Linker.nativeLinker();
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment path = arena.allocateFrom("/bin/sleep");
                MemorySegment argv = arena.allocate(ADDRESS, 3);
                argv.setAtIndex(ADDRESS, 0, path);
                argv.setAtIndex(ADDRESS, 1, arena.allocateFrom("60"));
                argv.setAtIndex(ADDRESS, 2, MemorySegment.NULL);
                int failed =
                        (int)
                                linker.downcallHandle(
                                                linker.defaultLookup().findOrThrow("execv"),
                                                FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS))
                                        .invokeExact(path, argv);
                throw new IllegalStateException("execv: " + failed);
            }
        }

        private static void hold(Link link, BufferedReader in) throws IOException {
            RemoteMemory memory = RemoteMemory.ofBytes(HexFormat.of().parseHex(in.readLine()));
            Window window = link.windows().open(memory, ShmHarness.soon()).join();
            int ticket = window.enter();
            System.out.println(window.path());
            in.readLine();
            MemorySegment ones = Arena.ofAuto().allocate(8).fill((byte) 1);
            System.out.println(window.write(ticket, ones, 0, 0, 8, () -> true));
            window.exit(ticket);
            in.readLine();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"mapped", "cma"})
    void writesIntoAChildAndNeverIntoAnotherProgram(String path) throws Exception {
        EndpointOptions options = EndpointOptions.DEFAULTS.withPaths(List.of(path, "shm-ring"));
        try (ShmHarness harness = new ShmHarness(options);
                ChildJvm child = new ChildJvm(Child.class, "own", path)) {
            child.say(ChildJvm.text(harness.address()));
            Link link = harness.connect(ChildJvm.address(child.hear()));
            RemoteMemory memory = RemoteMemory.ofBytes(HexFormat.of().parseHex(child.hear()));
            Window window = link.windows().open(memory, ShmHarness.soon()).join();
            assertThat(window.path()).isEqualTo(path);
            MemorySegment local = Arena.ofAuto().allocate(SIZE).fill((byte) 42);
            int ticket = window.enter();
            assertThat(window.write(ticket, local, 0, 0, SIZE, () -> true)).isEqualTo(SIZE);
            assertThat(window.read(ticket, local, 0, SIZE - 100, 100, () -> true)).isEqualTo(100);
            window.exit(ticket);
            child.say("look");
            assertThat(child.hear()).isEqualTo("42");

            ticket = window.enter();
            child.say("exec");
            Path name = Path.of("/proc/" + child.pid() + "/comm");
            while (!Files.readString(name).strip().equals("sleep")) {
                Thread.sleep(5);
            }
            long written = window.write(ticket, local, 0, 0, SIZE, () -> true);
            if (path.equals("cma")) {
                assertThat(written).isEqualTo(Window.LOST);
                assertThat(window.read(ticket, local, 0, 0, SIZE, () -> true))
                        .isEqualTo(Window.LOST);
                assertThat(window.write(ticket, local, 0, 0, 8, () -> true)).isEqualTo(Window.LOST);
                assertThat(window.read(ticket, local, 0, 0, 8, () -> true)).isEqualTo(Window.LOST);
            }
            window.exit(ticket);
            assertThat(child.process().isAlive()).isTrue();
            awaitDead(link.lane(), 1_000);
            assertThat(link.lane().failure()).contains("process " + child.pid());
            link.windows().close();
            link.lane().close();
        }
    }

    private static void awaitDead(Lane lane, int millis) throws InterruptedException {
        for (int i = 0; lane.poll(NOBODY, 1) != Lane.DEAD; i++) {
            assertThat(i).as("milliseconds until the loss was noticed").isLessThan(millis);
            Thread.sleep(1);
        }
    }

    /// @param isUsed whether the memory is used after the region is closed
    @ParameterizedTest
    @CsvSource({"mapped, false", "mapped, true", "cma, false"})
    void aStoppedImporterDoesNotHoldAnOwnerForEver(String path, boolean isUsed) throws Exception {
        EndpointOptions options = EndpointOptions.DEFAULTS.withPaths(List.of(path, "shm-ring"));
        try (ShmHarness harness = new ShmHarness(options);
                SharedMemory memory =
                        SharedMemory.allocate(SIZE, Access.READ_WRITE, SharedMemory.Pages.SMALL);
                ChildJvm child = new ChildJvm(Child.class, "hold", path)) {
            child.say(ChildJvm.text(harness.address()));
            Link link = harness.connect(ChildJvm.address(child.hear()));
            ShmHarness.Region region = harness.register(memory);
            region.isUsed().set(isUsed);
            child.say(HexFormat.of().formatHex(harness.remote(region).toBytes()));
            assertThat(child.hear()).isEqualTo(path);
            Processes.kill(child.pid(), Processes.SIGSTOP);
            long before = System.nanoTime();
            String holder = harness.revoke(region, Duration.ofMillis(200));
            assertThat(System.nanoTime() - before).isBetween(190_000_000L, 2_000_000_000L);
            if (path.equals("mapped") && !isUsed) {
                assertThat(holder).isNull();
            } else {
                assertThat(holder).contains("process " + child.pid());
            }
            Processes.kill(child.pid(), Processes.SIGCONT);
            child.say("write");
            assertThat(child.hear()).isEqualTo(Integer.toString(Window.STALE));
            assertThat(harness.revoke(region, Duration.ofSeconds(5))).isNull();
            assertThat(memory.segment().get(JAVA_BYTE, 0)).isZero();
            link.windows().close();
            link.lane().close();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"mapped", "cma"})
    void anImporterIsWaitedForAfterTheLinkWasClosed(String path) throws Exception {
        EndpointOptions options = EndpointOptions.DEFAULTS.withPaths(List.of(path, "shm-ring"));
        try (ShmHarness harness = new ShmHarness(options);
                SharedMemory memory =
                        SharedMemory.allocate(SIZE, Access.READ_WRITE, SharedMemory.Pages.SMALL);
                ChildJvm child = new ChildJvm(Child.class, "hold", path)) {
            child.say(ChildJvm.text(harness.address()));
            Link link = harness.connect(ChildJvm.address(child.hear()));
            ShmHarness.Region region = harness.register(memory);
            region.isUsed().set(true);
            child.say(HexFormat.of().formatHex(harness.remote(region).toBytes()));
            assertThat(child.hear()).isEqualTo(path);
            link.windows().close();
            link.lane().close();
            assertThat(harness.revoke(region, Duration.ofMillis(50)))
                    .contains("process " + child.pid());
            child.say("write");
            assertThat(child.hear()).isEqualTo(Integer.toString(Window.STALE));
            assertThat(harness.revoke(region, Duration.ofSeconds(5))).isNull();
        }
    }

    @Test
    void aDeadImporterHoldsNothing() throws Exception {
        EndpointOptions options = EndpointOptions.DEFAULTS.withPaths(List.of("cma", "shm-ring"));
        try (ShmHarness harness = new ShmHarness(options);
                SharedMemory memory =
                        SharedMemory.allocate(SIZE, Access.READ_WRITE, SharedMemory.Pages.SMALL);
                ChildJvm child = new ChildJvm(Child.class, "hold", "cma")) {
            child.say(ChildJvm.text(harness.address()));
            Link link = harness.connect(ChildJvm.address(child.hear()));
            ShmHarness.Region region = harness.register(memory);
            child.say(HexFormat.of().formatHex(harness.remote(region).toBytes()));
            assertThat(child.hear()).isEqualTo("cma");
            Processes.kill(child.pid(), Processes.SIGKILL);
            long before = System.nanoTime();
            assertThat(harness.revoke(region, Duration.ofSeconds(20))).isNull();
            assertThat(System.nanoTime() - before).isLessThan(1_000_000_000L);
            link.windows().close();
            link.lane().close();
        }
    }
}
