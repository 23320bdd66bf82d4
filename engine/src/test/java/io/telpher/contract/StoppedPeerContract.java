package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.RemoteMemory;
import io.telpher.TransferOptions;
import java.lang.foreign.MemorySegment;
import java.time.Duration;

/// A peer that does nothing for a while, and the memory that both sides look at afterwards.
@Setting.In({Place.TWO, Place.NETNS})
abstract class StoppedPeerContract extends Contract {
    static final int SIZE = 1 << 20;
    static final byte OURS = 0x77;
    static final Duration DEADLINE = Duration.ofMillis(250);
    static final Duration DRAIN = Duration.ofMillis(1000);

    /// For two busy cores.
    static final Duration SLACK = Duration.ofMillis(1500);

    static final long WITHIN = DEADLINE.plus(DRAIN).plus(SLACK).toNanos();

    static final TransferOptions SOON = TransferOptions.DEFAULTS.withDeadline(DEADLINE);

    /// Shorter than most stops in these tests, which it must not notice.
    @Override
    Participant.Tweak tweak() {
        return options -> options.withLiveness(Duration.ofSeconds(1));
    }

    PeerProcess process() {
        return (PeerProcess) peer;
    }

    @Override
    void release() {
        process().go();
        super.release();
    }

    void prepareMemory(long seed) {
        for (String name : new String[] {"written", "sent", "read", "received"}) {
            region(name, Kind.FOREIGN, SIZE);
        }
        here.fill("written", 0, SIZE, seed);
        here.fill("sent", 0, SIZE, seed);
    }

    void takeMemoryBack() {
        for (String name : new String[] {"written", "sent", "read", "received"}) {
            here.segment(name).fill(OURS);
        }
    }

    void checkOurs() {
        for (String name : new String[] {"written", "sent", "read", "received"}) {
            Content.checkAll(here.segment(name), 0, SIZE, OURS);
        }
    }

    /// Checks that each byte is either the old or the new one, and none is what was put into the
    /// source after the transfer's end.
    static void checkOldOrNew(Participant self, String name, long seed) {
        MemorySegment memory = self.segment(name);
        long size = memory.byteSize();
        MemorySegment old = Bytes.off(size, STALE);
        MemorySegment fresh = Bytes.off(size, seed);
        long at = 0;
        while (at < size) {
            long next = Math.max(same(memory, old, at), same(memory, fresh, at));
            if (next == at) {
                throw new AssertionError(
                        "byte %d is %02x".formatted(at, memory.get(Bytes.BYTE, at)));
            }
            at = next;
        }
    }

    /// @return until where both are the same
    private static long same(MemorySegment one, MemorySegment other, long from) {
        long size = one.byteSize();
        long at = MemorySegment.mismatch(one, from, size, other, from, size);
        return at < 0 ? size : from + at;
    }

    /// Checks that both sides can still use the connection.
    void checkSurvival(RemoteMemory target) {
        assertThat(connection().isOpen()).as("%s", connection().failure()).isTrue();
        long seed = random.nextLong();
        here.fill("written", 0, SIZE, seed);
        here.write("written", 0, SIZE, target).assertDone(SIZE);
        peer.check("target", 0, SIZE, seed);
        byte[] mine = here.region("read").remote().toBytes();
        peer.tell(
                self -> self.write("target", 0, SIZE, RemoteMemory.ofBytes(mine)).assertDone(SIZE));
        here.check("read", 0, SIZE, seed);
    }

    RemoteMemory addTarget() {
        RemoteMemory target = remote("target", Kind.TELPHER, SIZE);
        peer.fill("target", 0, SIZE, STALE);
        return target;
    }
}
