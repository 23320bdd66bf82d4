package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.engine.Leftovers;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Tags that nobody needs any more are forgotten, by both sides together.
class TagsTest {
    private static final Duration SHORT = Duration.ofSeconds(10);

    /// Those that are kept, those that are asked about, and some that are in use.
    private static final int MOST = 4096;

    private static final int BATCH = 32;

    @Test
    void aMillionFreshTagsNeedNoMoreThanSomeThousand() {
        EndpointOptions options = EndpointOptions.DEFAULTS.withTransports(List.of("shm"));
        try (Endpoint a = Endpoint.open(options);
                Endpoint b = Endpoint.open(options)) {
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> b.accept(SHORT));
            Connection to = a.connect(b.address(), SHORT);
            Connection from = accepted.join();
            MemoryRegion mine = a.allocate(BATCH * 16);
            MemoryRegion theirs = b.allocate(BATCH * 16);
            int most = 0;
            for (int tag = 0; tag < 1_000_000; tag += 2 * BATCH) {
                exchange(to, mine, from, theirs, tag);
                exchange(from, theirs, to, mine, tag + BATCH);
                most = Math.max(most, Leftovers.tags(to) + Leftovers.tags(from));
            }
            assertThat(most).isBetween(1, 2 * MOST);
        }
    }

    /// Messages of 8 bytes, each with a tag of its own.
    private static void exchange(
            Connection by, MemoryRegion source, Connection to, MemoryRegion target, long tag) {
        long[] receives = new long[BATCH];
        long[] sends = new long[BATCH];
        for (int i = 0; i < BATCH; i++) {
            source.segment().setAtIndex(ValueLayout.JAVA_LONG, i, tag + i);
            receives[i] = to.tryReceive(tag + i, target, (BATCH + i) * 8L, 8);
            sends[i] = by.trySend(tag + i, source, i * 8L, 8);
        }
        for (int i = 0; i < BATCH; i++) {
            int sent = Connection.PENDING;
            int received = Connection.PENDING;
            while (sent == Connection.PENDING || received == Connection.PENDING) {
                sent = sent == Connection.PENDING ? by.poll(sends[i]) : sent;
                received = received == Connection.PENDING ? to.poll(receives[i]) : received;
            }
            if (sent != Connection.DONE
                    || received != Connection.DONE
                    || target.segment().getAtIndex(ValueLayout.JAVA_LONG, BATCH + i) != tag + i) {
                throw new AssertionError("tag %d: %d, %d".formatted(tag + i, sent, received));
            }
        }
    }

    /// What both programs need of each other.
    private static final class End {
        final AtomicReference<EndpointAddress> address = new AtomicReference<>();
        final AtomicReference<Connection> connection = new AtomicReference<>();
        int rounds;
        boolean over;
    }

    private static final int ROUNDS = 200;

    private final End left = new End();
    private final End right = new End();

    /// Both sides use two tags now and then, with nothing kept, while lanes die: each message meets
    /// the receive that it is meant for, whatever is forgotten in between.
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void aTagBeginsAnewForBothSides(long seed) {
        try (Simulation simulation = new Simulation(seed)) {
            SimHost a = simulation.host("left");
            SimHost b = simulation.host("right");
            SimLink link =
                    simulation.link(
                            a,
                            b,
                            LinkOptions.DEFAULTS
                                    .withLatency(Duration.ofNanos(500_000))
                                    .withLanes(4));
            a.start("left", () -> play(simulation, a, left, right, false));
            b.start("right", () -> play(simulation, b, right, left, true));
            for (int lane = 0; lane < 3; lane++) {
                int dies = lane;
                simulation.after(Duration.ofMillis(60 + 90 * lane), () -> link.reset(dies));
            }
            simulation.run();
        }
    }

    private static void play(
            Simulation simulation, SimHost host, End own, End other, boolean connects) {
        try (Endpoint endpoint = host.open(EndpointOptions.DEFAULTS)) {
            own.address.set(endpoint.address());
            simulation.await(() -> other.address.get() != null, SHORT);
            Connection peer =
                    connects
                            ? endpoint.connect(other.address.get(), SHORT)
                            : endpoint.accept(SHORT);
            Leftovers.keepTags(peer, 0);
            own.connection.set(peer);
            simulation.await(() -> other.connection.get() != null, SHORT);
            simulation.sleep(Duration.ofMillis(20)); // until the other lanes have joined
            MemoryRegion memory = endpoint.allocate(64 << 10);
            int forgotten = 0;
            for (int round = 1; round <= ROUNDS; round++) {
                long tag = round % 5 == 0 ? 1 : 0;
                int length = round % 3 == 0 ? 10_000 : 8;
                memory.segment().set(ValueLayout.JAVA_LONG, 0, round);
                Transfer receive = peer.receive(tag, memory.slice(16 << 10, length));
                if (round % 7 == 0) { // one more, which nothing meets
                    Transfer withdrawn = peer.receive(2, memory.slice(32 << 10, length));
                    withdrawn.cancel();
                    assertThat(withdrawn.await(Duration.ofSeconds(5))).isTrue();
                }
                Transfer send = peer.send(tag, memory.slice(0, length));
                assertThat(receive.await(Duration.ofSeconds(5))).as("receive %d", round).isTrue();
                assertThat(send.await(Duration.ofSeconds(5))).as("send %d", round).isTrue();
                assertThat(receive.state()).isEqualTo(TransferState.DONE);
                assertThat(send.state()).isEqualTo(TransferState.DONE);
                assertThat(memory.segment().get(ValueLayout.JAVA_LONG, 16 << 10)).isEqualTo(round);
                simulation.sleep(Duration.ofNanos(simulation.random().nextLong(3_000_000)));
                forgotten += Leftovers.tags(peer) == 0 ? 1 : 0;
            }
            assertThat(forgotten).isPositive();
            own.rounds = ROUNDS;
            simulation.await(() -> other.rounds == ROUNDS, SHORT);
            simulation.sleep(Duration.ofSeconds(2));
            assertThat(Leftovers.between(peer, other.connection.get())).isEmpty();
            own.over = true;
            simulation.await(() -> other.over, SHORT);
        }
    }

    @Test
    void aReceiveIntoAClosedRegionTakesNoPosition() {
        try (Simulation simulation = new Simulation(1)) {
            SimHost a = simulation.host("left");
            SimHost b = simulation.host("right");
            simulation.link(a, b, LinkOptions.DEFAULTS);
            a.start(
                    "left",
                    () -> {
                        try (Endpoint endpoint = a.open(EndpointOptions.DEFAULTS)) {
                            left.address.set(endpoint.address());
                            Connection peer = endpoint.accept(SHORT);
                            MemoryRegion closed = endpoint.allocate(64);
                            MemoryRegion open = endpoint.allocate(64);
                            closed.close();
                            Transfer stale = peer.receive(1, closed.slice(0, 8));
                            assertThat(stale.await(SHORT)).isTrue();
                            assertThat(stale.state()).isEqualTo(TransferState.FAILED);
                            simulation.sleep(Duration.ofMillis(10));
                            left.over = true;
                            Transfer receive = peer.receive(1, open.slice(0, 8));
                            assertThat(receive.await(SHORT)).isTrue();
                            assertThat(receive.state()).isEqualTo(TransferState.DONE);
                        }
                    });
            b.start(
                    "right",
                    () -> {
                        simulation.await(() -> left.address.get() != null, SHORT);
                        try (Endpoint endpoint = b.open(EndpointOptions.DEFAULTS)) {
                            Connection peer = endpoint.connect(left.address.get(), SHORT);
                            simulation.await(() -> left.over, SHORT);
                            MemoryRegion memory = endpoint.allocate(64);
                            Transfer send = peer.send(1, memory.slice(0, 8));
                            assertThat(send.await(SHORT)).isTrue();
                            assertThat(send.state()).isEqualTo(TransferState.DONE);
                        }
                    });
            simulation.run();
        }
    }
}
