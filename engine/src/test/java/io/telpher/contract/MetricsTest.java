package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.internal.observe.MetricsReader;
import io.telpher.internal.observe.Snapshot;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Counters, as the program itself and as other processes see them.
class MetricsTest {
    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_NONE, names = "CUDA_.*")
    void countersSayWhatWasDone(TestPath path) {
        try (Couple couple = Couple.open(path).connect()) {
            Participant here = couple.here();
            here.add("from", Kind.TELPHER, 4 << 20);
            RemoteMemory target = couple.there().add("to", Kind.TELPHER, 4 << 20);
            ConnectionMetrics before = here.connection().metrics();
            for (int i = 0; i < 100; i++) {
                here.write("from", 0, 8, target).assertDone(8);
            }
            here.write("from", 0, 4 << 20, target).assertDone(4 << 20);
            Outcome.of(here.connection().read(here.slice("from", 0, 1000), target.slice(0, 1000)))
                    .assertDone(1000);
            here.connection()
                    .notifyPeer(MemorySegment.ofArray(new byte[10]), TransferOptions.DEFAULTS)
                    .await(Participant.LIMIT);
            couple.there().tell(self -> self.connection().awaitNotification(Participant.LIMIT));
            couple.there().tell(self -> self.closeRegion("to"));
            assertThat(here.write("from", 0, 8, target).error()).isNotNull();

            ConnectionMetrics after = here.connection().metrics();
            assertThat(after.transfersDone() - before.transfersDone()).isEqualTo(103);
            assertThat(after.failures().stale()).isEqualTo(1);
            assertThat(after.transfersFailed()).isEqualTo(1);
            assertThat(after.notificationsSent()).isEqualTo(1);
            assertThat(after.slowTransfers()).isZero();
            assertThat(after.bytesSent() - before.bytesSent())
                    .isGreaterThanOrEqualTo(800 + (4 << 20));
            assertThat(after.bytesReceived() - before.bytesReceived()).isGreaterThanOrEqualTo(1000);
            assertThat(after.paths())
                    .filteredOn(p -> p.name().equals(path.path()))
                    .singleElement()
                    .satisfies(
                            p -> {
                                // The notification takes a lane where there are windows.
                                assertThat(p.transfersDone()).isGreaterThanOrEqualTo(102);
                                assertThat(p.bytesSent()).isGreaterThanOrEqualTo(800 + (4 << 20));
                                assertThat(p.bytesReceived()).isGreaterThanOrEqualTo(1000);
                            });
            ConnectionMetrics theirs =
                    couple.there().participant().endpoint().metrics().connections().getFirst();
            assertThat(theirs.notificationsReceived()).isEqualTo(1);
            assertThat(theirs.id()).isEqualTo(after.id());
            if (path == TestPath.TCP) {
                assertThat(after.lanes()).allMatch(lane -> lane.roundTripNanos() > 0);
            }
        }
    }

    /// What is short never stands behind bulk: that goes over all lanes but the first.
    @Test
    void theFirstLaneCarriesWhatIsShortAlone() {
        try (Couple couple = Couple.open(TestPath.TCP).connect()) {
            Participant here = couple.here();
            int size = 32 << 20;
            here.add("from", Kind.FOREIGN, size);
            RemoteMemory target = couple.there().add("to", Kind.FOREIGN, size);
            List<ConnectionMetrics.Lane> before =
                    await(() -> here.connection().metrics().lanes(), lanes -> lanes.size() > 1);
            here.write("from", 0, size, target).assertDone(size);
            here.write("from", 0, 60_000, target).assertDone(60_000);
            List<ConnectionMetrics.Lane> after = here.connection().metrics().lanes();
            assertThat(after).allMatch(ConnectionMetrics.Lane::alive);
            assertThat(after.getFirst().bytesSent() - before.getFirst().bytesSent())
                    .isEqualTo(60_000);
            assertThat(after.stream().skip(1).mapToLong(ConnectionMetrics.Lane::bytesSent).sum())
                    .isEqualTo(size);
        }
    }

    @Test
    void whatEndedStaysInTheTotals() {
        try (Couple couple = Couple.open(TestPath.TCP).connect()) {
            Participant here = couple.here();
            here.add("from", Kind.TELPHER, 100_000);
            RemoteMemory target = couple.there().add("to", Kind.TELPHER, 100_000);
            here.write("from", 0, 100_000, target).assertDone(100_000);
            EndpointMetrics open = here.endpoint().metrics();
            assertThat(open.connections()).hasSize(1);
            assertThat(open.regions()).isEqualTo(1);
            assertThat(open.regionBytes()).isEqualTo(100_000);
            assertThat(open.sharedBytes()).isEqualTo(100_000);
            here.closeConnection();
            EndpointMetrics closed = here.endpoint().metrics();
            assertThat(closed.connections()).isEmpty();
            assertThat(closed.connectionsOpened()).isEqualTo(1);
            assertThat(closed.connectionsClosed()).isEqualTo(1);
            assertThat(closed.connectionsLost()).isZero();
            assertThat(closed.totals().transfersDone())
                    .isEqualTo(open.totals().transfersDone())
                    .isPositive();
            assertThat(closed.totals().bytesSent()).isGreaterThanOrEqualTo(100_000);
            here.closeRegion("from");
            assertThat(here.endpoint().metrics().regionBytes()).isZero();
            // The peer was told goodbye: that is no loss.
            await(
                    () -> couple.there().participant().endpoint().metrics(),
                    m -> m.connectionsClosed() == 1 && m.connectionsLost() == 0);
        }
    }

    /// Every number only grows, and no transfer is counted before it was posted.
    @ParameterizedTest
    @EnumSource(
            value = TestPath.class,
            names = {"MAPPED", "RING", "TCP"})
    void snapshotsAreConsistentUnderLoad(TestPath path) {
        try (Couple couple = Couple.open(path).connect()) {
            Participant here = couple.here();
            here.add("from", Kind.TELPHER, 4096);
            RemoteMemory target = couple.there().add("to", Kind.TELPHER, 4096);
            AtomicBoolean stop = new AtomicBoolean();
            AtomicLong posted = new AtomicLong();
            CompletableFuture<Long> load =
                    CompletableFuture.supplyAsync(
                            () -> {
                                Transfer write =
                                        here.connection()
                                                .prepareWrite(
                                                        here.slice("from", 0, 8),
                                                        target,
                                                        TransferOptions.DEFAULTS);
                                while (!stop.get()) {
                                    posted.incrementAndGet();
                                    write.post();
                                    write.await();
                                }
                                return posted.get();
                            });
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(400);
            EndpointMetrics.Totals before = EndpointMetrics.Totals.NONE;
            while (System.nanoTime() < end) {
                EndpointMetrics.Totals now = here.endpoint().metrics().totals();
                assertThat(now.transfersDone())
                        .isGreaterThanOrEqualTo(before.transfersDone())
                        .isLessThanOrEqualTo(posted.get());
                assertThat(now.bytesSent()).isGreaterThanOrEqualTo(before.bytesSent());
                assertThat(now.failures().total()).isZero();
                before = now;
            }
            stop.set(true);
            long all = Peer.result(load);
            assertThat(here.endpoint().metrics().totals().transfersDone()).isEqualTo(all);
        }
    }

    @Test
    void anotherProcessSeesTheCounters() throws IOException {
        PeerProcess peer = PeerProcess.start();
        try {
            Participant here = new Participant();
            try {
                here.open(o -> TestPath.RING.restrict(o).withMetrics(false));
                peer.tell(self -> self.open(TestPath.RING::restrict));
                peer.acceptFrom(here);
                here.add("from", Kind.TELPHER, 100_000);
                RemoteMemory target = peer.add("to", Kind.TELPHER, 100_000);
                here.write("from", 0, 100_000, target).assertDone(100_000);
                Snapshot seen =
                        await(
                                () -> read(peer.pid()),
                                s -> s.endpoints().getFirst().totals().bytesReceived() >= 100_000);
                EndpointMetrics endpoint = seen.endpoints().getFirst();
                assertThat(endpoint.regionBytes()).isEqualTo(100_000);
                assertThat(endpoint.connections()).hasSize(1);
                assertThat(endpoint.connections().getFirst().id())
                        .isEqualTo(here.connection().metrics().id());
                assertThat(MetricsReader.processes()).contains(peer.pid());

                // A stopped process is seen as it was, without waiting for it.
                peer.stop();
                long sequence = read(peer.pid()).sequence();
                assertThat(read(peer.pid()).sequence()).isEqualTo(sequence);
                peer.go();
                await(() -> read(peer.pid()), s -> s.sequence() > sequence);

                peer.kill();
                assertThatThrownBy(() -> MetricsReader.read(peer.pid()))
                        .isInstanceOf(MetricsReader.Gone.class)
                        .hasMessageContaining("no process " + peer.pid());
                assertThat(MetricsReader.processes()).doesNotContain(peer.pid());
                await(
                        () -> here.endpoint().metrics(),
                        m -> m.connectionsLost() == 1 && m.connectionsClosed() == 0);
            } finally {
                here.close();
            }
        } finally {
            peer.abandon();
        }
    }

    @Test
    void whoDoesNotPublishSaysWhy() {
        try (PeerProcess peer = PeerProcess.start()) {
            peer.run(self -> self.open(o -> o.withMetrics(false)));
            assertThatThrownBy(() -> MetricsReader.read(peer.pid()))
                    .isInstanceOf(MetricsReader.Unreadable.class)
                    .hasMessageContaining("TELPHER_METRICS=false");
        }
    }

    /// A callback that throws is the loudest thing that happens in daily life.
    @Test
    void nothingIsPrintedUntilTheLogIsAskedFor(@TempDir Path folder) throws IOException {
        assertThat(errorsOfABadCallback(List.of())).isEmpty();
        Path file = folder.resolve("logging.properties");
        Files.writeString(
                file,
                """
                handlers=java.util.logging.ConsoleHandler
                java.util.logging.ConsoleHandler.level=ALL
                io.telpher.level=FINE
                """);
        assertThat(errorsOfABadCallback(List.of("-Djava.util.logging.config.file=" + file)))
                .contains("a callback failed")
                .contains("from the test");
    }

    /// A class path may be run by a runtime that has no recordings.
    @Test
    void theEngineWorksWithoutTheModule() {
        try (PeerProcess peer =
                PeerProcess.start(List.of("--limit-modules", "java.base,java.logging"), Map.of())) {
            boolean there = peer.run(self -> ModuleLayer.boot().findModule("jdk.jfr").isPresent());
            assertThat(there).isFalse();
            peer.tell(
                    self -> {
                        try (Couple couple = Couple.open(TestPath.SELF).connect()) {
                            couple.checkWorks();
                        }
                    });
        }
    }

    private static String errorsOfABadCallback(List<String> flags) {
        PeerProcess peer = PeerProcess.start(flags, Map.of());
        try {
            peer.tell(
                    self -> {
                        try (Couple couple = Couple.open(o -> o).connect()) {
                            couple.here().add("in", Kind.TELPHER, 100);
                            Transfer receive =
                                    couple.here()
                                            .connection()
                                            .receive(1, couple.here().region("in").all());
                            receive.onEnd(t -> fail());
                            couple.there()
                                    .run(
                                            there ->
                                                    Outcome.of(
                                                            there.connection()
                                                                    .send(
                                                                            1,
                                                                            there.add(
                                                                                            "out",
                                                                                            Kind
                                                                                                    .TELPHER,
                                                                                            100)
                                                                                    .all())));
                            Outcome.of(receive).assertDone(100);
                        }
                    });
        } finally {
            peer.kill();
        }
        return peer.errors();
    }

    private static void fail() {
        throw new IllegalStateException("from the test");
    }

    private static Snapshot read(long pid) {
        try {
            return MetricsReader.read(pid).getFirst();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static <T> T await(java.util.function.Supplier<T> look, Predicate<T> good) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (true) {
            T seen = look.get();
            if (good.test(seen)) {
                return seen;
            }
            assertThat(System.nanoTime()).as("time to see it, last %s", seen).isLessThan(end);
            java.util.concurrent.locks.LockSupport.parkNanos(10_000_000);
        }
    }
}
