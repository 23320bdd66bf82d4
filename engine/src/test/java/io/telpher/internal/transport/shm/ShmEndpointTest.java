package io.telpher.internal.transport.shm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.Availability;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.Window;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShmEndpointTest {
    @Test
    void isAvailableHere() {
        assertThat(new ShmTransport().probe()).isInstanceOf(Availability.Available.class);
    }

    @Test
    void offersARouteOnTheSameHostOnly() {
        try (ShmHarness here = new ShmHarness();
                ShmHarness there = new ShmHarness()) {
            PeerAddress peer = there.address();
            assertThat(rejection(here, peer)).isNull();

            HostIdentity host = peer.host();
            HostIdentity other =
                    new HostIdentity(
                            "0".repeat(36), host.pid(), host.pidNamespace(), host.netNamespace());
            assertThat(rejection(here, new PeerAddress(1, other, peer.locators())))
                    .isEqualTo("other host");
            assertThat(rejection(here, new PeerAddress(1, HostIdentity.UNKNOWN, peer.locators())))
                    .isEqualTo("other host");

            Locator elsewhere =
                    new ShmLocator(ShmLocator.Kind.ABSTRACT, host.netNamespace() + 1, "x")
                            .toLocator();
            assertThat(rejection(here, new PeerAddress(1, host, List.of(elsewhere))))
                    .contains("other network namespace")
                    .contains("socketDirectory");
            Locator unseen = new ShmLocator(ShmLocator.Kind.PATH, 0, "/nonexistent/x").toLocator();
            assertThat(rejection(here, new PeerAddress(1, host, List.of(unseen))))
                    .contains("cannot be seen from here");
            Locator garbage = new Locator(ShmTransport.NAME, new byte[] {1, 0}, "?");
            assertThat(here.endpoint().routes(new PeerAddress(1, host, List.of(garbage))))
                    .isEmpty();
        }
    }

    @Test
    void isRejectedWhenNoneOfItsPathsIsAllowed() {
        try (ShmHarness here = new ShmHarness(EndpointOptions.DEFAULTS.withPaths(List.of("tcp")));
                ShmHarness there = new ShmHarness()) {
            assertThat(rejection(here, there.address())).contains("'paths'");
        }
    }

    private static String rejection(ShmHarness from, PeerAddress to) {
        List<Route> routes = from.endpoint().routes(to);
        assertThat(routes).hasSize(1);
        return routes.getFirst().rejected();
    }

    @Test
    void listensInAFolderAndCleansUp(@TempDir Path folder) throws Exception {
        Path stale = folder.resolve("telpher-0000000000000001.sock");
        leaveStaleSocket(stale);
        EndpointOptions options = EndpointOptions.DEFAULTS.withSocketDirectory(folder.toString());
        try (ShmHarness one = new ShmHarness(options)) {
            assertThat(stale).doesNotExist();
            try (ShmHarness two = new ShmHarness(options);
                    ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
                assertThat(files(folder)).isEqualTo(2);
                assertThat(pair.left().lane().text()).contains(folder.toString());
            }
        }
        assertThat(files(folder)).isZero();
    }

    private static void leaveStaleSocket(Path path) {
        int fd = Sockets.socket(Sockets.AF_UNIX, Sockets.SOCK_STREAM, 0);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            int length = SocketAddresses.encodeUnixPath(path.toString(), address);
            assertThat(Sockets.bind(fd, address, length)).isZero();
            assertThat(Sockets.listen(fd, 1)).isZero();
        }
        Mapping.closeDescriptor(fd);
        assertThat(path).exists();
    }

    private static long files(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.count();
        }
    }

    @Test
    void aMissingOrLongFolderIsNamed(@TempDir Path folder) {
        for (String bad : List.of(folder + "/missing", folder + "/" + "x".repeat(120))) {
            EndpointOptions options = EndpointOptions.DEFAULTS.withSocketDirectory(bad);
            assertThatThrownBy(() -> new ShmHarness(options))
                    .isInstanceOf(TelpherException.class)
                    .hasMessageContaining(bad)
                    .hasMessageContaining("socket folder");
        }
    }

    @Test
    void dialingNobodyFails() {
        PeerAddress gone;
        try (ShmHarness there = new ShmHarness()) {
            gone = there.address();
        }
        try (ShmHarness here = new ShmHarness()) {
            assertThatThrownBy(() -> here.connect(gone))
                    .isInstanceOf(TelpherException.ConnectFailed.class)
                    .hasMessageContaining("ECONNREFUSED");
        }
    }

    @Test
    void garbageInsteadOfAGreetingIsUnsupported() throws Exception {
        try (ShmHarness here = new ShmHarness();
                ShmHarness there = new ShmHarness()) {
            Route route = here.endpoint().routes(there.address()).getFirst();
            try (Channel channel = here.endpoint().dial(route, ShmHarness.soon())) {
                channel.send(new byte[256], ShmHarness.soon());
                assertThatThrownBy(() -> there.accept(here.address()))
                        .isInstanceOf(TelpherException.Unsupported.class)
                        .hasMessageContaining("another version");
            }
        }
    }

    @Test
    void aPeerThatLeavesOrSaysNothingEndsTheSetUp() throws Exception {
        try (ShmHarness here = new ShmHarness();
                ShmHarness there = new ShmHarness()) {
            Route route = here.endpoint().routes(there.address()).getFirst();
            here.endpoint().dial(route, ShmHarness.soon()).close();
            assertThatThrownBy(() -> there.accept(here.address()))
                    .isInstanceOf(TelpherException.PeerLost.class);

            Channel silent = here.endpoint().dial(route, ShmHarness.soon());
            assertThatThrownBy(
                            () ->
                                    here.endpoint()
                                            .link(
                                                    silent,
                                                    Role.INITIATOR,
                                                    there.address(),
                                                    Deadline.in(Duration.ofMillis(50))))
                    .isInstanceOf(TelpherException.TimedOut.class);
        }
    }

    @Test
    void anotherEndpointThanTheDialledOneIsRefused() throws Exception {
        try (ShmHarness here = new ShmHarness();
                ShmHarness there = new ShmHarness()) {
            PeerAddress address = there.address();
            PeerAddress wrong =
                    new PeerAddress(address.incarnation() + 1, address.host(), address.locators());
            CompletableFuture<Void> dialled =
                    CompletableFuture.runAsync(
                            () ->
                                    assertThatThrownBy(() -> here.connect(wrong))
                                            .isInstanceOf(TelpherException.Unsupported.class)
                                            .hasMessageContaining("leads to endpoint"));
            assertThatThrownBy(() -> there.accept(here.address()))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("the peer gave up");
            dialled.get();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"self", "mapped", "cma"})
    void aThousandLinksLeaveNoDescriptorAndNoMapping(String path) throws Exception {
        EndpointOptions options = EndpointOptions.DEFAULTS.withPaths(List.of(path, "shm-ring"));
        try (ShmHarness one = new ShmHarness(options);
                ShmHarness two = new ShmHarness(options);
                SharedMemory memory =
                        SharedMemory.allocate(4096, Access.READ, SharedMemory.Pages.SMALL)) {
            RemoteMemory remote = two.remote(two.register(memory));
            long descriptors = 0;
            long mappings = 0;
            for (int i = 0; i < 1_050; i++) {
                try (ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
                    Window window = pair.left().windows().open(remote, ShmHarness.soon()).join();
                    window.exit(window.enter());
                }
                if (i == 49) {
                    descriptors = files(Path.of("/proc/self/fd"));
                    mappings = mappings();
                }
            }
            assertThat(files(Path.of("/proc/self/fd"))).isLessThanOrEqualTo(descriptors + 5);
            assertThat(mappings()).isLessThanOrEqualTo(mappings + 5);
        }
    }

    private static long mappings() throws IOException {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
            return lines.filter(line -> line.contains("memfd:telpher")).count();
        }
    }
}
