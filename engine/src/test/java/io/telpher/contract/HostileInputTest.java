package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.TransferState;
import io.telpher.internal.wire.Handshake;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Strangers, accidents and attackers at the doors of an endpoint, which goes on serving.
class HostileInputTest {
    private static final byte[] SECRET = "0123456789abcdef".getBytes(US_ASCII);

    /// Longer than a stranger may take to say who it is.
    private static final Duration HANDSHAKE = Duration.ofSeconds(9);

    /// Sooner than any stranger is thrown out.
    private static final Duration AT_ONCE = Duration.ofSeconds(4);

    /// Bytes of the challenge, behind which an endpoint says what it thinks of the proof.
    private static final int CHALLENGE = 32;

    private static final int BAD_SECRET = Handshake.Status.BAD_SECRET.ordinal();

    /// The doors.
    enum Door {
        TCP,
        UNIX
    }

    @TempDir Path folder;

    private final int port = Ports.free();
    private Couple couple;
    private Resources before;

    private void open(Door door) {
        String sockets = folder.toString();
        int tcp = port;
        TestPath path = door == Door.TCP ? TestPath.TCP : TestPath.RING;
        Participant.Tweak options =
                o -> path.restrict(o).withSecret(SECRET).withSocketDirectory(sockets);
        couple = Couple.open(options, o -> options.apply(o).withPort(tcp));
        couple.connect().checkWorks();
        before = Resources.now();
    }

    @AfterEach
    void goesOnServingAndKeepsNothing() {
        if (couple == null) {
            return;
        }
        before.awaitSame();
        couple.checkWorks();
        couple.here().closeConnection();
        couple.connect().checkWorks();
        couple.close();
        assertThat(folder).isEmptyDirectory();
    }

    private SocketChannel knock(Door door) throws IOException {
        if (door == Door.TCP) {
            return SocketChannel.open(new InetSocketAddress("127.0.0.1", port));
        }
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        channel.connect(UnixDomainSocketAddress.of(socket()));
        return channel;
    }

    /// The socket of the endpoint that is knocked at.
    private Path socket() throws IOException {
        String incarnation =
                couple.there().participant().endpoint().address().toString().split(" ")[1];
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> sockets = files.sorted().toList();
            // Two endpoints have one each; both get the same treatment in turn.
            return sockets.stream()
                    .filter(file -> file.toString().contains(incarnation))
                    .findFirst()
                    .orElse(sockets.getFirst());
        }
    }

    /// Sends as much as the other side takes; it may close at any time.
    private static void send(SocketChannel channel, byte[] bytes) {
        try {
            channel.configureBlocking(false);
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            long end = System.nanoTime() + 200_000_000L;
            while (buffer.hasRemaining() && System.nanoTime() < end) {
                channel.write(buffer);
            }
        } catch (IOException e) {
            // It has closed: well.
        }
    }

    /// Waits until the other side has closed.
    private static void awaitClosed(SocketChannel channel) throws IOException {
        answer(channel);
    }

    /// Waits until the other side has closed.
    ///
    /// @return the first bytes of what it has said before
    private static ByteBuffer answer(SocketChannel channel) throws IOException {
        channel.configureBlocking(false);
        ByteBuffer all = ByteBuffer.allocate(65_536).order(ByteOrder.LITTLE_ENDIAN);
        long end = System.nanoTime() + HANDSHAKE.toNanos();
        while (System.nanoTime() < end) {
            try {
                if (channel.read(all.hasRemaining() ? all : ByteBuffer.allocate(65_536)) < 0) {
                    channel.close();
                    return all.flip();
                }
            } catch (IOException e) {
                channel.close();
                return all.flip();
            }
            Contract.sleep(5);
        }
        throw new AssertionError("the socket is still open after " + HANDSHAKE);
    }

    @ParameterizedTest
    @EnumSource
    void garbageCostsOneSocket(Door door) throws IOException {
        open(door);
        Random random = Scale.random("garbage");
        List<SocketChannel> open = new ArrayList<>();
        for (int i = 0; i < Scale.count(150); i++) {
            byte[] garbage = new byte[Scale.size(random, 0, 300_000)];
            random.nextBytes(garbage);
            if (i % 5 == 0) {
                Arrays.fill(garbage, (byte) (i % 2 == 0 ? 0 : -1));
            }
            SocketChannel channel = knock(door);
            send(channel, i % 7 == 3 ? "GET / HTTP/1.1\r\n\r\n".getBytes(US_ASCII) : garbage);
            if (i % 2 == 0) {
                channel.close();
            } else {
                open.add(channel);
            }
        }
        couple.checkWorks();
        for (SocketChannel channel : open) {
            awaitClosed(channel);
        }
    }

    /// Of whom 64 are looked at at a time, 512 more wait, and the rest is turned away; the limits
    /// themselves are [io.telpher.sim.StrangersTest]'s.
    @ParameterizedTest
    @EnumSource
    void slowLorisesAreThrownOut(Door door) throws IOException {
        open(door);
        List<SocketChannel> lorises = knock(door, 40);
        // Others are served meanwhile, in time.
        long start = System.nanoTime();
        connectHonestly(door);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(AT_ONCE);
        lorises.addAll(knock(door, 60));
        for (int i = 0; i < 25; i++) {
            for (SocketChannel loris : lorises) {
                send(loris, new byte[] {(byte) "TLPA".charAt(i % 4)});
            }
            Contract.sleep(100);
        }
        // Who comes now is served when the first have been thrown out.
        connectHonestly(door);
        for (SocketChannel loris : lorises.subList(0, 64)) {
            awaitClosed(loris);
        }
        start = System.nanoTime();
        List<SocketChannel> crowd = knock(door, 620);
        awaitClosed(crowd.getLast());
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(AT_ONCE);
        lorises.addAll(crowd);
        for (SocketChannel loris : lorises) {
            loris.close();
        }
    }

    private List<SocketChannel> knock(Door door, int count) throws IOException {
        List<SocketChannel> channels = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            channels.add(knock(door));
        }
        return channels;
    }

    private void connectHonestly(Door door) {
        try (Participant honest = new Participant()) {
            String sockets = folder.toString();
            TestPath path = door == Door.TCP ? TestPath.TCP : TestPath.RING;
            honest.open(o -> path.restrict(o).withSocketDirectory(sockets));
            CompletableFuture<Boolean> accepted =
                    couple.there().begin(self -> self.endpoint().accept(Participant.LIMIT));
            honest.connect(couple.address());
            Peer.result(accepted);
        }
    }

    @ParameterizedTest
    @EnumSource
    void aRecordedHandshakeIsWorthNothing(Door door) throws IOException {
        open(door);
        byte[] recorded = door == Door.TCP ? recordTcp() : recordUnix();
        couple.here().closeConnection();
        couple.there().tell(Participant::closeConnection);
        couple.connect();
        Random random = Scale.random("replay");
        assertThat(recorded.length).isGreaterThan(16);
        List<SocketChannel> open = new ArrayList<>();
        for (int i = 0; i < Scale.count(100); i++) {
            byte[] bytes = recorded.clone();
            // As it was, cut, changed, or with lengths as large as they get.
            switch (i % 4) {
                case 0 -> {}
                case 1 -> bytes = Arrays.copyOf(bytes, random.nextInt(bytes.length));
                case 2 -> bytes[random.nextInt(Math.min(bytes.length, 400))] ^= (byte) (1 << i % 8);
                default -> {
                    int at = random.nextInt(Math.min(bytes.length - 8, 400));
                    Arrays.fill(
                            bytes, at, at + 4 + 4 * (i / 4 % 2), (byte) (i % 3 == 0 ? 0x7f : -1));
                }
            }
            SocketChannel channel = knock(door);
            send(channel, bytes);
            open.add(channel);
        }
        for (int i = 0; i < open.size(); i++) {
            ByteBuffer answer = answer(open.get(i));
            // What was recorded is a whole proof: if it still held, the answer would be another.
            if (i % 4 == 0 || answer.limit() >= CHALLENGE + 4) {
                assertThat(answer.getInt(CHALLENGE)).as("replay %d", i).isEqualTo(BAD_SECRET);
            }
        }
        assertThatThrownBy(
                        () ->
                                couple.there()
                                        .participant()
                                        .endpoint()
                                        .accept(Duration.ofMillis(100)))
                .isInstanceOf(TelpherException.TimedOut.class);
    }

    private byte[] recordTcp() throws IOException {
        try (StreamProxy proxy = StreamProxy.to(port)) {
            connectBy(proxy);
            couple.checkWorks();
            return proxy.recorded();
        }
    }

    /// All that is said before a descriptor has to come along, which the proxy does not pass on.
    private byte[] recordUnix() throws IOException {
        couple.here().closeConnection();
        couple.there().tell(Participant::closeConnection);
        Path socket = socket();
        Path aside = folder.resolve("aside");
        Files.move(socket, aside);
        try (StreamProxy proxy = StreamProxy.to(aside, socket)) {
            assertThatThrownBy(
                            () ->
                                    couple.here()
                                            .endpoint()
                                            .connect(
                                                    EndpointAddress.ofBytes(couple.address()),
                                                    Duration.ofSeconds(2)))
                    .isInstanceOf(TelpherException.class);
            return proxy.recorded();
        } finally {
            Files.move(aside, socket, StandardCopyOption.REPLACE_EXISTING);
        }
    }

    private void connectBy(StreamProxy proxy) {
        couple.here().closeConnection();
        couple.there().tell(Participant::closeConnection);
        couple.connect(EndpointAddress.of("127.0.0.1", proxy.port(), SECRET).toBytes());
    }

    @Test
    void aConnectionThatIsCutOrGarbledHarmsNobodyElse() throws IOException {
        open(Door.TCP);
        Random random = Scale.random("garble");
        for (int i = 0; i < Scale.count(30); i++) {
            long after = Scale.size(random, 0, 100_000);
            try (StreamProxy proxy = StreamProxy.to(port)) {
                StreamProxy.Fault[] faults = StreamProxy.Fault.values();
                proxy.inject(faults[i % faults.length], after, random.nextLong());
                try (Participant victim = new Participant()) {
                    victim.open(o -> TestPath.TCP.restrict(o).withDeadline(Duration.ofMillis(500)));
                    useUntilItBreaks(victim, proxy);
                }
            }
            takeIn();
        }
    }

    /// Whatever happens, it happens within the deadlines and is one of Telpher's errors.
    private void useUntilItBreaks(Participant victim, StreamProxy proxy) {
        long start = System.nanoTime();
        try {
            byte[] address = EndpointAddress.of("127.0.0.1", proxy.port(), SECRET).toBytes();
            victim.use(
                    victim.endpoint()
                            .connect(EndpointAddress.ofBytes(address), Duration.ofSeconds(1)));
            victim.add("buffer", Kind.FOREIGN, 50_000);
            int late = 0;
            for (int i = 0; i < 20 && late < 2 && victim.connection().isOpen(); i++) {
                late += late(Outcome.of(victim.connection().notifyPeer(Bytes.off(1000, i))));
                late +=
                        late(
                                Outcome.of(
                                        victim.connection()
                                                .send(i, victim.region("buffer").all())));
            }
        } catch (TelpherException e) {
            assertThat(e).hasMessageMatching("(?s).+");
        }
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(45));
    }

    /// A stream that was garbled into an endless frame stands still: two time-outs show as much as
    /// forty.
    private static int late(Outcome outcome) {
        return outcome.state() == TransferState.TIMED_OUT ? 1 : 0;
    }

    /// Takes what was accepted meanwhile, and closes it.
    private void takeIn() {
        couple.there()
                .tell(
                        self -> {
                            while (true) {
                                try {
                                    self.endpoint().accept(Duration.ofMillis(1)).close();
                                } catch (TelpherException.TimedOut e) {
                                    return;
                                }
                            }
                        });
    }
}
