package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.memory.Raw;
import io.telpher.spi.Deadline;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// Frames through two rings in shared memory, one for each direction.
///
/// Each side keeps its positions in fields of its own and touches the other side's words only when
/// it must: the producer reads `HEAD` when the ring seems full, everybody reads the other's
/// `PARKED` once per batch. Nothing that lies in shared memory is trusted: a record's length is
/// read once, checked, and the header is copied before anybody looks at it.
///
/// **Waking.** Whoever publishes (a record, space, a confirmation) then makes a full fence and
/// reads the other side's `PARKED`; whoever parks sets `PARKED`, makes a full fence and looks once
/// more. One of the two sees the other. What [#poll] and [#confirm] publish is looked after at the
/// next [#poll] that finds nothing or at [#park], whichever comes first, which keeps the fence out
/// of the way of an answer.
final class ShmRingLane implements Lane {
    /// A quarter of the ring, so that the two sides work at the same time on large transfers.
    static final int MAX_PAYLOAD = RingMemory.DATA / 4;

    /// In a record's length: the payload lies in shared memory, where the record's next 8 bytes
    /// say. The length itself is that payload's.
    private static final int LENT = 1 << 30;

    /// The producer keeps commit words zeroed so far ahead, so that it owns the lines of the next
    /// small record before it writes them.
    private static final int ZEROED_AHEAD = 2 * RingMemory.ALIGNMENT;

    private final ShmLink link;

    /// Where payloads are collected that the receiver wants to look at: it must not read them in
    /// the ring, where the peer could still change them between a check and the use.
    /// Made when one comes that needs it. Under the poll token.
    private MemorySegment buffer = MemorySegment.NULL;

    private final Arena arena = Arena.ofShared();

    /// Both rings, for payloads.
    private final MemorySegment inbound;

    private final MemorySegment outbound;

    /// Where payloads of this side's need not be copied from; set once.
    private volatile MemorySegment shared = MemorySegment.NULL;

    // Addresses of the rings and of the private copy of the header of the frame that is being taken
    // in, which must not change between a check and the use; 0 once the lane is closed.
    private long in;
    private long out;
    private long header;

    // Producer, under the send token. Positions count bytes since the start and never wrap.

    /// Where the next record starts; its commit word is zero already.
    private long tail;

    /// Up to here all words are zero at which a record could start. A fresh ring is all zero.
    private long zeroedTo = RingMemory.DATA;

    /// The consumer's position as last read: the line that holds it is touched only when the ring
    /// seems full.
    private long freeHead;

    /// Whether records were committed since the last look at the consumer's PARKED.
    private boolean unflushed;

    /// Bytes that the last refused record needs, 0 when none was refused. Written under the send
    /// token, read under both.
    private volatile long wanted;

    // Consumer, under the poll token.
    private final Placement placement = new Placement();

    /// Where the next record starts.
    private long head;

    /// The position at which a waiting producer was last woken.
    private long announcedHead;

    /// What the engine was last told of the peer's confirmations: news since then forbid parking.
    private long seenConfirmed;

    /// Whether a confirmation was stored since the last look at the peer's PARKED.
    private boolean unannounced;

    private volatile @Nullable String failure;

    ShmRingLane(ShmLink link) {
        this.link = link;
        inbound = link.inbound().segment();
        outbound = link.outbound().segment();
        in = inbound.address();
        out = outbound.address();
        header = arena.allocate(HEADER, 64).address();
    }

    ShmLink link() {
        return link;
    }

    @Override
    public String path() {
        return "shm-ring";
    }

    @Override
    public String text() {
        return link.text();
    }

    @Override
    public int maxPayload() {
        return MAX_PAYLOAD;
    }

    @Override
    public @Nullable MemorySegment share(long bytes, Deadline deadline) {
        MemorySegment made = link.share(bytes, deadline);
        if (made != null) {
            shared = made;
        }
        return made;
    }

    /// Payload first, then the header without its first word, then the zero at which the consumer
    /// will stop, then the commit word with release: whoever sees that sees all the rest.
    @Override
    public int send(
            MemorySegment source,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            @Nullable Object owner) {
        if (failure != null || link.lost() != null) {
            return DEAD;
        }
        MemorySegment lending = shared;
        long lentAt = payload.address() + offset - lending.address();
        boolean lent = length > 0 && lentAt >= 0 && lentAt <= lending.byteSize() - length;
        if (length < 0 || (length > MAX_PAYLOAD && !lent)) {
            throw new IllegalArgumentException(
                    "a payload of " + length + " bytes; this lane takes 0 to " + MAX_PAYLOAD);
        }
        long bytes = RingMemory.recordBytes(lent ? Long.BYTES : length);
        if (!hasRoom(bytes)) {
            return failure != null ? DEAD : FULL;
        }
        long ring = out;
        long start = RingMemory.at(tail);
        if (lent) {
            Words.set(ring + start + HEADER, lentAt);
        } else if (length > 0) {
            MemorySegment.copy(payload, offset, outbound, start + HEADER, length);
        }
        for (int i = 8; i < HEADER; i += 8) {
            Words.set(ring + start + i, source.get(JAVA_LONG_UNALIGNED, at + i));
        }
        long next = tail + bytes;
        if (zeroedTo <= next) {
            Words.set(ring + RingMemory.at(next), 0);
            zeroedTo = next + RingMemory.ALIGNMENT;
        }
        long first = source.get(JAVA_LONG_UNALIGNED, at);
        Words.setRelease(ring + start, lent ? first | (long) LENT << 32 : first);
        tail = next;
        unflushed = true;
        return OK;
    }

    /// Whether a record and the commit word after it fit. When they do not, the other side is asked
    /// to say when it has freed space.
    private boolean hasRoom(long bytes) {
        long needed = bytes + RingMemory.ALIGNMENT;
        if (tail + needed - freeHead <= RingMemory.DATA) {
            forgetWanted();
            return true;
        }
        if (!readHead()) {
            return false;
        }
        if (tail + needed - freeHead > RingMemory.DATA) {
            // Ask first, then look again: the consumer publishes its position first and then looks
            // whether somebody asked.
            Words.setVolatile(out + RingMemory.WAITING, 1);
            VarHandle.fullFence();
            if (!readHead()) {
                return false;
            }
            if (tail + needed - freeHead > RingMemory.DATA) {
                wanted = needed;
                return false;
            }
        }
        forgetWanted();
        return true;
    }

    /// A record fits, be it the refused one or a smaller one that takes its place: nobody waits for
    /// space any more. Read before written: a volatile store costs a fence on every record.
    private void forgetWanted() {
        if (wanted != 0) {
            wanted = 0;
        }
    }

    /// Reads how far the consumer is.
    ///
    /// @return false when it cannot be there: the lane is dead
    private boolean readHead() {
        long position = Words.getAcquire(out + RingMemory.HEAD);
        if (position < freeHead || position > tail || position % RingMemory.ALIGNMENT != 0) {
            fail(
                    "process %d claims to have read up to %d of %d bytes, after %d"
                            .formatted(link.pid(), position, tail, freeHead));
            return false;
        }
        freeHead = position;
        return true;
    }

    /// Records are visible to a polling consumer as soon as they are committed; this wakes one that
    /// sleeps, once for the whole batch.
    @Override
    public int flush() {
        if (unflushed && out != 0) {
            unflushed = false;
            ringIfParked();
            zeroAhead();
        }
        return failure != null ? DEAD : OK;
    }

    /// Zeroes the commit words behind the next one, now that nobody waits for this side.
    private void zeroAhead() {
        long to = Math.min(tail + ZEROED_AHEAD, freeHead + RingMemory.DATA);
        while (zeroedTo < to) {
            Words.set(out + RingMemory.at(zeroedTo), 0);
            zeroedTo += RingMemory.ALIGNMENT;
        }
    }

    /// Wakes the other side if it sleeps. Comes after whatever was published for it.
    private void ringIfParked() {
        VarHandle.fullFence();
        // A plain look first: the compare-and-set would take the line away from the other side.
        if (Words.getOpaque(out + RingMemory.PARKED) != 0
                && Words.compareAndSet(out + RingMemory.PARKED, 1, 0)) {
            link.ringPeer();
        }
    }

    @Override
    public void releaseOutbound(Object owner) {
        // send() copies the payload at once.
    }

    @Override
    public int poll(Receiver receiver, int limit) {
        if (failure != null) {
            return DEAD;
        }
        // Read before the ring: what the peer wrote before it was lost is still delivered.
        String lost = link.lost();
        int frames = 0;
        while (frames < limit) {
            long word = Words.getAcquire(in + RingMemory.at(head));
            if (word == 0) {
                break;
            }
            if (!take(word, receiver)) {
                return frames > 0 ? frames : DEAD;
            }
            frames++;
        }
        if (frames > 0) {
            // Cheap while the producer does not read it, which it does once per lap at most.
            Words.setRelease(in + RingMemory.HEAD, head);
        }
        // No fence before this look: a request that it misses is seen by the next call, or by
        // park(), which does make one. A producer is woken for a quarter of the ring or for all of
        // it, not for every record.
        if (Words.getOpaque(in + RingMemory.WAITING) != 0
                && (frames < limit || head - announcedHead >= RingMemory.DATA / 4)) {
            announceSpace();
        }
        if (frames == 0) {
            if (unannounced) {
                unannounced = false;
                ringIfParked();
            }
            if (lost != null) {
                fail(lost);
                return DEAD;
            }
        }
        return frames;
    }

    /// Answers a producer that waits for space, and lets go of whatever else it may sleep for.
    private void announceSpace() {
        announcedHead = head;
        Words.setOpaque(in + RingMemory.WAITING, 0);
        unannounced = false;
        ringIfParked();
    }

    /// Takes in one record.
    ///
    /// @return false when it makes no sense: the lane is dead
    private boolean take(long word, Receiver receiver) {
        long start = RingMemory.at(head);
        int length = (int) (word >>> 32) & ~LENT;
        MemorySegment lending = (word >>> 32 & LENT) == 0 ? null : link.peerShared();
        long lentAt = lending == null ? 0 : Words.get(in + start + HEADER);
        if (length < 0
                || (lending == null
                        ? length > MAX_PAYLOAD || (word >>> 32 & LENT) != 0
                        : lentAt < 0 || lentAt > lending.byteSize() - length)) {
            fail(
                    "process %d sent a frame of %d bytes of payload at %d of %s bytes that it shares, where %d are the most that it sends"
                            .formatted(
                                    link.pid(),
                                    length,
                                    lentAt,
                                    lending == null ? "no" : lending.byteSize(),
                                    MAX_PAYLOAD));
            return false;
        }
        Words.set(header, word & ~((long) LENT << 32));
        for (int i = 8; i < HEADER; i += 8) {
            Words.set(header + i, Words.get(in + start + i));
        }
        placement.discard();
        placement.lend(lending);
        if (!receiver.begin(Raw.ALL, header, placement)) {
            fail("process %d sent a frame header that makes no sense".formatted(link.pid()));
            return false;
        }
        MemorySegment from = lending == null ? inbound : lending;
        long at = lending == null ? start + HEADER : lentAt;
        MemorySegment payload = MemorySegment.NULL;
        long payloadAt = 0;
        if (length > 0) {
            switch (placement.mode()) {
                case INTO -> copyInto(from, at, length);
                case BUFFER -> {
                    payload = room(length);
                    MemorySegment.copy(from, at, payload, 0, length);
                }
                case KEEP -> {
                    payload = from;
                    payloadAt = at;
                }
                case DISCARD -> {}
            }
        }
        head += RingMemory.recordBytes(lending == null ? length : Long.BYTES);
        receiver.end(Raw.ALL, header, payload, payloadAt, placement);
        return true;
    }

    /// Where a payload is collected; longer than usual are those that lie in shared memory.
    private MemorySegment room(int length) {
        if (buffer.byteSize() < length) {
            buffer = arena.allocate(Math.max(length, MAX_PAYLOAD), 64);
        }
        return buffer;
    }

    /// Copies to the destination; one that the program has closed costs its own transfer, not the
    /// lane.
    private void copyInto(MemorySegment from, long at, int length) {
        try {
            MemorySegment.copy(from, at, placement.segment(), placement.offset(), length);
        } catch (IllegalStateException e) {
            Object owner = placement.owner();
            if (owner != null) {
                boolean unused = placement.revoke(owner);
            }
        }
    }

    @Override
    public void discardInbound(Object owner) {
        // A frame begins and ends within one call of poll().
    }

    /// A word of the ring's header takes the place of frames.
    @Override
    public boolean confirmsNatively() {
        return true;
    }

    /// Only stores: the fence that finds a sleeper comes with the next empty poll or with park(),
    /// so that an answer to what was just received leaves without waiting for it.
    @Override
    public void confirm(long sequence) {
        if (in == 0) {
            return;
        }
        Words.setRelease(in + RingMemory.APPLIED, sequence);
        unannounced = true;
    }

    @Override
    public long confirmed() {
        if (out != 0) {
            seenConfirmed = Words.getAcquire(out + RingMemory.APPLIED);
        }
        return seenConfirmed;
    }

    @Override
    public int descriptor() {
        return link.doorbell();
    }

    /// A full ring is a word in its header, and the doorbell tells when there is space.
    @Override
    public boolean wantsWrite() {
        return false;
    }

    /// Sets PARKED, then looks at everything that could have come before the others saw it:
    /// records, confirmations, space, the loss of the peer. Pays what poll() and confirm() still
    /// owe.
    @Override
    public boolean park() {
        if (failure != null) {
            return false;
        }
        Words.setOpaque(in + RingMemory.PARKED, 1);
        VarHandle.fullFence();
        long needed = wanted;
        if (needed != 0) {
            // After PARKED is seen by all: a consumer that clears an older WAITING looks at PARKED
            // after that, so either this request stays or the doorbell rings.
            Words.setOpaque(out + RingMemory.WAITING, 1);
            VarHandle.fullFence();
        }
        boolean waiting = Words.getOpaque(in + RingMemory.WAITING) != 0;
        if (unannounced || waiting) {
            announceSpace();
        }
        if (Words.getAcquire(in + RingMemory.at(head)) == 0
                && Words.getAcquire(out + RingMemory.APPLIED) == seenConfirmed
                && link.lost() == null
                && !hasRoomSince(needed)) {
            return true;
        }
        Words.setOpaque(in + RingMemory.PARKED, 0);
        return false;
    }

    /// Whether the space that the producer misses has come to be. The producer's own position may
    /// move at the same time; then its next look decides.
    private boolean hasRoomSince(long needed) {
        return needed != 0
                && tail + needed - Words.getAcquire(out + RingMemory.HEAD) <= RingMemory.DATA;
    }

    /// Always drains: a ring of the bell that came too late for its sleep would end the next one,
    /// and with a bell that stays readable there would be no sleep at all.
    @Override
    public void unpark() {
        if (in == 0) {
            return;
        }
        Words.setOpaque(in + RingMemory.PARKED, 0);
        long unused = EventFd.drain(link.doorbell());
    }

    /// One host: the hang-up and the pidfd tell more than silence could.
    @Override
    public long silence() {
        return 0;
    }

    @Override
    public @Nullable String failure() {
        return failure != null ? failure : link.lost();
    }

    /// The first reason stays.
    private void fail(String reason) {
        if (failure == null) {
            failure = reason;
        }
    }

    @Override
    public void close() {
        if (in == 0) {
            return;
        }
        fail("closed");
        in = 0;
        out = 0;
        header = 0;
        arena.close();
        link.laneClosed();
    }
}
