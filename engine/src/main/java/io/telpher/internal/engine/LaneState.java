package io.telpher.internal.engine;

import io.telpher.ConnectionMetrics;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// What the engine knows of one lane: its two tokens, what was sent and not confirmed yet, and how
/// far the peer's frames were applied.
final class LaneState {
    /// Most frames without confirmation.
    static final int WINDOW = 1024;

    /// Room for pieces and their table in one frame.
    static final int STAGING = 256 * 1024;

    /// What a sent frame was made of, so that it can be made again on another lane.
    enum Sent {
        DATA,
        READ,
        NOTE,
        TAIL,
        MESSAGE,
        REQUEST,
        STORED,
        CONTROL,
        NOP
    }

    private static final VarHandle RECEIVED;

    static {
        try {
            RECEIVED =
                    MethodHandles.lookup().findVarHandle(LaneState.class, "received", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final Lane lane;
    final int index;

    /// What it runs over, as the route or the channel has it.
    final String way;

    final Token sendToken;
    final Token pollToken;
    final Inbound inbound;

    // --- guarded by the send token

    /// Address of the header of the frame that is encoded.
    final long header;
    private @Nullable MemorySegment staging;

    /// The frame that is being cut for a GPU to fill, or null.
    OutboundStaging.@Nullable StagedFrame cutting;

    /// Frames whose payload GPUs copy out.
    final OutboundStaging out;

    /// Bulk of hosts and of devices, in turn.
    final Turns bulk;

    MemorySegment payload = MemorySegment.NULL;
    long payloadOffset;
    int payloadLength;
    @Nullable Object payloadOwner;

    /// A frame is encoded, and the lane has not taken it.
    boolean encoded;

    /// The last frame's payload lies in the staging buffer.
    boolean staged;

    /// Something was given to the lane since the last flush.
    boolean dirty;

    /// The lane took no more: it goes on when the link has drained.
    volatile boolean blocked;

    // --- guarded by the connection's lock
    private @Nullable Object[] refs = new Object[16];
    private Sent[] kinds = new Sent[16];
    private long[] offsets = new long[16];
    private int[] lengths = new int[16];
    long sent;
    long acked;
    long bytesInFlight;

    /// Payload bytes that may be in flight: keeps a slow lane from hoarding when there are faster
    /// ones.
    long window = Long.MAX_VALUE;

    long ackedBytes;
    long rateBytes;
    long rateSince;

    /// Sequences that were refused while the peer has not confirmed that it knows.
    final TreeSet<Long> held = new TreeSet<>();

    volatile int heldCount;
    boolean ackDue;

    // --- written under the poll token
    private volatile long received;

    /// Number of the sequenced frame that is being handled.
    long sequence;

    volatile long reported;
    long framesReceived;
    long bytesReceived;

    /// Notifications that went past the queue, straight to who waited for them.
    long notesTaken;

    long unreportedBytes;
    boolean urgent;

    /// Polls that brought nothing in a row, and polls left out; racy hints.
    int quietPolls;

    int skipped;
    int looks;

    /// How far the peer's frames say that it has applied this lane; only where that is not looked
    /// after at once.
    long told;

    /// When it first brought nothing, since it last brought something; 0 while it does.
    long idleSince;

    /// Polls that brought something since the confirmation was looked at.
    int busyLooks;

    // --- written under the send token
    long framesSent;
    long bytesSent;

    /// Frames that a dead lane had not delivered.
    long resends;

    // --- guarded by the connection's lock: how often it stood still, and whether it does now
    long stalls;
    boolean stalled;

    /// Copies by GPUs from or to memory of this lane's, and whoever prepares such memory: it is
    /// not closed before that has ended.
    final AtomicInteger copies = new AtomicInteger();

    // --- life
    volatile boolean dead;
    volatile @Nullable String death;
    volatile boolean parked;
    int watched = -1;

    /// The progress thread's key for that descriptor.
    long watchKey;

    /// The lane object is closed, or is being closed; written under both tokens.
    volatile boolean closed;

    /// Closing has come to its end: nothing that the peer sent over the lane's link, by itself or
    /// by NICs, arrives here any more. Fences are asked for and answered from here on.
    volatile boolean gone;

    /// The peer asked for the end of this lane and waits for the answer.
    boolean fenceOwed;

    /// The peer has been asked to end this lane, since the last tick and the last death of a lane:
    /// signals get lost with the lanes that carry them.
    boolean fenceAsked;

    /// The peer has said how far it came: what was left has been queued again.
    boolean fenced;

    /// A probe should go out on this lane.
    volatile boolean pingDue;

    /// A probe of the peer should be answered on this lane.
    volatile boolean pongDue;

    long framesSeen;
    long heardAt;

    /// @return how many sequenced frames were handled
    long received() {
        return received;
    }

    /// So many sequenced frames were handled, and all before them. Under the poll token.
    void received(long count) {
        RECEIVED.setRelease(this, count);
    }

    LaneState(ConnectionCore connection, Lane lane, int index, String way, Arena arena) {
        Platform platform = connection.platform;
        this.lane = lane;
        this.index = index;
        this.way = way;
        this.sendToken = new Token(platform);
        this.pollToken = new Token(platform);
        this.header = arena.allocate(Lane.HEADER, Lane.HEADER).address();
        this.out = new OutboundStaging(connection, this, arena);
        this.bulk = connection.outbound.bulk.turns(this);
        this.inbound = new Inbound(connection, this, arena);
        Arrays.fill(kinds, Sent.NOP);
        this.heardAt = platform.nanoTime();
    }

    /// Writes the first fields of the header. Under the send token.
    void start(int type, int flags, int count, int length, long transfer) {
        Frame.start(Raw.ALL, header, type, flags, count, length, transfer);
    }

    /// Adds flags to the header. Under the send token.
    void addFlags(int flags) {
        Frame.addFlags(Raw.ALL, header, flags);
    }

    /// Sets a field of the header. Under the send token.
    void set(int field, long value) {
        Frame.set(Raw.ALL, header, field, value);
    }

    /// Where a payload is put together: the buffer that a GPU is to fill, or the lane's own.
    MemorySegment staging(Arena arena) {
        if (cutting != null) {
            return cutting.buffer();
        }
        MemorySegment s = staging;
        if (s == null) {
            s = arena.allocate(Math.min(STAGING, lane.maxPayload()), 64);
            staging = s;
        }
        return s;
    }

    int stagingBytes() {
        return cutting != null ? cutting.room() : Math.min(STAGING, lane.maxPayload());
    }

    /// Most bytes of a frame's payload.
    int room() {
        return cutting != null ? cutting.room() : lane.maxPayload();
    }

    boolean windowFull() {
        return sent - acked >= WINDOW || bytesInFlight >= window;
    }

    /// Remembers a sequenced frame that is about to be sent.
    void remember(Sent kind, Object ref, long offset, int length) {
        int capacity = refs.length;
        if (sent - acked == capacity) {
            grow(capacity);
            capacity = refs.length;
        }
        int at = (int) (sent & capacity - 1);
        refs[at] = ref;
        kinds[at] = kind;
        offsets[at] = offset;
        lengths[at] = length;
        sent++;
        bytesInFlight += length;
    }

    private void grow(int capacity) {
        int bigger = capacity * 2;
        @Nullable Object[] r = new Object[bigger];
        Sent[] k = new Sent[bigger];
        long[] o = new long[bigger];
        int[] l = new int[bigger];
        Arrays.fill(k, Sent.NOP);
        for (long i = acked; i < sent; i++) {
            int from = (int) (i & capacity - 1);
            int to = (int) (i & bigger - 1);
            r[to] = refs[from];
            k[to] = kinds[from];
            o[to] = offsets[from];
            l[to] = lengths[from];
        }
        refs = r;
        kinds = k;
        offsets = o;
        lengths = l;
    }

    @Nullable Object ref(long sequence) {
        return refs[(int) (sequence & refs.length - 1)];
    }

    Sent kind(long sequence) {
        return kinds[(int) (sequence & refs.length - 1)];
    }

    long offset(long sequence) {
        return offsets[(int) (sequence & refs.length - 1)];
    }

    int length(long sequence) {
        return lengths[(int) (sequence & refs.length - 1)];
    }

    /// Whether notifications without a write were sent that are not settled.
    boolean hasNotes() {
        for (long sequence = acked; sequence < sent; sequence++) {
            if (kind(sequence) == Sent.TAIL
                    && ref(sequence) instanceof Operation op
                    && op.kind == Operation.Kind.NOTIFY) {
                return true;
            }
        }
        return false;
    }

    /// A frame that was remembered goes out empty.
    void annul(long sequence) {
        kinds[(int) (sequence & kinds.length - 1)] = Sent.NOP;
    }

    /// Forgets the oldest frame.
    void forget() {
        int at = (int) (acked & refs.length - 1);
        refs[at] = null;
        bytesInFlight -= lengths[at];
        ackedBytes += lengths[at];
        acked++;
    }

    /// Forgets the newest frames, which have not arrived: as if they had not been sent.
    void forgetFrom(long arrived) {
        while (sent > arrived) {
            int at = (int) (--sent & refs.length - 1);
            refs[at] = null;
            bytesInFlight -= lengths[at];
        }
    }

    /// How far the peer may be told that its frames were applied: not past a refusal that it may
    /// not know of.
    long reportable() {
        return held.isEmpty() ? received() : Math.min(received(), held.first() - 1);
    }

    /// Turns the frame that the lane has not taken into an empty one. Under the send token.
    void blank() {
        start(Frame.NOP, 0, 0, 0, 0);
        payloadLength = 0;
        payloadOwner = null;
        payload = MemorySegment.NULL;
    }

    ConnectionMetrics.Lane metrics() {
        return new ConnectionMetrics.Lane(
                index,
                lane.path(),
                lane.text(),
                !dead,
                framesSent,
                framesReceived,
                bytesSent,
                bytesReceived,
                resends,
                stalls,
                lane instanceof CheckedLane checked ? checked.mismatches() : 0,
                dead ? -1 : lane.roundTripNanos());
    }

    String name() {
        return "lane " + index + " (" + lane.path() + " " + lane.text() + ")";
    }
}
