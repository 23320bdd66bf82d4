package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/// A peer that dies in the middle of writes of every form ([WriteForm]): in either direction
/// nothing is called done that is not, and counters and notifications come after their bytes, once.
abstract class DeathFormsContract extends MortalContract {
    /// Writes slot after slot, from the first to the last and again, and takes the ends in the same
    /// order.
    private static final class Writer {
        /// Writes under way; fewer than there are slots.
        private static final int DEPTH = 8;

        private final Connection connection;
        private final MemoryRegion source;
        private final RemoteMemory target;
        private final int[] sizes;
        private final Deque<Supplier<TelpherException>> flight = new ArrayDeque<>();

        /// How often each slot's write was posted, and is done.
        private final int[] posted = new int[WriteForm.SLOTS];

        private final int[] done = new int[WriteForm.SLOTS];
        private int posts;
        private int ends;

        Writer(Participant self, RemoteMemory target, int[] sizes) {
            this.connection = self.connection();
            this.source = self.region("source");
            this.target = target;
            this.sizes = sizes;
        }

        /// Posts until one is over, and takes its end.
        ///
        /// @return why it failed, or null
        TelpherException next() {
            while (flight.size() < DEPTH) {
                int slot = posts++ % WriteForm.SLOTS;
                posted[slot]++;
                try {
                    flight.add(WriteForm.post(connection, source, target, slot, sizes[slot]));
                } catch (TelpherException e) {
                    flight.add(() -> e);
                }
            }
            return take();
        }

        private TelpherException take() {
            int slot = ends++ % WriteForm.SLOTS;
            TelpherException error = flight.remove().get();
            done[slot] += error == null ? 1 : 0;
            return error;
        }

        /// Takes the ends of what is under way.
        void drain() {
            while (!flight.isEmpty()) {
                take();
            }
        }
    }

    @Test
    void everyFormOfWriteToAPeerThatIsKilled() {
        try (Arena arena = Arena.ofShared()) {
            MemorySegment view =
                    SharedView.add(peer, "target", setting.path(), WriteForm.TARGET, arena);
            region("source", Kind.FOREIGN, WriteForm.COUNTERS);
            long seed = random.nextLong();
            here.fill("source", 0, WriteForm.COUNTERS, seed);
            int[] sizes = WriteForm.sizes(random);
            peer.launch(self -> takeNotes(self, sizes, seed));
            Writer writer = new Writer(here, remoteOf("target"), sizes);
            CompletableFuture<Long> killed = killLater(random.nextInt(100));
            TelpherException error = writer.next();
            while (error == null) {
                error = writer.next();
            }
            long noticed = System.nanoTime();
            writer.drain();
            checkLost(error);
            checkNotice(noticed - Peer.result(killed));
            for (int slot = 0; slot < WriteForm.SLOTS; slot++) {
                long count = counter(view, slot);
                long notes = Bytes.acquire(view, WriteForm.NOTES + slot * 8L);
                int done = writer.done[slot];
                int posted = writer.posted[slot];
                boolean counts = WriteForm.of(slot) == WriteForm.COUNTING;
                assertThat(count).isBetween(counts ? done : 0L, counts ? posted : 0L);
                assertThat(notes).as("notifications of slot %d", slot).isBetween(0L, (long) posted);
                if (done > 0 || count > 0) {
                    WriteForm.check(view, slot, sizes[slot], seed);
                }
            }
        }
    }

    private static long counter(MemorySegment target, int slot) {
        return Bytes.acquire(target, WriteForm.COUNTERS + slot * 8L);
    }

    /// Counts the notifications of each slot in the target, where the numbers outlive this process.
    /// One that came before its bytes makes the number negative.
    private static void takeNotes(Participant self, int[] sizes, long seed) {
        MemorySegment target = self.segment("target");
        while (true) {
            int slot = awaitNote(self);
            long at = WriteForm.NOTES + slot * 8L;
            try {
                WriteForm.check(target, slot, sizes[slot], seed);
                Bytes.release(target, at, Bytes.acquire(target, at) + 1);
            } catch (AssertionError e) {
                Bytes.release(target, at, Long.MIN_VALUE);
            }
        }
    }

    private static int awaitNote(Participant self) {
        byte[] body = self.connection().awaitNotification(Duration.ofSeconds(10)).payload();
        return ByteBuffer.wrap(body).getInt();
    }

    @Test
    void aPeerThatIsKilledWhileItWritesInEveryForm() {
        Kind kind = Kind.MAIN[random.nextInt(2)];
        byte[] mine = region("inbox", kind, WriteForm.TARGET).remote().toBytes();
        byte[] word = region("progress", Kind.FOREIGN, 8).remote().toBytes();
        remote("source", Kind.FOREIGN, WriteForm.COUNTERS);
        remote("count", Kind.FOREIGN, 8);
        long seed = random.nextLong();
        int[] sizes = WriteForm.sizes(random);
        peer.launch(
                self -> {
                    self.fill("source", 0, WriteForm.COUNTERS, seed);
                    Writer writer = new Writer(self, RemoteMemory.ofBytes(mine), sizes);
                    while (writer.next() == null) {
                        Bytes.release(self.segment("count"), 0, writer.ends);
                        self.write("count", 0, 8, RemoteMemory.ofBytes(word)).assertDone(8);
                    }
                });
        awaitProgress();
        CompletableFuture<Long> killed = killLater(random.nextInt(100));
        int[] notes = new int[WriteForm.SLOTS];
        MemorySegment inbox = here.segment("inbox");
        while (true) {
            try {
                int slot = awaitNote(here);
                WriteForm.check(inbox, slot, sizes[slot], seed);
                notes[slot]++;
            } catch (TelpherException e) {
                checkLost(e);
                break;
            }
        }
        checkNotice(System.nanoTime() - Peer.result(killed));
        long progress = Bytes.acquire(here.segment("progress"), 0);
        for (int slot = 0; slot < WriteForm.SLOTS; slot++) {
            // What was done at least; beyond what the peer has told, one round may have begun.
            long done = (progress - slot + WriteForm.SLOTS - 1) / WriteForm.SLOTS;
            boolean counts = WriteForm.of(slot) == WriteForm.COUNTING;
            boolean notifies = WriteForm.of(slot) == WriteForm.NOTIFYING;
            assertThat(counter(inbox, slot)).isBetween(counts ? done : 0, counts ? done + 1 : 0);
            assertThat(notes[slot])
                    .isBetween(notifies ? (int) done : 0, notifies ? (int) done + 1 : 0);
            if (done > 0) {
                WriteForm.check(inbox, slot, sizes[slot], seed);
            }
        }
    }
}
