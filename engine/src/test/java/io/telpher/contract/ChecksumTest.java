package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// The option `checksums`: what was changed on its way is never taken for what was sent.
class ChecksumTest {
    private static final byte[] SECRET = "0123456789abcdef".getBytes(US_ASCII);
    private static final int SIZE = 8 << 20;

    private static final int FLIPPED = 13;

    /// Far behind the handshakes.
    private static final int SOON = 100_000;

    private static Couple open(
            int port, boolean here, boolean there, Duration deadline, int sockets) {
        Participant.Tweak options =
                o ->
                        TestPath.TCP
                                .restrict(o)
                                .withSecret(SECRET)
                                .withLanes(1)
                                .withMaxSockets(sockets)
                                .withDeadline(deadline);
        return Couple.open(
                o -> options.apply(o).withChecksums(here),
                o -> options.apply(o).withPort(port).withChecksums(there));
    }

    private static byte[] address(StreamProxy proxy) {
        return EndpointAddress.of("127.0.0.1", proxy.port(), SECRET).toBytes();
    }

    @ParameterizedTest
    @EnumSource(names = {"RING", "TCP"})
    void everythingWorksAsBefore(TestPath path) {
        try (Couple couple =
                Couple.open(o -> path.restrict(o).withChecksums(true), path::restrict)) {
            couple.connect();
            // One side's wish is enough, and both know of it.
            assertThat(couple.here().connection().explain()).contains("checked by CRC32C");
            String theirs = couple.there().run(self -> self.connection().explain());
            assertThat(theirs).contains("checked by CRC32C");
            Random random = Scale.random("checksums");
            couple.here().add("a", Kind.FOREIGN, SIZE);
            RemoteMemory target = couple.there().add("b", Kind.FOREIGN, SIZE);
            for (int i = 0; i < 20; i++) {
                int length = i == 0 ? SIZE : Scale.size(random, 0, 300_000);
                couple.here().fill("a", 0, length, i);
                couple.here().write("a", 0, length, target.slice(0, length)).assertDone(length);
                couple.there().check("b", 0, length, i);
                Outcome.of(couple.here().connection().notifyPeer(Bytes.off(length % 20_000, i)))
                        .assertDone(0);
                couple.there().tell(self -> self.connection().awaitNotification(Participant.LIMIT));
            }
            couple.checkWorks();
            assertThat(couple.here().connection().metrics().checksumFailures()).isZero();
        }
    }

    /// One write through a proxy that changes a bit of every few KiB.
    private static Outcome writeGarbled(boolean checksums, Couple[] used) throws IOException {
        int port = Ports.free();
        Couple couple = open(port, checksums, false, Duration.ofSeconds(5), 1);
        used[0] = couple;
        try (StreamProxy proxy = StreamProxy.to(port)) {
            proxy.inject(StreamProxy.Fault.FLIP, SOON, Scale.random("flips").nextLong());
            couple.connect(address(proxy));
            couple.here().add("a", Kind.FOREIGN, SIZE);
            couple.here().fill("a", 0, SIZE, 1);
            RemoteMemory target = couple.there().add("b", Kind.FOREIGN, SIZE);
            return couple.here().write("a", 0, SIZE, target);
        }
    }

    @Test
    void aFlippedBitEndsTheLaneAndIsCounted() throws IOException {
        Couple[] used = new Couple[1];
        Outcome outcome = writeGarbled(true, used);
        try (Couple couple = used[0]) {
            assertThat(outcome.state()).isNotEqualTo(TransferState.DONE);
            long counted =
                    couple.there().run(self -> self.connection().metrics().checksumFailures());
            assertThat(counted).isEqualTo(1);
            long inAll =
                    couple.there()
                            .run(self -> self.endpoint().metrics().totals().checksumFailures());
            assertThat(inAll).as("the connection has ended, and still counts").isEqualTo(1);
            String theirs = couple.there().run(self -> self.connection().explain());
            assertThat(theirs).contains("came with the CRC32C");
        }
    }

    /// What the checksum is for: TCP's own sum does not see this, since the proxy makes a new one.
    @Test
    void withoutChecksumsAFlippedBitGoesUnnoticed() throws IOException {
        Couple[] used = new Couple[1];
        Outcome outcome = writeGarbled(false, used);
        try (Couple couple = used[0]) {
            boolean wrong =
                    couple.there()
                            .run(
                                    self ->
                                            Bytes.off(SIZE, 1).mismatch(self.segment("b")) != -1
                                                    && self.connection()
                                                                    .metrics()
                                                                    .checksumFailures()
                                                            == 0);
            assertThat(wrong).as("%s, and the bytes are right", outcome).isTrue();
        }
    }

    /// A payload changes while it lies in the ring and the peer stands still.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aBitThatFlipsInTheRing(boolean checksums) throws IOException {
        int size = 10_000;
        try (Participant here = new Participant();
                PeerProcess peer = PeerProcess.start()) {
            peer.openWith(here, o -> TestPath.RING.restrict(o).withChecksums(checksums));
            here.add("a", Kind.FOREIGN, size);
            here.fill("a", 0, size, 1);
            RemoteMemory target = peer.add("b", Kind.FOREIGN, size);
            peer.stop();
            Transfer write = here.connection().write(here.region("a").all(), target);
            flipInRing(here.segment("a").asSlice(0, 64));
            peer.go();
            Outcome outcome = Outcome.of(write);
            long counted = peer.run(self -> self.connection().metrics().checksumFailures());
            if (checksums) {
                assertThat(outcome.state()).isNotEqualTo(TransferState.DONE);
                assertThat(counted).isEqualTo(1);
                peer.tell(self -> Content.checkAll(self.segment("b"), 0, size, (byte) 0));
            } else {
                // What the checksum is for.
                outcome.assertDone(size);
                assertThat(counted).isZero();
                long wrong = peer.run(self -> Content.mismatch(self.segment("b"), 0, size, 1, 0));
                assertThat(wrong).isEqualTo(FLIPPED);
            }
        }
    }

    @SuppressWarnings("restricted") // the rings are nobody's business but the transport's
    private static void flipInRing(MemorySegment payload) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
            if (!line.contains("/memfd:telpher-ring ")) {
                continue;
            }
            String[] range = line.split("[- ]");
            long from = HexFormat.fromHexDigitsToLong(range[0]);
            long size = HexFormat.fromHexDigitsToLong(range[1]) - from;
            MemorySegment ring = MemorySegment.ofAddress(from).reinterpret(size);
            for (long at = 0; at + payload.byteSize() <= size; at += payload.byteSize()) {
                if (ring.asSlice(at, payload.byteSize()).mismatch(payload) == -1) {
                    byte old = ring.get(Bytes.BYTE, at + FLIPPED);
                    ring.set(Bytes.BYTE, at + FLIPPED, (byte) (old ^ 0x10));
                    return;
                }
            }
        }
        throw new AssertionError("the payload is in no ring");
    }

    @Test
    void whatADamagedLaneCarriedGoesByTheOthers() throws IOException {
        int port = Ports.free();
        try (Couple couple = open(port, false, true, Participant.LIMIT, 3);
                StreamProxy proxy = StreamProxy.to(port)) {
            proxy.injectInto(1, StreamProxy.Fault.FLIP, SOON, Scale.random("flips").nextLong());
            couple.connect(address(proxy));
            couple.here().add("a", Kind.FOREIGN, SIZE);
            couple.here().fill("a", 0, SIZE, 1);
            RemoteMemory target = couple.there().add("b", Kind.FOREIGN, SIZE);
            couple.here().write("a", 0, SIZE, target).assertDone(SIZE);
            couple.there().check("b", 0, SIZE, 1);
            long counted =
                    couple.there().run(self -> self.connection().metrics().checksumFailures())
                            + couple.here().connection().metrics().checksumFailures();
            assertThat(counted).isBetween(1L, 2L); // both directions are harmed
            assertThat(couple.here().connection().metrics().resends()).isPositive();
            assertThat(couple.here().endpoint().metrics().totals().resends()).isPositive();
            couple.checkWorks();
        }
    }

    @Test
    void aPeerThatDoesNotKnowThemIsServedWithout() throws IOException {
        int port = Ports.free();
        try (Endpoint endpoint =
                        Endpoint.open(
                                EndpointOptions.DEFAULTS
                                        .withTransports(List.of("tcp"))
                                        .withPort(port)
                                        .withSecret(RecordWire.SECRET)
                                        .withChecksums(true));
                FrozenPeer peer = FrozenPeer.dial(port, FrozenPeer.recording(1), false, 0)) {
            var connection = endpoint.accept(Participant.LIMIT);
            assertThat(connection.explain())
                    .contains("no checksums, though wanted")
                    .doesNotContain("checked by");
            peer.send(FrozenPeer.recording(1).get("PING"));
            assertThat(peer.await(36).type()).isEqualTo(36);
        }
    }
}
