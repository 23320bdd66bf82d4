package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;

/// The style without allocation: tokens, and how much is allocated.
abstract class TokenContract extends Contract {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    /// Posts by a `try` method, again and again while the connection is full, and waits for the
    /// end.
    ///
    /// @return the result of the last poll
    private static int complete(Connection connection, LongSupplier operation) {
        return finish(connection, post(connection, operation));
    }

    /// Posts by a `try` method, again and again while the connection is full.
    ///
    /// @return a token, or why there is none
    static long post(Connection connection, LongSupplier operation) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        long token = operation.getAsLong();
        while (token == Connection.BACK_PRESSURED) {
            connection.poll();
            checkTime(end);
            token = operation.getAsLong();
        }
        return token;
    }

    /// Waits for the end of what [#post] has posted.
    ///
    /// @return the result of the last poll, or why there is no token
    static int finish(Connection connection, long token) {
        return token < 0
                ? (int) token
                : finish(connection, token, System.nanoTime() + Participant.LIMIT.toNanos());
    }

    private static int finish(Connection connection, long token, long end) {
        int result = connection.poll(token);
        while (result == Connection.PENDING) {
            checkTime(end);
            Thread.yield(); // the peer needs a core, and other tests may have the second one
            result = connection.poll(token);
        }
        return result;
    }

    private static void checkTime(long end) {
        if (System.nanoTime() > end) {
            throw new AssertionError("a token's operation has not ended in time");
        }
    }

    @Test
    void tokensMoveBytes() {
        MemoryRegion source = region("source", Kind.TELPHER, 1 << 20);
        RemoteMemory target = remote("target", Kind.TELPHER, 1 << 20);
        for (int i = 0; i < Scale.count(300); i++) {
            int size = Scale.size(random, 0, 200_000);
            long from = random.nextInt(1000);
            long to = MARGIN + random.nextLong(1000);
            long seed = random.nextLong();
            here.fill("source", from, size, seed);
            soil("target", to, size);
            assertThat(
                            complete(
                                    connection(),
                                    () -> connection().tryWrite(source, from, target, to, size)))
                    .isEqualTo(Connection.DONE);
            verify("target", to, size, seed);
            soil(here, "source", 300_000 + from, size);
            assertThat(
                            complete(
                                    connection(),
                                    () ->
                                            connection()
                                                    .tryRead(
                                                            source,
                                                            300_000 + from,
                                                            target,
                                                            to,
                                                            size)))
                    .isEqualTo(Connection.DONE);
            verify(here, "source", 300_000 + from, size, seed);
        }
    }

    @Test
    void tokensSendReceiveAndNotify() {
        int count = Scale.count(500);
        MemoryRegion source = region("source", Kind.TELPHER, 100_000);
        remote("target", Kind.TELPHER, 100_000);
        long seed = random.nextLong();
        CompletableFuture<Boolean> there =
                peer.begin(
                        self -> {
                            java.util.Random dice = new java.util.Random(seed);
                            MemoryRegion region = self.region("target");
                            MemorySegment note = Arena.ofAuto().allocate(64);
                            for (int i = 0; i < count; i++) {
                                int size = Scale.size(dice, 0, 60_000);
                                Connection connection = self.connection();
                                long end = System.nanoTime() + Participant.LIMIT.toNanos();
                                long token = connection.tryReceive(-3, region, 8, 90_000);
                                assertThat(token).isNotNegative();
                                assertThat(finish(connection, token, end))
                                        .isEqualTo(Connection.DONE);
                                assertThat(connection.bytesMoved()).isEqualTo(size);
                                self.check("target", 8, size, seed + i);
                                awaitNote(connection, note, end);
                                Content.check(note, 0, i % 64, i);
                            }
                        });
        java.util.Random dice = new java.util.Random(seed);
        MemorySegment note = Arena.ofAuto().allocate(128);
        for (int i = 0; i < count; i++) {
            int size = Scale.size(dice, 0, 60_000);
            int body = i % 64;
            here.fill("source", 100, size, seed + i);
            assertThat(complete(connection(), () -> connection().trySend(-3, source, 100, size)))
                    .isEqualTo(Connection.DONE);
            Content.fill(note, 7, body, i);
            assertThat(complete(connection(), () -> connection().tryNotify(note, 7, body)))
                    .isEqualTo(Connection.DONE);
        }
        Peer.result(there);
    }

    private static void awaitNote(Connection connection, MemorySegment note, long end) {
        while (connection.pollNotification(note) < 0) {
            checkTime(end);
        }
    }

    @Test
    void manyTokensAtATime() {
        int slots = 5000;
        MemoryRegion source = region("source", Kind.TELPHER, slots * 64L);
        RemoteMemory target = remote("target", Kind.TELPHER, slots * 64L);
        here.fill("source", 0, slots * 64L, 7);
        long[] tokens = new long[slots];
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        int posted = 0;
        int ended = 0;
        while (ended < slots) {
            if (posted < slots) {
                long at = posted * 64L;
                long token = connection().tryWrite(source, at, target, at, 64);
                if (token != Connection.BACK_PRESSURED) {
                    assertThat(token).isNotNegative();
                    tokens[posted++] = token;
                    continue;
                }
            }
            // Full: the oldest one makes room.
            assertThat(finish(connection(), tokens[ended++], end)).isEqualTo(Connection.DONE);
        }
        peer.check("target", 0, slots * 64L, 7);
    }

    @Test
    void reasonsAreNegative() {
        MemoryRegion source = region("source", Kind.TELPHER, 100);
        RemoteMemory closed = remote("closed", Kind.TELPHER, 100);
        RemoteMemory readOnly = remote("readOnly", Kind.TELPHER, 100, io.telpher.Access.READ);
        RemoteMemory good = remote("good", Kind.TELPHER, 100);
        peer.tell(self -> self.closeRegion("closed"));
        Connection c = connection();
        assertThat(complete(c, () -> c.tryWrite(source, 0, closed, 0, 10)))
                .isEqualTo(Connection.STALE);
        assertThat(complete(c, () -> c.tryRead(source, 0, closed, 0, 10)))
                .isEqualTo(Connection.STALE);
        assertThat(complete(c, () -> c.tryWrite(source, 0, readOnly, 0, 10)))
                .isEqualTo(Connection.DENIED);
        peer.tell(
                self ->
                        self.keep(
                                "small", self.connection().receive(31, self.slice("good", 0, 5))));
        assertThat(complete(c, () -> c.trySend(31, source, 0, 10))).isEqualTo(Connection.TRUNCATED);
        region("gone", Kind.TELPHER, 100).close();
        assertThat(complete(c, () -> c.tryWrite(here.region("gone"), 0, good, 0, 10)))
                .isEqualTo(Connection.STALE);
        assertThat(complete(c, () -> c.tryWrite(source, 0, good, 0, 10)))
                .isEqualTo(Connection.DONE);
    }

    // --- allocation -----------------------------------------------------------------------------

    @Test
    void tokensAllocateNothing() {
        MemoryRegion source = region("source", Kind.TELPHER, 1 << 20);
        RemoteMemory target = remote("target", Kind.TELPHER, 1 << 20);
        Connection c = connection();
        checkAllocation(c, "tryWrite 8 B", () -> c.tryWrite(source, 0, target, 0, 8));
        checkAllocation(c, "tryWrite 16 KiB", () -> c.tryWrite(source, 0, target, 0, 16_384));
        checkAllocation(c, "tryRead 8 B", () -> c.tryRead(source, 0, target, 0, 8));
        checkAllocation(c, "tryRead 16 KiB", () -> c.tryRead(source, 0, target, 0, 16_384));
    }

    private static void checkAllocation(
            Connection connection, String what, LongSupplier operation) {
        checkAllocation(what, () -> complete(connection, operation));
    }

    @Test
    void preparedTransfersAllocateNothing() {
        MemoryRegion source = region("source", Kind.TELPHER, 65_536);
        RemoteMemory target = remote("target", Kind.TELPHER, 65_536);
        Transfer write =
                connection().prepareWrite(source.slice(0, 4000), target, TransferOptions.DEFAULTS);
        Transfer read =
                connection().prepareRead(source.slice(0, 4000), target, TransferOptions.DEFAULTS);
        checkAllocation("prepared write", () -> postAndPoll(write));
        checkAllocation("prepared read", () -> postAndPoll(read));
    }

    @Test
    void preparedWritesOfEveryFormAllocateNothing() {
        MemoryRegion source = region("source", Kind.TELPHER, 65_536);
        RemoteMemory target = remote("target", Kind.TELPHER, 65_536);
        CompletableFuture<Boolean> taker = peer.begin(TokenContract::takeNotes);
        TransferOptions plain = TransferOptions.DEFAULTS;
        Connection c = connection();
        RemoteMemory word = target.slice(65_528, 8);
        Transfer[] writes = {
            c.prepareWrite(
                    MemorySlices.of(
                            source.slice(0, 100), source.slice(5000, 300), source.slice(900, 0)),
                    RemoteSlices.of(target.slice(8192, 200), target.slice(0, 200)),
                    plain),
            c.prepareWrite(
                    MemorySlices.strided(source, 0, 64, 128, 50),
                    RemoteSlices.strided(target, 64, 256, 50),
                    plain),
            c.prepareWrite(
                    source.slice(0, 4000), target, plain.withCounter(CounterUpdate.add(word, 1))),
            c.prepareWrite(source.slice(0, 4000), target, plain.withNotification(Bytes.off(40, 1)))
        };
        checkAllocation(
                "vectored, strided, counting and notifying writes",
                () -> {
                    for (Transfer write : writes) {
                        write.post();
                    }
                    for (Transfer write : writes) {
                        poll(write);
                    }
                });
        Outcome.of(c.notifyPeer(Bytes.off(1, 1))).assertDone();
        Peer.result(taker);
    }

    /// Takes notifications until one of a single byte comes.
    private static void takeNotes(Participant self) {
        MemorySegment note = Arena.ofAuto().allocate(64);
        int length;
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        do {
            length = self.connection().pollNotification(note);
            if (length >= 0) {
                end = System.nanoTime() + Participant.LIMIT.toNanos();
            }
            checkTime(end);
        } while (length != 1);
    }

    private static void postAndPoll(Transfer transfer) {
        transfer.post();
        poll(transfer);
    }

    private static void poll(Transfer transfer) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (!transfer.poll().isTerminal()) {
            checkTime(end);
            Thread.yield();
        }
    }

    @Test
    void messagesAllocateNothing() {
        MemoryRegion buffer = region("buffer", Kind.TELPHER, 8192);
        remote("buffer", Kind.TELPHER, 8192);
        CompletableFuture<Boolean> echo = peer.begin(TokenContract::echo);
        Connection c = connection();
        MemorySegment note = Arena.ofAuto().allocate(64);
        Transfer send =
                c.prepareSend(21, MemorySlices.of(buffer.slice(0, 64)), TransferOptions.DEFAULTS);
        Transfer receive =
                c.prepareReceive(
                        22, MemorySlices.of(buffer.slice(64, 64)), TransferOptions.DEFAULTS);
        checkAllocation(
                "send, receive and notification",
                () -> {
                    receive.post();
                    send.post();
                    long end = System.nanoTime() + Participant.LIMIT.toNanos();
                    while (!send.poll().isTerminal() || !receive.poll().isTerminal()) {
                        checkTime(end);
                        Thread.yield();
                    }
                    awaitNote(c, note, end);
                });
        buffer.segment().set(Bytes.BYTE, 0, (byte) 1);
        send.post();
        Peer.result(echo);
        Outcome.of(send).assertDone(64);
    }

    /// Answers each message by a notification and a message, until one starts with 1.
    private static void echo(Participant self) {
        MemoryRegion buffer = self.region("buffer");
        Connection c = self.connection();
        MemorySegment note = Arena.ofAuto().allocate(32);
        LongSupplier receive = () -> c.tryReceive(21, buffer, 0, 64);
        LongSupplier tell = () -> c.tryNotify(note, 0, 32);
        LongSupplier send = () -> c.trySend(22, buffer, 64, 64);
        long token = receive.getAsLong();
        while (true) {
            long end = System.nanoTime() + Participant.LIMIT.toNanos();
            if (finish(c, token, end) != Connection.DONE) {
                throw new AssertionError("the receive failed");
            }
            if (buffer.segment().get(Bytes.BYTE, 0) == 1) {
                return;
            }
            // A message that finds no receive has to be kept, which allocates.
            token = receive.getAsLong();
            complete(c, tell);
            complete(c, send);
        }
    }

    /// Runs an operation until there was a long run in which this thread allocated nothing, and any
    /// other of the process next to nothing: as often as it takes the JIT compiler to get there.
    ///
    /// What is tolerated of the others is left to what does not come with operations: the progress
    /// thread's ticks, the peer's tasks and the test runner. An object has 16 bytes at least, so
    /// one for every operation is above it.
    private static void checkAllocation(String what, Runnable operation) {
        int count = 2000;
        long least = Long.MAX_VALUE;
        double leastOfAll = Double.MAX_VALUE;
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        for (int round = 0; least > 0 || leastOfAll > 8; round++) {
            if (round > 40 && System.nanoTime() > end) {
                break;
            }
            long own = THREADS.getCurrentThreadAllocatedBytes();
            long all = THREADS.getTotalThreadAllocatedBytes();
            for (int i = 0; i < count; i++) {
                operation.run();
            }
            least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - own);
            leastOfAll =
                    Math.min(
                            leastOfAll,
                            (THREADS.getTotalThreadAllocatedBytes() - all) / (double) count);
        }
        assertThat(least).as("%s: bytes of %d operations on this thread", what, count).isZero();
        assertThat(leastOfAll)
                .as("%s: bytes per operation on all threads", what)
                .isLessThanOrEqualTo(8);
    }
}
