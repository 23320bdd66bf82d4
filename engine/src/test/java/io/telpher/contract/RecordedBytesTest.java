package io.telpher.contract;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.wire.Frame;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// What earlier versions said is understood by this one: their recorded handshakes and frames are
/// replayed by a [FrozenPeer], and each frame must have its effect. Only what belongs to the
/// conversation is filled in: region names, keys, tokens and sequence numbers.
class RecordedBytesTest extends Replay {
    private static final Map<String, byte[]> RECORDED = FrozenPeer.recording(1);
    private static final int PEERS_TOKEN = 77;

    private MemoryRegion region;

    RecordedBytesTest() {
        super(RECORDED, 0);
    }

    @BeforeEach
    void allocate() {
        region = endpoint.allocate(RecordWire.REGION);
    }

    static List<String> frames() {
        return RECORDED.entrySet().stream()
                .filter(entry -> entry.getValue().length >= 64 && entry.getValue()[0] < 'A')
                .map(Map.Entry::getKey)
                .filter(name -> !name.matches("(WELCOME|PROOF).*"))
                .toList();
    }

    @Test
    void everyKindOfFrameWasRecorded() {
        List<Integer> types =
                frames().stream().map(name -> (int) RECORDED.get(name)[0]).distinct().toList();
        for (int type = Frame.NOP; type <= Frame.KNOWN; type++) {
            assertThat(types).contains(type);
        }
        for (int type = Frame.APPLIED; type <= Frame.PONG; type++) {
            assertThat(types).contains(type);
        }
    }

    @Test
    void theRecordedProofsAreWhatTheFrozenCodeMakesOfTheRest() {
        for (String suffix : List.of("", "_JOIN")) {
            byte[] transcript =
                    FrozenPeer.join(
                            RECORDED.get("HELLO" + suffix), RECORDED.get("CHALLENGE" + suffix));
            byte[] proof = RECORDED.get("PROOF" + suffix);
            byte[] address = Arrays.copyOfRange(proof, 36, proof.length);
            assertThat(Arrays.copyOf(proof, 32))
                    .isEqualTo(FrozenPeer.mac(RecordWire.SECRET, "initiator", transcript, address));
            byte[] welcome = RECORDED.get("WELCOME" + suffix);
            assertThat(Arrays.copyOfRange(welcome, 4, 36))
                    .isEqualTo(
                            FrozenPeer.mac(
                                    RecordWire.SECRET,
                                    "acceptor0",
                                    transcript,
                                    Arrays.copyOfRange(welcome, 40, welcome.length)));
        }
    }

    @Test
    void aPeerThatOffersEverythingIsTakenAtWhatBothKnow() throws IOException {
        peer.close();
        Map<String, byte[]> other = new java.util.HashMap<>(RECORDED);
        byte[] hello = RECORDED.get("HELLO").clone();
        hello[24]++; // another connection
        other.put("HELLO", hello);
        long unknown = 0x7fff_ffff_ffff_0000L;
        peer = FrozenPeer.dial(port, other, false, unknown);
        connection = endpoint.accept(LIMIT);
        assertThat(peer.offered & unknown).as("bits that only the peer knows").isZero();
        peer.send(at(region("WRITE"), 0));
        checkTakenIn();
        assertThat(bytes(0, 100)).isEqualTo(payload("WRITE"));
    }

    /// Its first bytes say that it speaks version 1 too.
    @Test
    void aLaterVersionIsTakenAtThisOne() throws IOException {
        peer.close();
        Map<String, byte[]> later = new java.util.HashMap<>(RECORDED);
        byte[] hello = RECORDED.get("HELLO").clone();
        hello[4] = 2;
        hello[24]++; // another connection
        later.put("HELLO", hello);
        peer = FrozenPeer.dial(port, later, false, 0);
        connection = endpoint.accept(LIMIT);
        peer.send(at(region("WRITE"), 0));
        checkTakenIn();
        assertThat(bytes(0, 100)).isEqualTo(payload("WRITE"));
    }

    /// It does not speak version 1 any more: the socket is closed, and the endpoint serves others.
    @Test
    void aVersionThatDoesNotSpeakThisOneIsTurnedAway() throws IOException {
        Map<String, byte[]> later = new java.util.HashMap<>(RECORDED);
        byte[] hello = RECORDED.get("HELLO").clone();
        hello[4] = 3;
        hello[6] = 2;
        later.put("HELLO", hello);
        assertThatThrownBy(() -> FrozenPeer.dial(port, later, false, 0))
                .isInstanceOf(UncheckedIOException.class);
        checkTakenIn();
    }

    /// The peer has the lane already and has sent on it; when it dies, all of that goes out again
    /// on another one.
    @Test
    void aLaneThatWasGivenUpBeforeItHadJoinedIsNotRead() throws IOException {
        peer.send(frame("FENCE"));
        assertThat(peer.await(Frame.FENCED).field(FrozenPeer.A)).isEqualTo(1);
        try (FrozenPeer late = FrozenPeer.dial(port, RECORDED, true, 0)) {
            late.send(at(region("WRITE"), 300));
            assertThat(late.awaitClosed()).isTrue();
        }
        assertThat(bytes(300, 100)).containsOnly(0);
        assertThat(connection.explain()).contains("given up lane 1");
        checkTakenIn();
    }

    @ParameterizedTest
    @MethodSource("frames")
    void aRecordedFrameHasItsEffect(String name) throws Exception {
        switch (name) {
            case "NOP", "PING", "PONG", "CREDIT" -> peer.send(frame(name));
            case "WRITE" -> {
                peer.send(at(region(name), 300));
                checkTakenIn();
                assertThat(bytes(300, 100)).isEqualTo(payload(name));
            }
            case "WRITE_INLINE" -> {
                peer.send(at(region(name), 300));
                checkTakenIn();
                assertThat(bytes(300, 8)).isEqualTo(Arrays.copyOfRange(frame(name), 48, 56));
            }
            case "WRITE_PIECES" -> pieces(name);
            case "WRITE_PIECES_STRIDED" -> strided(name);
            case "TAIL_ADD", "TAIL_SET" -> {
                Bytes.release(region.segment(), 4096, 10);
                peer.send(region(name));
                checkTakenIn();
                long value = little(name).getLong(FrozenPeer.D);
                assertThat(Bytes.acquire(region.segment(), 4096))
                        .isEqualTo(name.equals("TAIL_ADD") ? 10 + value : value);
            }
            case "TAIL_INLINE" ->
                    notifies(frame(name), Arrays.copyOfRange(frame(name), 24, 24 + 20));
            case "TAIL" -> notifies(frame(name), payload(name));
            case "NOTE_PART", "TAIL_OF_PARTS" ->
                    notifies(
                            FrozenPeer.join(frame("NOTE_PART"), frame("TAIL_OF_PARTS")),
                            payload("NOTE_PART"));
            case "READ" -> {
                Content.fill(region.segment(), 0, 5000, 3);
                peer.send(at(region(name), 256));
                assertThat(peer.await(Frame.DATA).payload())
                        .isEqualTo(bytes(256, (int) little(name).getLong(FrozenPeer.D)));
            }
            case "READ_PIECES", "READ_PIECES_STRIDED" -> {
                Content.fill(region.segment(), 0, 5000, 3);
                peer.send(region(name));
                ByteBuffer table = little(name).position(64);
                int offset = (int) table.getLong();
                assertThat(peer.await(Frame.DATA).payload()).startsWith(bytes(offset, 20));
            }
            case "DATA" -> {
                Transfer read =
                        connection.read(region.slice(0, RecordWire.LONG), peers(RecordWire.LONG));
                peer.send(owned(name, peer.await(Frame.READ)));
                assertThat(read.await(LIMIT)).isTrue();
                assertThat(read.state()).isEqualTo(TransferState.DONE);
                assertThat(bytes(0, RecordWire.LONG)).isEqualTo(payload(name));
            }
            case "SEND", "SEND_INLINE" -> {
                Transfer receive = connection.receive(tag(name), region.slice(0, 1000));
                peer.send(first(name));
                assertThat(receive.await(LIMIT)).isTrue();
                byte[] expected =
                        name.equals("SEND")
                                ? payload(name)
                                : Arrays.copyOfRange(frame(name), 48, 58);
                assertThat(receive.bytesMoved()).isEqualTo(expected.length);
                assertThat(bytes(0, expected.length)).isEqualTo(expected);
            }
            case "SEND_REQUEST" -> {
                Transfer receive = connection.receive(tag(name), region.slice(0, 50));
                peer.send(first(name));
                FrozenPeer.Frame cut = peer.await(Frame.TRUNCATED);
                assertThat(cut.field(FrozenPeer.C)).isEqualTo(RecordWire.LONG);
                assertThat(cut.field(FrozenPeer.D)).isEqualTo(50);
                assertFails(receive, TelpherException.Truncated.class);
            }
            case "ADVERT" -> {
                byte[] advert = first(name);
                FrozenPeer.little(advert).putLong(FrozenPeer.TRANSFER, PEERS_TOKEN);
                peer.send(advert);
                checkTakenIn();
                Transfer send = connection.send(tag(name), region.slice(0, RecordWire.LONG));
                FrozenPeer.Frame data = peer.await(Frame.DATA);
                assertThat(data.field(FrozenPeer.TRANSFER)).isEqualTo(PEERS_TOKEN);
                assertThat(data.payload()).isEqualTo(bytes(0, RecordWire.LONG));
                send.cancel();
            }
            case "SEND_STORED" -> {
                Transfer receive = connection.receive(7, region.slice(0, RecordWire.LONG));
                byte[] stored = owned(name, peer.await(Frame.ADVERT));
                FrozenPeer.little(stored).putLong(FrozenPeer.C, RecordWire.LONG);
                peer.send(stored);
                assertThat(receive.await(LIMIT)).isTrue();
                assertThat(receive.bytesMoved()).isEqualTo(RecordWire.LONG);
            }
            case "TRUNCATED" -> {
                Transfer send = connection.send(8, region.slice(0, RecordWire.LONG));
                peer.send(owned(name, peer.await(Frame.SEND_REQUEST)));
                assertFails(send, TelpherException.Truncated.class);
            }
            case "ABORT" -> {
                Transfer read = connection.read(region.slice(0, 100), peers(100));
                peer.send(owned(name, peer.await(Frame.READ)));
                assertFails(read, TelpherException.class);
            }
            case "WITHDRAW" -> {
                byte[] advert = first("ADVERT");
                FrozenPeer.little(advert).putLong(FrozenPeer.TRANSFER, PEERS_TOKEN);
                byte[] withdraw = first(name);
                FrozenPeer.little(withdraw)
                        .putLong(FrozenPeer.TRANSFER, PEERS_TOKEN)
                        .putLong(FrozenPeer.A, tag("ADVERT"));
                peer.send(FrozenPeer.join(advert, withdraw));
                assertThat(peer.await(Frame.WITHDRAWN).field(FrozenPeer.TRANSFER))
                        .isEqualTo(PEERS_TOKEN);
            }
            case "WITHDRAWN" -> {
                Transfer receive = connection.receive(9, region.slice(0, RecordWire.LONG));
                peer.await(Frame.ADVERT);
                receive.cancel();
                peer.send(owned(name, peer.await(Frame.WITHDRAW)));
                assertFails(receive, TelpherException.Cancelled.class);
            }
            case "REFUSED" -> {
                Transfer write = connection.write(region.slice(0, 100), peers(100));
                peer.await(Frame.WRITE);
                peer.send(ofFirstFrame(name));
                assertFails(write, TelpherException.StaleRegion.class);
                assertThat(peer.await(Frame.KNOWN).field(FrozenPeer.B)).isEqualTo(1);
            }
            case "KNOWN" -> {
                peer.send(frame("WRITE")); // of a region with another key
                FrozenPeer.Frame refused = peer.await(Frame.REFUSED);
                assertThat(peer.confirmed).isZero();
                peer.send(ofFirstFrame(name));
                assertThat(refused.field(FrozenPeer.B)).isEqualTo(1);
                peer.send(at(region("WRITE"), 0));
                awaitConfirmed(3);
            }
            case "LOOKUP" -> {
                endpoint.publish("recorded", region);
                peer.send(frame(name));
                FrozenPeer.Frame found = peer.await(Frame.FOUND);
                assertThat(found.payload()).isEqualTo(region.remote().toBytes());
            }
            case "FOUND" -> {
                CompletableFuture<RemoteMemory> looked =
                        CompletableFuture.supplyAsync(() -> connection.lookup("x", LIMIT));
                peer.send(owned(name, peer.await(Frame.LOOKUP)));
                assertThat(looked.join()).isEqualTo(RemoteMemory.ofBytes(payload(name)));
            }
            case "GOODBYE" -> {
                peer.send(frame(name));
                assertThatThrownBy(() -> connection.awaitNotification(LIMIT))
                        .isInstanceOf(TelpherException.PeerLost.class)
                        .hasMessageContaining("closed the connection");
                return;
            }
            case "APPLIED" -> {
                Transfer write = connection.write(region.slice(0, 100), peers(100));
                peer.await(Frame.WRITE);
                peer.send(ofFirstFrame(name));
                assertThat(write.await(LIMIT)).isTrue();
                assertThat(write.state()).isEqualTo(TransferState.DONE);
            }
            case "FENCE" -> {
                peer.send(frame(name));
                FrozenPeer.Frame fenced = peer.await(Frame.FENCED);
                assertThat(fenced.field(FrozenPeer.A)).isEqualTo(1);
                assertThat(fenced.field(FrozenPeer.B)).isZero();
            }
            case "FENCED" -> {
                FrozenPeer.dial(port, RECORDED, true, 0).close();
                assertThat(peer.await(Frame.FENCE).field(FrozenPeer.A)).isEqualTo(1);
                byte[] fenced = frame(name);
                FrozenPeer.little(fenced).putLong(FrozenPeer.B, 0);
                peer.send(fenced);
            }
            default -> throw new AssertionError("no test for the recorded frame " + name);
        }
        checkTakenIn();
        assertThat(connection.isOpen()).isTrue();
    }

    /// Waits until everything was taken in that was sent.
    private void checkTakenIn() {
        peer.send(frame("PING"));
        peer.await(Frame.PONG);
    }

    private void awaitConfirmed(long frames) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (peer.confirmed < frames) {
            assertThat(System.nanoTime()).isLessThan(end);
            checkTakenIn();
        }
    }

    private void notifies(byte[] frames, byte[] expected) {
        peer.send(frames);
        assertThat(connection.awaitNotification(LIMIT).payload()).isEqualTo(expected);
    }

    private void pieces(String name) {
        peer.send(region(name));
        checkTakenIn();
        ByteBuffer table = little(name);
        int count = table.getShort(2);
        int bytesAt = 64 + 16 * count;
        for (int i = 0; i < count; i++) {
            int offset = (int) table.getLong(64 + 16 * i);
            int length = (int) table.getLong(64 + 16 * i + 8);
            assertThat(bytes(offset, length))
                    .isEqualTo(Arrays.copyOfRange(frame(name), bytesAt, bytesAt + length));
            bytesAt += length;
        }
    }

    private void strided(String name) {
        peer.send(region(name));
        checkTakenIn();
        ByteBuffer table = little(name);
        int length = table.getInt(80);
        for (int i = 0; i < table.getInt(84); i++) {
            int offset = (int) (table.getLong(64) + i * table.getLong(72));
            int from = 88 + i * length;
            assertThat(bytes(offset, length))
                    .isEqualTo(Arrays.copyOfRange(frame(name), from, from + length));
        }
    }

    private static void assertFails(Transfer transfer, Class<? extends TelpherException> error) {
        assertThatThrownBy(
                        () -> {
                            assertThat(transfer.await(LIMIT)).isTrue();
                            transfer.await();
                        })
                .isInstanceOf(error);
    }

    /// A recorded frame, without what it confirmed of another conversation.
    private static byte[] frame(String name) {
        byte[] frame = RECORDED.get(name).clone();
        FrozenPeer.little(frame).putLong(Frame.CONFIRM, 0);
        return frame;
    }

    private static ByteBuffer little(String name) {
        return FrozenPeer.little(frame(name));
    }

    private static byte[] payload(String name) {
        return Arrays.copyOfRange(frame(name), 64, frame(name).length);
    }

    private static long tag(String name) {
        return little(name).getLong(FrozenPeer.A);
    }

    private byte[] bytes(long offset, int length) {
        return region.segment().asSlice(offset, length).toArray(JAVA_BYTE);
    }

    /// The frame with the region's name and key of this endpoint.
    private byte[] region(String name) {
        byte[] frame = frame(name);
        RemoteMemory memory = region.remote();
        FrozenPeer.little(frame)
                .putInt(FrozenPeer.A, memory.region())
                .putInt(FrozenPeer.A + 4, memory.generation())
                .putLong(FrozenPeer.B, memory.key());
        return frame;
    }

    private static byte[] at(byte[] frame, long offset) {
        FrozenPeer.little(frame).putLong(FrozenPeer.C, offset);
        return frame;
    }

    /// The frame as the first of its tag.
    private static byte[] first(String name) {
        byte[] frame = frame(name);
        FrozenPeer.little(frame).putLong(FrozenPeer.B, 0);
        return frame;
    }

    /// The frame as an answer to one of this endpoint's operations.
    private static byte[] owned(String name, FrozenPeer.Frame asked) {
        byte[] frame = frame(name);
        FrozenPeer.little(frame).putLong(FrozenPeer.TRANSFER, asked.field(FrozenPeer.TRANSFER));
        return frame;
    }

    /// The frame about the first sequenced frame of lane 0.
    private static byte[] ofFirstFrame(String name) {
        byte[] frame = frame(name);
        FrozenPeer.little(frame).putLong(FrozenPeer.A, 0).putLong(FrozenPeer.B, 1);
        return frame;
    }

    /// Memory of the peer's.
    private RemoteMemory peers(long length) {
        byte[] bytes = payload("FOUND");
        FrozenPeer.little(bytes).putLong(24, 0).putLong(32, length);
        FrozenPeer.little(bytes).putLong(0, FrozenPeer.little(frame("HELLO")).getLong(32));
        return RemoteMemory.ofBytes(bytes);
    }
}
