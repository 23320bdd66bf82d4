package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// A peer that dies at any moment: it is noticed, nothing is called done that is not, and
/// nothing is left.
abstract class DeathContract extends MortalContract {
    private static final int SLOT = 100_000;
    private static final int SLOTS = 300;

    private static final int LONGEST = 1 << 20;

    /// The page of metrics has 8 MiB, and views are found by size.
    private static final int BUFFERS = 9;

    private record Message(int size, long seed) {}

    /// Which slots are in flight.
    private record Posted(int slot, int size, Transfer transfer) {}

    @Test
    void writesToAPeerThatIsKilled() {
        List<RemoteQuiet> lost = new ArrayList<>();
        for (int round = 0; round < Scale.count(5); round++) {
            prepareRound(round);
            try (Arena arena = Arena.ofShared()) {
                long bytes = (long) SLOT * SLOTS;
                MemorySegment view = SharedView.add(peer, "target", setting.path(), bytes, arena);
                RemoteMemory target = remoteOf("target");
                region("source", Kind.FOREIGN, bytes);
                long seed = random.nextLong();
                here.fill("source", 0, bytes, seed);
                int[] sizes = random.ints(SLOTS, 1, SLOT).toArray();
                CompletableFuture<Long> killed = killLater(random.nextInt(40));
                Deque<Posted> flight = new ArrayDeque<>();
                List<Posted> done = new ArrayList<>();
                TelpherException error = null;
                // After the last slot comes the first again, with the same bytes.
                for (int i = 0; error == null; i++) {
                    long at = (long) (i % SLOTS) * SLOT;
                    int size = sizes[i % SLOTS];
                    try {
                        Transfer write =
                                connection()
                                        .write(
                                                here.slice("source", at, size),
                                                target.slice(at, size));
                        flight.add(new Posted(i % SLOTS, size, write));
                    } catch (TelpherException e) {
                        error = e;
                    }
                    if (flight.size() == 8) {
                        error = take(flight, done, lost, error);
                    }
                }
                long noticed = System.nanoTime();
                while (!flight.isEmpty()) {
                    error = take(flight, done, lost, error);
                }
                checkLost(error);
                checkNotice(noticed - Peer.result(killed));
                checkLost(connection().failure());
                for (Posted posted : done) {
                    long at = (long) posted.slot * SLOT;
                    Content.check(view, at, posted.size, seed, at);
                }
            }
            release();
        }
        if (setting.path() == TestPath.RING || setting.path() == TestPath.TCP) {
            // Of what had been sent, nobody says any more what has become.
            assertThat(lost).contains(RemoteQuiet.UNKNOWN);
        }
    }

    private void prepareRound(int round) {
        if (round > 0) {
            replacePeer();
        }
    }

    /// Takes the end of the oldest transfer.
    private static TelpherException take(
            Deque<Posted> flight,
            List<Posted> done,
            List<RemoteQuiet> lost,
            TelpherException error) {
        Posted posted = flight.remove();
        Outcome outcome = Outcome.of(posted.transfer);
        if (outcome.state() == TransferState.DONE) {
            outcome.assertDone(posted.size);
            done.add(posted);
            return error;
        }
        lost.add(outcome.remoteQuiet());
        return error == null ? outcome.error() : error;
    }

    private static Transfer posted(Transfer prepared) {
        prepared.post();
        return prepared;
    }

    @Test
    void nothingIsDoneAfterThePeerWasLost() {
        MemoryRegion source = region("source", Kind.TELPHER, 1000);
        RemoteMemory target = remote("target", Kind.TELPHER, 1000);
        here.write("source", 0, 1000, target).assertDone(1000);
        Transfer pending = connection().receive(1, source.all());
        Transfer prepared =
                connection().prepareWrite(source.all(), target, TransferOptions.DEFAULTS);
        process().kill();
        Outcome lost = Outcome.of(pending);
        checkLost(lost.error());
        assertThat(lost.path()).as("which the error names").isNotEmpty();
        for (int i = 0; i < 20; i++) {
            checkLost(Outcome.failure(() -> posted(prepared)));
            checkLost(Outcome.failure(() -> connection().write(source.all(), target)));
            checkLost(Outcome.failure(() -> connection().read(source.all(), target)));
            checkLost(Outcome.failure(() -> connection().send(2, source.all())));
            checkLost(Outcome.failure(() -> connection().receive(2, source.all())));
            checkLost(Outcome.failure(() -> connection().notifyPeer(Bytes.off(3, 3))));
        }
        assertThat(connection().tryWrite(source, 0, target, 0, 8))
                .isEqualTo(io.telpher.Connection.PEER_LOST);
        assertThat(connection().trySend(1, source, 0, 8))
                .isEqualTo(io.telpher.Connection.PEER_LOST);
        assertThat(connection().isOpen()).isFalse();
        assertThatThrownBy(() -> connection().awaitNotification(Duration.ofSeconds(5)))
                .isInstanceOf(TelpherException.PeerLost.class);
        assertThatThrownBy(() -> connection().lookup("name", Duration.ofSeconds(5)))
                .isInstanceOf(TelpherException.PeerLost.class);
    }

    @Test
    void readsFromAPeerThatIsKilled() {
        int size = 8 << 20;
        for (int round = 0; round < Scale.count(3); round++) {
            prepareRound(round);
            region("local", Kind.FOREIGN, size);
            RemoteMemory origin = remote("origin", Kind.MAIN[round % 2], size);
            long seed = random.nextLong();
            peer.fill("origin", 0, size, seed);
            CompletableFuture<Long> killed = killLater(random.nextInt(40));
            TelpherException error = null;
            while (error == null) {
                int length = Scale.size(random, 1, size);
                here.segment("local").asSlice(0, length).fill((byte) 0);
                error =
                        Outcome.failureOrNull(
                                () ->
                                        connection()
                                                .read(
                                                        here.slice("local", 0, length),
                                                        origin.slice(0, length)));
                if (error == null) {
                    here.check("local", 0, length, seed);
                }
            }
            checkNotice(System.nanoTime() - Peer.result(killed));
            checkLost(error);
            here.segment("local").fill((byte) 0x77);
            sleep(50);
            Content.checkAll(here.segment("local"), 0, size, (byte) 0x77);
            release();
        }
    }

    @Test
    void messagesWithAPeerThatIsKilled() {
        for (int round = 0; round < Scale.count(4); round++) {
            prepareRound(round);
            region("source", Kind.TELPHER, LONGEST);
            region("answer", Kind.TELPHER, LONGEST);
            try (Arena arena = Arena.ofShared()) {
                MemorySegment view =
                        SharedView.add(peer, "buffer", setting.path(), LONGEST * BUFFERS, arena);
                peer.tell(DeathContract::answerMessages);
                CompletableFuture<Long> killed = killLater(random.nextInt(40));
                List<Message> done = new ArrayList<>();
                TelpherException error = null;
                while (error == null) {
                    Message message =
                            new Message(Scale.size(random, 0, LONGEST), random.nextLong());
                    error = exchange(message, done);
                }
                checkNotice(System.nanoTime() - Peer.result(killed));
                checkLost(error);
                // The one after the last may have come into the oldest buffer.
                for (int i = Math.max(0, done.size() - BUFFERS + 1); i < done.size(); i++) {
                    Message message = done.get(i);
                    long at = (long) LONGEST * (i % BUFFERS);
                    Content.check(view, at, message.size, message.seed);
                }
            }
            release();
        }
    }

    /// Sends a message and receives it back.
    ///
    /// @param done gets the message when it is sent
    private TelpherException exchange(Message message, List<Message> done) {
        here.fill("source", 0, message.size, message.seed);
        try {
            Transfer receive = connection().receive(2, here.region("answer").all());
            Outcome send = Outcome.of(connection().send(1, here.slice("source", 0, message.size)));
            Outcome received = Outcome.of(receive);
            if (send.state() == TransferState.DONE) {
                done.add(message);
            }
            if (received.state() == TransferState.DONE) {
                here.check("answer", 0, message.size, message.seed);
            }
            return send.error() != null ? send.error() : received.error();
        } catch (TelpherException e) {
            return e;
        }
    }

    /// Starts to send every message back. The next receive is always there before the answer that
    /// the next message follows, so that each message goes into its own buffer.
    private static void answerMessages(Participant self) {
        Transfer first = receiveInto(self, 0);
        Thread.ofPlatform().daemon().start(() -> echo(self, first));
    }

    private static void echo(Participant self, Transfer first) {
        Transfer receive = first;
        for (int i = 0; ; i++) {
            receive.await();
            long length = receive.bytesMoved();
            receive = receiveInto(self, i + 1);
            long at = (long) LONGEST * (i % BUFFERS);
            self.connection().send(2, self.slice("buffer", at, length)).await();
        }
    }

    private static Transfer receiveInto(Participant self, int i) {
        long at = (long) LONGEST * (i % BUFFERS);
        return self.connection().receive(1, self.slice("buffer", at, LONGEST));
    }

    @Test
    @Tag(RdmaNode.SLICE)
    void aPeerThatIsKilledWhileItWritesAndReads() {
        for (int round = 0; round < Scale.count(4); round++) {
            prepareRound(round);
            long bytes = (long) SLOT * SLOTS;
            byte[] mine = region("inbox", Kind.MAIN[round % 2], bytes).remote().toBytes();
            byte[] word = region("progress", Kind.FOREIGN, 8).remote().toBytes();
            remote("source", Kind.FOREIGN, bytes);
            remote("count", Kind.FOREIGN, 8);
            long seed = random.nextLong();
            peer.launch(
                    self -> {
                        self.fill("source", 0, bytes, seed);
                        RemoteMemory inbox = RemoteMemory.ofBytes(mine);
                        for (int i = 0; i < SLOTS; i++) {
                            long at = (long) i * SLOT;
                            self.write("source", at, SLOT, inbox.slice(at, SLOT)).assertDone(SLOT);
                            Bytes.release(self.segment("count"), 0, i + 1);
                            self.write("count", 0, 8, RemoteMemory.ofBytes(word)).assertDone(8);
                        }
                        while (true) {
                            Outcome.of(
                                    self.connection().read(self.slice("source", 0, bytes), inbox));
                        }
                    });
            awaitProgress();
            sleep(random.nextInt(30));
            long start = System.nanoTime();
            process().kill();
            assertThatThrownBy(() -> connection().awaitNotification(Duration.ofSeconds(10)))
                    .isInstanceOf(TelpherException.PeerLost.class);
            checkNotice(System.nanoTime() - start);
            checkLost(connection().failure());
            long progress = Bytes.acquire(here.segment("progress"), 0);
            Content.check(here.segment("inbox"), 0, progress * SLOT, seed, 0);
            // Nobody holds the regions any more.
            long closing = System.nanoTime();
            here.closeRegion("inbox");
            here.closeRegion("progress");
            assertThat(System.nanoTime() - closing).isLessThan(AT_MOST);
            release();
        }
    }

    @Test
    void anIdleConnectionNoticesTheDeath() {
        AtomicInteger ended = new AtomicInteger();
        Transfer receive = connection().receive(1, region("inbox", Kind.TELPHER, 10).all());
        receive.onEnd(transfer -> ended.incrementAndGet());
        sleep(300);
        long start = System.nanoTime();
        process().kill();
        while (connection().isOpen()) {
            assertThat(System.nanoTime() - start).isLessThan(AT_MOST);
            sleep(5);
        }
        checkNotice(System.nanoTime() - start);
        checkLost(Outcome.of(receive).error());
        // Whoever ended it calls back after that.
        while (ended.get() == 0) {
            assertThat(System.nanoTime() - start).isLessThan(AT_MOST);
            sleep(5);
        }
        assertThat(ended).hasValue(1);
        assertThat(connection().peer().toString()).isNotEmpty();
    }

    /// Nothing of it, such as threads that go on while the JVM takes itself apart, harms its end.
    @Test
    void aProcessThatClosesNothingEndsWithItsOwnExitCode() {
        Transfer receive = connection().receive(1, region("inbox", Kind.TELPHER, 10).all());
        byte[] inbox = region("target", Kind.FOREIGN, 1 << 20).remote().toBytes();
        peer.launch(
                self -> {
                    self.add("source", Kind.FOREIGN, 1 << 20);
                    Transfer unended =
                            self.connection().receive(2, self.region("source").slice(0, 10));
                    for (int i = 0; i < 3; i++) {
                        self.connection()
                                .write(self.region("source").all(), RemoteMemory.ofBytes(inbox));
                    }
                    System.exit(unended.state().isTerminal() ? 1 : 7);
                });
        checkLost(Outcome.of(receive).error());
        assertThat(process().awaitEnd()).isEqualTo(7);
    }

    @Test
    void aPeerThatExitsWithoutClosingIsLostToo() {
        Transfer receive = connection().receive(1, region("inbox", Kind.TELPHER, 10).all());
        peer.launch(self -> Runtime.getRuntime().halt(0));
        checkLost(Outcome.of(receive).error());
        process().awaitEnd();
    }

    @Test
    void aPeerThatClosesItsEndpointIsGoneForGood() {
        MemoryRegion inbox = region("inbox", Kind.TELPHER, 10);
        Transfer receive = connection().receive(1, inbox.all());
        peer.tell(self -> self.endpoint().close());
        assertThat(Outcome.of(receive).error())
                .isInstanceOfAny(TelpherException.PeerLost.class, TelpherException.Closed.class);
        assertThat(connection().isOpen()).isFalse();
        assertThat(Outcome.failure(() -> connection().send(1, inbox.all())))
                .isInstanceOfAny(TelpherException.PeerLost.class, TelpherException.Closed.class);
        replacePeer();
    }

    @Test
    @Tag(RdmaNode.SLICE)
    void aRestartedPeerRefusesWhatBelongedToTheOldOne() {
        int port = Ports.free();
        byte[] secret = "0123456789abcdef".getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        Participant.Tweak options = options();
        Participant.Tweak same = o -> options.apply(o).withPort(port).withSecret(secret);
        peer.tell(self -> self.endpoint().close());
        byte[] oldAddress = peer.run(self -> self.open(same));
        peer.acceptFrom(here);
        region("local", Kind.TELPHER, 1000);
        RemoteMemory old = remote("target", Kind.TELPHER, 1000);
        here.write("local", 0, 1000, old).assertDone(1000);
        process().kill();
        peer = setting.startPeer();
        byte[] address = peer.run(self -> self.open(same));
        assertThat(address).isNotEqualTo(oldAddress);
        long start = System.nanoTime();
        assertThatThrownBy(() -> here.connect(oldAddress))
                .isInstanceOfAny(
                        TelpherException.PeerLost.class, TelpherException.ConnectFailed.class);
        assertThat(System.nanoTime() - start).isLessThan(Duration.ofSeconds(5).toNanos());
        peer.acceptFrom(here);
        RemoteMemory fresh = remote("target", Kind.TELPHER, 1000);
        soil("target", 0, 1000);
        assertThat(fresh.incarnation()).isNotEqualTo(old.incarnation());
        assertThat(Outcome.failure(() -> connection().write(here.region("local").all(), old)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThat(Outcome.failure(() -> connection().read(here.region("local").all(), old)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        peer.tell(self -> verifyUntouched(self, "target", 0, 1000));
        here.fill("local", 0, 1000, 4);
        here.write("local", 0, 1000, fresh).assertDone(1000);
        peer.check("target", 0, 1000, 4);
    }

    /// What belonged to a peer does not wait for the end of the endpoint that had it, and nothing
    /// outlives that.
    @Test
    void nothingIsLeftAfterPeersWereKilled() {
        Participant.Tweak options = options();
        Resources closed = null;
        int[] victims = {3, 1, 1};
        for (int round = 0; round < victims.length; round++) {
            Resources open = null;
            for (int i = 0; i < victims[round]; i++) {
                useAndKillThePeer();
                peer.close();
                // The first one loads classes and starts what stays.
                if (open == null) {
                    open = Resources.settled();
                } else {
                    open.awaitSame();
                }
                peer = setting.startPeer();
                peer.tell(self -> self.open(options));
                if (i + 1 < victims[round]) {
                    peer.acceptFrom(here);
                }
            }
            here.close();
            // A GPU that is used for the first time, here in the second round, keeps a buffer.
            if (round < 2) {
                closed = Resources.now();
            } else {
                closed.awaitSame();
            }
            here = new Participant();
            here.open(options);
            peer.acceptFrom(here);
        }
    }

    /// Copies in both directions first.
    private void useAndKillThePeer() {
        here.closeRegions();
        region("local", Kind.TELPHER, 1 << 20);
        RemoteMemory target = remote("target", Kind.TELPHER, 1 << 20);
        here.write("local", 0, 1 << 20, target).assertDone(1 << 20);
        here.write("local", 0, 8, target).assertDone(8); // by another call, on some paths
        byte[] mine = here.region("local").remote().toBytes();
        peer.tell(
                self ->
                        self.write("target", 0, 1 << 20, RemoteMemory.ofBytes(mine))
                                .assertDone(1 << 20));
        process().kill();
        assertThatThrownBy(() -> connection().awaitNotification(Duration.ofSeconds(10)))
                .isInstanceOf(TelpherException.PeerLost.class);
    }
}
