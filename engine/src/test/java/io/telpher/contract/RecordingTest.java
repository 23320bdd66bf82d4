package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What Flight Recorder is told.
class RecordingTest {
    @TempDir Path folder;

    @Test
    void eventsTellALife() throws IOException {
        Map<String, List<RecordedEvent>> events;
        try (Recording recording = new Recording()) {
            recording.start();
            live();
            recording.stop();
            Path file = folder.resolve("life.jfr");
            recording.dump(file);
            events =
                    RecordingFile.readAllEvents(file).stream()
                            .filter(e -> e.getEventType().getName().startsWith("io.telpher."))
                            .collect(Collectors.groupingBy(e -> e.getEventType().getName()));
        }
        assertThat(events.keySet())
                .containsExactlyInAnyOrder(
                        "io.telpher.ConnectFailed",
                        "io.telpher.ConnectionEnded",
                        "io.telpher.ConnectionOpened",
                        "io.telpher.LaneAdded",
                        "io.telpher.LaneDied",
                        "io.telpher.PathChosen",
                        "io.telpher.PathRejected",
                        "io.telpher.RegionClosed",
                        "io.telpher.RegionRegistered",
                        "io.telpher.SlowTransfer",
                        "io.telpher.TransferFailed");
        RecordedEvent slow = // others may be slow too, where the machine has much to do
                events.get("io.telpher.SlowTransfer").stream()
                        .filter(e -> e.getString("operation").equals("send"))
                        .findFirst()
                        .orElseThrow();
        assertThat(slow.getLong("length")).isEqualTo(100_000);
        assertThat(slow.getDuration("time")).isGreaterThan(Duration.ofMillis(150));
        assertThat(slow.getStackTrace()).isNull();
        RecordedEvent failed = events.get("io.telpher.TransferFailed").getFirst();
        assertThat(failed.getString("reason")).isEqualTo("STALE");
        assertThat(failed.getString("message")).contains("write of 8 bytes");
        assertThat(events.get("io.telpher.RegionRegistered"))
                .anyMatch(e -> e.getLong("size") == 100_000 && e.getBoolean("mappable"));
        assertThat(events.get("io.telpher.ConnectionEnded"))
                .anyMatch(e -> e.getBoolean("closed"))
                .anyMatch(e -> !e.getBoolean("closed"));
        assertThat(events.get("io.telpher.PathChosen"))
                .anyMatch(e -> e.getString("path").contains("mapped to region"));
        assertThat(events.get("io.telpher.ConnectFailed").getFirst().getString("attempts"))
                .isNotEmpty();
        // Both sides name a connection in the same way.
        Set<String> numbers =
                events.get("io.telpher.ConnectionOpened").stream()
                        .map(e -> e.getString("connection"))
                        .collect(Collectors.toSet());
        assertThat(events.get("io.telpher.ConnectionOpened")).hasSize(3);
        assertThat(numbers).hasSize(2);
    }

    /// To load an event has all of Flight Recorder at work, and the start of an endpoint would pay.
    @Test
    void eventsAreLoadedWhenSomebodyRecords() throws IOException {
        Path loaded = folder.resolve("loaded");
        try (PeerProcess peer =
                PeerProcess.start(List.of("-Xlog:class+load:file=" + loaded), Map.of())) {
            peer.tell(self -> connectOnce());
            assertThat(Files.readString(loaded))
                    .contains("io.telpher.internal.engine.Events ")
                    .doesNotContain("io.telpher.internal.engine.Recordings");
            String file = folder.resolve("later.jfr").toString();
            peer.tell(
                    self -> {
                        try (Recording recording = new Recording()) {
                            recording.start();
                            connectOnce();
                            recording.dump(Path.of(file));
                        }
                    });
            assertThat(RecordingFile.readAllEvents(Path.of(file)))
                    .anyMatch(
                            e -> e.getEventType().getName().equals("io.telpher.ConnectionOpened"));
        }
    }

    private static void connectOnce() {
        try (Couple couple = Couple.open(TestPath.SELF).connect()) {
            couple.checkWorks();
        }
    }

    private static void live() {
        try (Couple couple =
                Couple.open(
                                o ->
                                        TestPath.MAPPED
                                                .restrict(o)
                                                .withSlowTransfer(Duration.ofMillis(150)))
                        .connect()) {
            Participant here = couple.here();
            here.add("from", Kind.TELPHER, 100_000);
            RemoteMemory target = couple.there().add("to", Kind.TELPHER, 100_000);
            RemoteMemory other = couple.there().add("other", Kind.FOREIGN, 100_000);
            here.write("from", 0, 8, target).assertDone(8);
            here.write("from", 0, 8, other).assertDone(8);
            Transfer send = here.connection().send(1, here.region("from").all());
            assertThat(send.await(Duration.ofMillis(500))).isFalse();
            couple.there()
                    .tell(
                            self ->
                                    Outcome.of(
                                                    self.connection()
                                                            .receive(1, self.region("to").all()))
                                            .assertDone(100_000));
            assertThat(Outcome.of(send).state()).isEqualTo(TransferState.DONE);
            assertThat(here.connection().metrics().slowTransfers()).isPositive();
            assertThat(here.endpoint().metrics().totals().slowTransfers()).isPositive();
            couple.there().tell(self -> self.closeRegion("to"));
            assertThat(here.write("from", 0, 8, target).state()).isEqualTo(TransferState.FAILED);
            here.closeConnection();
        }
        try (PeerProcess peer = PeerProcess.start();
                Participant here = new Participant()) {
            peer.openWith(here, TestPath.TCP::restrict);
            byte[] gone = peer.run(self -> self.endpoint().address().toBytes());
            peer.kill();
            while (here.connection().isOpen()) {
                here.connection().poll();
            }
            assertThat(Outcome.failure(() -> connectAgain(here, gone))).isNotNull();
        }
    }

    private static Transfer connectAgain(Participant here, byte[] address) {
        here.connect(address);
        return here.connection().notifyPeer(null, TransferOptions.DEFAULTS);
    }
}
