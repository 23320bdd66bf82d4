package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// What a simulation offers, by small programs.
class SimulationBasicsTest {
    private static final EndpointOptions QUICK = EndpointOptions.DEFAULTS.withSpin(Duration.ZERO);
    private static final Duration SHORT = Duration.ofSeconds(10);

    /// Two hosts and a link; the right one accepts and publishes 1 MiB as `inbox`.
    private static final class Pair implements AutoCloseable {
        final Simulation simulation = new Simulation(1);
        final SimHost left = simulation.host("left");
        final SimHost right = simulation.host("right");
        final SimLink link;
        final AtomicReference<EndpointAddress> address = new AtomicReference<>();
        final AtomicReference<MemoryRegion> inbox = new AtomicReference<>();

        Pair(LinkOptions options) {
            link = simulation.link(left, right, options);
        }

        void serve(SimHost.Program until) {
            right.start(
                    "server",
                    () -> {
                        try (Endpoint endpoint = right.open(QUICK)) {
                            MemoryRegion region = endpoint.allocate(1 << 20);
                            inbox.set(region);
                            endpoint.publish("inbox", region);
                            address.set(endpoint.address());
                            Connection unused = endpoint.accept(SHORT);
                            until.run();
                        }
                    });
        }

        Connection connect(Endpoint endpoint) {
            simulation.await(() -> address.get() != null, SHORT);
            return endpoint.connect(address.get());
        }

        @Override
        public void close() {
            simulation.close();
        }
    }

    /// The names of transports and paths are those of whoever provides them.
    @Test
    void itsOwnTransportAndPathsCanBeNamedAndNoOthers() {
        EndpointOptions own = QUICK.withTransports(List.of("sim")).withPaths(List.of("sim-window"));
        try (Pair pair = new Pair(LinkOptions.DEFAULTS)) {
            pair.left.start(
                    "program",
                    () -> {
                        pair.left.open(own).close();
                        assertThatThrownBy(
                                        () -> pair.left.open(QUICK.withTransports(List.of("tcp"))))
                                .hasMessage("there is no transport 'tcp'; those there are: sim");
                        assertThatThrownBy(() -> pair.left.open(own.withPaths(List.of("tcp"))))
                                .hasMessageEndingWith("those there are: sim, sim-window");
                    });
            pair.simulation.run();
        }
    }

    @ParameterizedTest
    @EnumSource(LinkOptions.Style.class)
    void bytesArriveAndTimeIsVirtual(LinkOptions.Style style) {
        long began = System.nanoTime();
        try (Pair pair = new Pair(LinkOptions.DEFAULTS.withStyle(style))) {
            boolean[] done = new boolean[1];
            pair.serve(() -> pair.simulation.await(() -> done[0], Duration.ofHours(1)));
            pair.left.start(
                    "writer",
                    () -> {
                        try (Endpoint endpoint = pair.left.open(QUICK)) {
                            Connection peer = pair.connect(endpoint);
                            RemoteMemory inbox = peer.lookup("inbox", SHORT);
                            MemoryRegion own = endpoint.allocate(300_000);
                            own.segment().fill((byte) 7);
                            peer.write(own.all(), inbox.slice(100, 300_000)).await();
                            pair.simulation.sleep(Duration.ofMinutes(30));
                            peer.notifyPeer(MemorySegment.ofArray(new byte[100])).await();
                        }
                        done[0] = true;
                    });
            pair.simulation.run();
            MemorySegment inbox = pair.inbox.get().segment();
            assertThat(inbox.get(ValueLayout.JAVA_BYTE, 99)).isZero();
            assertThat(inbox.asSlice(100, 300_000).mismatch(filled(300_000))).isEqualTo(-1);
            assertThat(pair.simulation.now()).isGreaterThan(Duration.ofMinutes(30));
        }
        assertThat(Duration.ofNanos(System.nanoTime() - began)).isLessThan(Duration.ofMinutes(5));
    }

    private static MemorySegment filled(int bytes) {
        byte[] all = new byte[bytes];
        java.util.Arrays.fill(all, (byte) 7);
        return MemorySegment.ofArray(all);
    }

    @Test
    void aFailureOfAProgramIsThrown() {
        try (Simulation simulation = new Simulation(5)) {
            simulation
                    .host("only")
                    .start(
                            "broken",
                            () -> {
                                simulation.sleep(Duration.ofSeconds(3));
                                throw new java.io.IOException("as planned");
                            });
            assertThatThrownBy(simulation::run)
                    .hasMessageContaining("'broken' of only failed after PT3")
                    .hasMessageContaining("seed 5")
                    .hasRootCauseMessage("as planned");
        }
    }

    @Test
    void aProgramThatNeverEndsIsNamed() {
        try (Simulation simulation = new Simulation(5)) {
            simulation.host("only").start("patient", () -> simulation.sleep(Duration.ofDays(300)));
            assertThatThrownBy(simulation::run)
                    .hasMessageContaining("'patient' of only")
                    .hasMessageContaining("aProgramThatNeverEndsIsNamed");
        }
    }

    @Test
    void anInterruptEndsTheRun() {
        try (Simulation simulation = new Simulation(5)) {
            simulation
                    .host("only")
                    .start(
                            "endless",
                            () -> {
                                while (true) {
                                    simulation.sleep(Duration.ofMillis(1));
                                }
                            });
            Thread.currentThread().interrupt();
            assertThatThrownBy(simulation::run).isInstanceOf(TelpherException.Cancelled.class);
            assertThat(Thread.interrupted()).isTrue();
        }
    }

    @Test
    void nobodyWaitsOutsideOfAProgram() {
        try (Pair pair = new Pair(LinkOptions.DEFAULTS)) {
            Endpoint endpoint = pair.left.open(QUICK);
            assertThatThrownBy(() -> endpoint.accept(SHORT)).hasMessageContaining("SimHost.start");
        }
    }

    @ParameterizedTest
    @EnumSource(LinkOptions.Style.class)
    void aKilledPeerIsLost(LinkOptions.Style style) {
        try (Pair pair = new Pair(LinkOptions.DEFAULTS.withStyle(style))) {
            pair.serve(() -> pair.simulation.sleep(Duration.ofMinutes(5)));
            AtomicReference<Transfer> ended = new AtomicReference<>();
            pair.left.start(
                    "receiver",
                    () -> {
                        try (Endpoint endpoint = pair.left.open(QUICK)) {
                            Connection peer = pair.connect(endpoint);
                            Transfer transfer = peer.receive(1, endpoint.allocate(64).all());
                            boolean unused = transfer.await(Duration.ofMinutes(1));
                            ended.set(transfer);
                        }
                    });
            pair.simulation.after(Duration.ofSeconds(1), pair.right::kill);
            pair.simulation.run();
            assertThat(ended.get().error()).isInstanceOf(TelpherException.PeerLost.class);
            assertThat(pair.simulation.now()).isLessThan(Duration.ofSeconds(3));
        }
    }

    @Test
    void aVanishedHostIsLostAfterTheLivenessTime() {
        try (Pair pair = new Pair(LinkOptions.DEFAULTS)) {
            pair.serve(() -> pair.simulation.sleep(Duration.ofMinutes(5)));
            AtomicReference<Transfer> ended = new AtomicReference<>();
            pair.left.start(
                    "receiver",
                    () -> {
                        try (Endpoint endpoint = pair.left.open(QUICK)) {
                            Connection peer = pair.connect(endpoint);
                            Transfer transfer = peer.receive(1, endpoint.allocate(64).all());
                            boolean unused = transfer.await(Duration.ofMinutes(1));
                            ended.set(transfer);
                        }
                    });
            pair.simulation.after(Duration.ofSeconds(1), pair.right::vanish);
            pair.simulation.run();
            assertThat(ended.get().error()).isInstanceOf(TelpherException.PeerLost.class);
            assertThat(pair.simulation.now())
                    .isBetween(Duration.ofSeconds(4), Duration.ofSeconds(9));
        }
    }

    @Test
    void aPausedPeerIsNotLost() {
        try (Pair pair = new Pair(LinkOptions.DEFAULTS)) {
            pair.serve(() -> pair.simulation.sleep(Duration.ofMinutes(5)));
            AtomicReference<Transfer> ended = new AtomicReference<>();
            pair.left.start(
                    "writer",
                    () -> {
                        try (Endpoint endpoint = pair.left.open(QUICK)) {
                            Connection peer = pair.connect(endpoint);
                            RemoteMemory inbox = peer.lookup("inbox", SHORT);
                            pair.right.pause();
                            Transfer late = peer.write(endpoint.allocate(64).all(), inbox);
                            assertThat(late.await(Duration.ofSeconds(10))).isFalse();
                            pair.right.resume();
                            assertThat(late.await(Duration.ofSeconds(10))).isTrue();
                            ended.set(late);
                        }
                    });
            pair.simulation.run();
            assertThat(ended.get().state()).isEqualTo(TransferState.DONE);
        }
    }

    @Test
    void aStallDelaysAndLosesNothing() {
        try (Pair pair = new Pair(LinkOptions.DEFAULTS)) {
            pair.serve(() -> pair.simulation.sleep(Duration.ofMinutes(1)));
            pair.left.start(
                    "writer",
                    () -> {
                        try (Endpoint endpoint = pair.left.open(QUICK)) {
                            Connection peer = pair.connect(endpoint);
                            RemoteMemory inbox = peer.lookup("inbox", SHORT);
                            pair.link.stall(Duration.ofSeconds(2));
                            Transfer late = peer.write(endpoint.allocate(64).all(), inbox);
                            assertThat(late.await(Duration.ofMillis(1_900))).isFalse();
                            late.await();
                            assertThat(peer.metrics().stalls()).isPositive();
                            assertThat(endpoint.metrics().totals().stalls()).isPositive();
                        }
                    });
            pair.simulation.run();
        }
    }

    @Test
    void aRestartedHostHasAnotherIncarnation() {
        try (Pair pair = new Pair(LinkOptions.DEFAULTS)) {
            pair.serve(() -> pair.simulation.sleep(Duration.ofMinutes(5)));
            pair.left.start(
                    "client",
                    () -> {
                        try (Endpoint endpoint = pair.left.open(QUICK)) {
                            Connection peer = pair.connect(endpoint);
                            EndpointAddress old = peer.peer();
                            EndpointAddress stale = pair.address.getAndSet(null);
                            pair.right.kill();
                            pair.serve(() -> pair.simulation.sleep(Duration.ofSeconds(1)));
                            Connection again = pair.connect(endpoint);
                            assertThat(again.peer().incarnation()).isNotEqualTo(old.incarnation());
                            assertThatThrownBy(() -> endpoint.connect(stale))
                                    .isInstanceOf(TelpherException.class);
                        }
                    });
            pair.simulation.run();
        }
    }

    @Test
    void theSameSeedGivesTheSameEvents() {
        long[] fingerprints = new long[3];
        for (int i = 0; i < 3; i++) {
            try (Simulation simulation = new Simulation(i < 2 ? 11 : 12)) {
                chat(simulation);
                fingerprints[i] = simulation.fingerprint();
            }
        }
        assertThat(fingerprints[0]).isEqualTo(fingerprints[1]);
        assertThat(fingerprints[0]).isNotEqualTo(fingerprints[2]);
    }

    private static void chat(Simulation simulation) {
        simulation.load(0.02);
        SimHost left = simulation.host("left");
        SimHost right = simulation.host("right");
        simulation.link(left, right, LinkOptions.DEFAULTS.withLanes(2));
        simulation.link(left, right, LinkOptions.DEFAULTS);
        AtomicReference<EndpointAddress> address = new AtomicReference<>();
        right.start(
                "right",
                () -> {
                    try (Endpoint endpoint = right.open(QUICK)) {
                        address.set(endpoint.address());
                        Connection peer = endpoint.accept(SHORT);
                        MemoryRegion region = endpoint.allocate(100_000);
                        for (int i = 0; i < 10; i++) {
                            peer.receive(i, region.slice(0, 10_000 * (i + 1L))).await();
                        }
                        assertThat(peer.awaitNotification(SHORT).payload()).hasSize(3);
                    }
                });
        left.start(
                "left",
                () -> {
                    simulation.await(() -> address.get() != null, SHORT);
                    try (Endpoint endpoint = left.open(QUICK)) {
                        Connection peer = endpoint.connect(address.get());
                        MemoryRegion region = endpoint.allocate(100_000);
                        for (int i = 0; i < 10; i++) {
                            peer.send(i, region.slice(0, 10_000 * (i + 1L))).await();
                        }
                        peer.notifyPeer(
                                        MemorySegment.ofArray(
                                                "bye".getBytes(StandardCharsets.UTF_8)))
                                .await();
                    }
                });
        simulation.run();
    }
}
