package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/// Two ring lanes of this process that lead to each other, without sockets. Used again and again,
/// since each costs mappings and descriptors: [#take()] and [#giveBack()].
final class RingPair {
    private static final Queue<RingPair> POOL = new ConcurrentLinkedQueue<>();

    /// Bytes of payload of each record.
    static final int PAYLOAD = 128;

    /// How often a test looks before it sleeps, at most.
    static final int LOOKS = 24;

    final ShmRingLane producer;
    final ShmRingLane consumer;
    private final int producersBell = EventFd.create();
    private final int consumersBell = EventFd.create();
    private final MemorySegment header = Arena.global().allocate(Lane.HEADER, 64);
    private final MemorySegment payload = Arena.global().allocate(PAYLOAD, 64);
    private final Collector collector = new Collector();
    private long number;

    private RingPair() {
        RingMemory forth = RingMemory.create();
        RingMemory back = RingMemory.create();
        producer = lane(back, forth, producersBell, consumersBell);
        consumer = lane(forth, back, consumersBell, producersBell);
    }

    private static ShmRingLane lane(RingMemory in, RingMemory out, int bell, int peersBell) {
        return new ShmRingLane(
                new ShmLink(
                        null,
                        null,
                        new ShmLink.Parts(
                                "stress", -1, null, 1, in, out, null, null, null, bell, peersBell,
                                -1)));
    }

    static RingPair take() {
        RingPair pooled = POOL.poll();
        return pooled != null ? pooled : new RingPair();
    }

    /// Empties both directions and ends all sleep.
    void giveBack() {
        int unused = drain();
        producer.unpark();
        consumer.unpark();
        POOL.add(this);
    }

    /// Sends a record whose words are all the same.
    ///
    /// @return what the lane said
    int send() {
        long n = number + 1;
        header.fill((byte) 0);
        header.set(JAVA_LONG, 0, 1 | (long) PAYLOAD << 32);
        for (int i = 8; i < Lane.HEADER; i += 8) {
            header.set(JAVA_LONG, i, n);
        }
        for (int i = 0; i < PAYLOAD; i += 8) {
            payload.set(JAVA_LONG, i, n);
        }
        int result = producer.send(header, 0, payload, 0, PAYLOAD, null);
        if (result == Lane.OK) {
            number = n;
        }
        return result;
    }

    /// Takes in at most so many records.
    ///
    /// @return how many; -1 when one was not what had been sent
    int poll(int limit) {
        int frames = consumer.poll(collector, limit);
        return collector.broken ? -1 : frames;
    }

    /// Takes in what is there.
    int drain() {
        int all = 0;
        for (int n = poll(64); n > 0; n = poll(64)) {
            all += n;
        }
        return all;
    }

    boolean consumersBellRang() {
        return EventFd.drain(consumersBell) > 0;
    }

    boolean producersBellRang() {
        return EventFd.drain(producersBell) > 0;
    }

    private static final class Collector implements Receiver {
        private long expected = 1;
        boolean broken;

        @Override
        public boolean begin(MemorySegment header, long at, Placement placement) {
            for (int i = 8; i < Lane.HEADER; i += 8) {
                broken |= header.get(JAVA_LONG, at + i) != expected;
            }
            placement.buffer();
            return true;
        }

        @Override
        public void end(
                MemorySegment header, long at, MemorySegment got, long gotAt, Placement placement) {
            for (int i = 0; i < PAYLOAD; i += 8) {
                broken |= got.get(JAVA_LONG, gotAt + i) != expected;
            }
            expected++;
        }
    }
}
