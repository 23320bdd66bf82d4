package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteQuiet;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/// Receives that end while their sender stands still, at every place where it can: before it
/// stores, in the middle of a slice, between two of them, when it has stored.
class AdvertTest {
    private static final Duration SHORT = Duration.ofSeconds(10);
    private static final int SIZE = 64 << 10;
    private static final int SLICE = 4 << 10;
    private static final int SEEDS = 200;
    private static final byte OURS = 0x77;
    private static final byte THEIRS = 0x11;

    private final AtomicInteger sure = new AtomicInteger();
    private final AtomicInteger unsure = new AtomicInteger();

    @Test
    void whatItsOwnerPutsIntoAnEndedReceiveStays() {
        for (int seed = 1; seed <= SEEDS; seed++) {
            run(seed);
        }
        assertThat(sure.get()).as("receives that nobody was storing into").isPositive();
        assertThat(unsure.get()).as("receives whose sender was in a slice").isPositive();
    }

    private void run(int seed) {
        try (Neighbours hosts = new Neighbours(seed)) {
            hosts.simulation.load(1);
            hosts.accept(
                    hosts.left,
                    endpoint -> {},
                    (endpoint, peer) ->
                            receive(
                                    hosts.simulation,
                                    hosts.right,
                                    endpoint.allocate(SIZE),
                                    peer,
                                    seed));
            hosts.connect(
                    hosts.right,
                    (endpoint, peer) -> {
                        MemoryRegion own = endpoint.allocate(SIZE);
                        own.segment().fill(THEIRS);
                        while (peer.isOpen()) {
                            assertThat(peer.send(1, own.all()).await(SHORT)).isTrue();
                        }
                    });
            hosts.run();
        }
    }

    private void receive(
            Simulation simulation, SimHost right, MemoryRegion region, Connection peer, int seed) {
        MemorySegment memory = region.segment();
        Transfer receive =
                peer.receive(
                        1,
                        MemorySlices.of(region.all()),
                        TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(100)));
        if (seed % 4 > 0) {
            simulation.await(
                    () -> memory.get(ValueLayout.JAVA_BYTE, 0) != 0 || receive.state().isTerminal(),
                    SHORT);
        }
        simulation.sleep(Duration.ofNanos(1 + simulation.random().nextInt(100_000)));
        right.pause();
        boolean close = seed % 3 == 0;
        if (close) {
            peer.close();
        }
        assertThat(receive.await(SHORT)).as("seed %d: ended", seed).isTrue();
        if (receive.state() != TransferState.DONE) {
            boolean quiet = receive.remoteQuiet() == RemoteQuiet.YES;
            (quiet ? sure : unsure).incrementAndGet();
            memory.fill(OURS);
            right.resume();
            simulation.sleep(Duration.ofSeconds(1));
            int changed = 0;
            for (int i = 0; i < SIZE; i++) {
                changed += memory.get(ValueLayout.JAVA_BYTE, i) == OURS ? 0 : 1;
            }
            assertThat(changed)
                    .as("seed %d: bytes that came late", seed)
                    .isLessThanOrEqualTo(quiet ? 0 : SLICE);
        } else {
            right.resume();
        }
        if (!close) {
            Transfer next = peer.receive(1, region.all());
            assertThat(next.await(SHORT)).as("seed %d: the next one ended", seed).isTrue();
            assertThat(next.state()).isEqualTo(TransferState.DONE);
            assertThat(memory.get(ValueLayout.JAVA_BYTE, SIZE - 1)).isEqualTo(THEIRS);
        }
    }
}
