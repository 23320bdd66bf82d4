package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.spi.Adverts;
import io.telpher.spi.Clock;
import io.telpher.spi.Window;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// One posted operation, in a slot of its connection's [OperationTable]. Its fields are guarded by
/// the connection's lock; `state` is written under it, and read by anybody. What the operation was
/// asked to do does not change while it is posted.
///
/// States: `FREE` -> `PENDING` -> (`ENDING` ->) `ENDED` -> `FREE`. The first who moves it away from
/// `PENDING` decides how it ends. `ENDING` means: a cause is there, nothing new is cut from it, and
/// it waits until the lanes have let go of its memory and the frames that were sent are confirmed,
/// or until the drain limit.
final class Operation implements Window.Guard {
    /// Times from here on may start a tick late.
    private static final long LAZY_NANOS = 2_000_000_000L;

    static final int FREE = 0;
    static final int PENDING = 1;
    static final int ENDING = 2;
    static final int ENDED = 3;

    /// What kind of operation it is.
    enum Kind {
        WRITE,
        READ,
        SEND,
        RECEIVE,
        NOTIFY,
        /// Answers a peer's read request.
        SERVE,
        LOOKUP
    }

    /// What is cut from it next.
    enum Stage {
        DATA,
        /// Parts of a notification that is too large for the tail.
        NOTE,
        TAIL,
        /// The whole message of a short send.
        MESSAGE,
        /// The request of a long send.
        REQUEST,
        /// The word that this side has stored the whole message by itself.
        STORED,
        /// Nothing: it waits for confirmations, data, credits or a match.
        WAIT
    }

    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(Operation.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final int index;
    private final Clock clock;
    int generation = 1;
    private volatile int state = FREE;

    Kind kind = Kind.WRITE;
    Stage stage = Stage.WAIT;

    /// Who gets the result, or null when a token does.
    @Nullable TransferImpl transfer;

    // Local side: a range of one region, or pieces.
    @Nullable RegionImpl region;
    long localOffset;
    @Nullable MemorySlices localPieces;

    // Remote side: a range of one region, or pieces.
    @Nullable RemoteMemory remote;
    long remoteOffset;
    @Nullable RemoteSlices remotePieces;

    /// What counts it into its local region, where it has one alone; pieces count by themselves.
    final RegionHold hold = new RegionHold();

    /// The regions of both sides, once somebody has looked.
    final OperationRegions regions = new OperationRegions();

    long length;
    long tag;
    long position;

    /// Of a send or receive, from when it is posted until its slot is given back.
    @Nullable TagChannel channel;

    /// When it must end, in nanoseconds of the clock; 0 while nobody has looked at the clock for
    /// it.
    long deadline;

    /// Nanoseconds that it may take; the deadline follows from this at the first look. Of what has
    /// stood among the [StreamWaits], those that it had left when it could begin.
    long timeout;

    boolean high;

    /// The notification's bytes; kept for the next use of this slot while it is small.
    byte[] note = new byte[0];
    int noteLength = -1;
    @Nullable CounterUpdate counter;

    // Progress.
    long sent;
    int noteSent;

    /// Its notification has been given credit: it may go out.
    boolean noteCredited;

    boolean started;
    boolean tailSent;

    /// The lane on which its tail may follow its data without waiting for the confirmation.
    @Nullable LaneState carrier;

    /// The data went through a window: no frames of it.
    boolean direct;

    /// This side has asked the peer to withdraw a receive.
    boolean withdrawing;

    long received;
    long expected;
    int unconfirmed;
    long confirmedBytes;

    /// A thread or a device is copying through a window right now.
    boolean copying;

    /// Whether its thread posts more, with which a device may begin it; belongs to that thread.
    boolean together;

    /// Copies by devices that are under way from or to its memory, for frames.
    int copies;

    /// Bytes that a device has copied; touched by whoever has to do with `copying`.
    long copied;

    /// The copies that a device makes for this slot; made once.
    @Nullable DeviceJob job;

    /// Those that a link's queue makes; made once for each link.
    @Nullable WorkJob workJob;

    /// The one that has carried some of it, when the rest is to go out again. Belongs to whoever
    /// has to do with `copying`.
    @Nullable WorkJob begun;

    /// For the walk over the pieces; belongs to whoever has to do with `copying`.
    final PieceWalk walk = new PieceWalk();

    /// What a NIC was writing for it may still arrive, until that is fenced: see [Unfenced].
    @Nullable WorkJob unfenced;

    /// The peer has to hear that this send has ended, when it does not copy any more.
    boolean abortOwed;

    /// The lanes have let go of its memory.
    boolean letGo;

    /// A receive that waits for the sender's consent.
    boolean asking;

    /// A receive that the peer was told of.
    boolean advertised;

    /// Bytes may be written that this side does not see coming: of a receive whose
    /// memory the peer may store into by itself, until the peer has said that it does not; or by a
    /// device that is lost.
    boolean exposed;

    /// An exposed receive from which the peer can be kept out ([Adverts]).
    boolean revocable;

    /// Where a send is inside the receive that it stores into, or null; belongs to whoever has to
    /// do with `copying`.
    @Nullable Adverts inside;

    /// The token of that receive.
    long insideOf;

    /// The peer's side of it has ended, or never began: it needs not be asked.
    boolean peerEnded;

    /// Bytes of the stream that frames have been or are being placed for: no more than `length` in
    /// all, so that no frame can write after the last byte was counted.
    long claimed;

    /// Nobody takes its result.
    boolean orphaned;

    long quantum;
    long peerToken;
    long streamBase;

    /// It takes longer than it should; set by the progress thread's tick.
    boolean slow;

    /// Where it stands among the [StreamWaits], or null. While it does nothing touches its memory.
    StreamWaits.@Nullable Line line;

    /// Its number among those, while it stands there.
    long kept;

    /// Stands in a queue, which links the operations by `next`.
    boolean queued;

    /// Ended and given back while it stood in a queue.
    boolean released;

    @Nullable Operation next;

    // Result.
    int reason;
    long drainUntil;

    /// Written by each end.
    RemoteQuiet quiet = RemoteQuiet.UNKNOWN;

    @Nullable TelpherException error;
    @Nullable RemoteMemory found;
    String path = "";

    Operation(int index, Clock clock) {
        this.index = index;
        this.clock = clock;
    }

    long token() {
        return index | (long) generation << 32;
    }

    int state() {
        return state;
    }

    /// Moves it on, if it still stands where the caller thinks. Under the lock, and no fence: who
    /// looks at something next that others write before they look at this makes one.
    boolean advance(int from, int to) {
        if (state != from) {
            return false;
        }
        setState(to);
        return true;
    }

    void setState(int value) {
        STATE.setRelease(this, value);
    }

    /// A slot's operations are mostly of one kind, and a collector can make the store of a
    /// reference cost a fence (G1, where the object is old): so what stands there already is not
    /// written again. The same is done where else a short operation writes constants.
    void setKind(Kind what) {
        if (kind != what) {
            kind = what;
        }
    }

    /// See [#setKind].
    void setQuiet(RemoteQuiet what) {
        if (quiet != what) {
            quiet = what;
        }
    }

    boolean isPending() {
        return state == PENDING;
    }

    @Override
    public boolean goOn() {
        Adverts adverts = inside;
        return state == PENDING
                && clock.nanoTime() - deadline() < 0
                && (adverts == null || adverts.isOpen(insideOf));
    }

    /// Gives it so much time. Reading the clock costs more than all the rest of a short operation:
    /// the progress thread does it at its next tick, unless the time is short.
    void allow(long nanos) {
        timeout = nanos;
        deadline = nanos < LAZY_NANOS ? dueIn(nanos) : 0;
    }

    /// The moment when it must end.
    long deadline() {
        long due = deadline;
        if (due == 0) {
            due = dueIn(timeout);
            deadline = due;
        }
        return due;
    }

    private long dueIn(long nanos) {
        long due = clock.nanoTime() + Math.min(nanos, Long.MAX_VALUE / 4);
        return due == 0 ? 1 : due;
    }

    /// Whether it counts as slow after a while: what waits for others to do something does not.
    boolean isTimed() {
        return line == null
                && (kind == Kind.WRITE
                        || kind == Kind.READ
                        || kind == Kind.SEND
                        || kind == Kind.NOTIFY);
    }

    /// It could not begin before now, which is when its age counts from.
    void beginsNow() {
        timeout = deadline() - clock.nanoTime();
    }

    /// For how long it has been under way since it could begin, in nanoseconds. What nobody has
    /// looked at the clock for is at most a tick older.
    long age(long now) {
        return now - (deadline() - Math.min(timeout, Long.MAX_VALUE / 4));
    }

    long age(Clock by) {
        return age(by.nanoTime());
    }

    /// Whether it waits for a stream, or is a receive for which no byte has come. Whether a peer
    /// that may store into it by itself has begun, this side cannot see.
    boolean isUntouched() {
        return line != null || (kind == Kind.RECEIVE && claimed == 0 && !exposed);
    }

    /// Whether something follows the data of a write.
    boolean hasTail() {
        return noteLength >= 0 || counter != null;
    }

    /// Whether all data of a write or notification has been sent, or needs not be.
    boolean dataSent() {
        return kind == Kind.NOTIFY || direct || (started && sent == length);
    }

    /// How many bytes follow in local memory from a position of the stream without a gap.
    long contiguous(long at) {
        MemorySlices pieces = localPieces;
        if (pieces == null) {
            return length - at;
        }
        int piece = pieces.pieceAt(at);
        return pieces.start(piece) + pieces.length(piece) - at;
    }

    /// The region that holds a position of the stream.
    RegionImpl regionAt(long at) {
        MemorySlices pieces = localPieces;
        if (pieces == null) {
            RegionImpl only = region;
            if (only == null) {
                throw new IllegalStateException("an operation without memory");
            }
            return only;
        }
        return (RegionImpl) pieces.region(pieces.pieceAt(at));
    }

    /// Whether local memory is a device's, at least at the beginning.
    boolean isOnDevice() {
        return (region != null || localPieces != null) && length > 0 && !regionAt(0).isHost();
    }

    /// The device whose memory holds a position of the stream, or null for host memory, and where
    /// there is none.
    @Nullable Device deviceAt(long at) {
        if ((region == null && localPieces == null) || at >= length) {
            return null;
        }
        DeviceMemory memory = regionAt(at).deviceMemory();
        return memory == null ? null : memory.device();
    }

    /// How many bytes from a position of the stream on lie on one device, at most so many.
    long onDevice(Device device, long at, long most) {
        if (localPieces == null) {
            return Math.min(length - at, most);
        }
        long end = Math.min(length, at + most);
        long to = at;
        while (to < end && device.equals(deviceAt(to))) {
            to += contiguous(to);
        }
        return Math.min(to, end) - at;
    }

    /// Where a position of the stream lies in its region.
    long offsetAt(long at) {
        MemorySlices pieces = localPieces;
        if (pieces == null) {
            return localOffset + at;
        }
        int piece = pieces.pieceAt(at);
        return pieces.offset(piece) + at - pieces.start(piece);
    }

    /// Copies bytes of the stream out of local memory.
    void gather(long at, MemorySegment into, long offset, long bytes) {
        copy(at, into, offset, bytes, true);
    }

    /// Copies bytes into local memory at a position of the stream.
    void scatter(long at, MemorySegment from, long offset, long bytes) {
        copy(at, from, offset, bytes, false);
    }

    private void copy(long at, MemorySegment other, long offset, long bytes, boolean out) {
        MemorySlices pieces = localPieces;
        if (pieces == null) {
            RegionMemory own = regionAt(at).memory();
            if (out) {
                own.copyOut(localOffset + at, other, offset, bytes);
            } else {
                own.copyIn(localOffset + at, other, offset, bytes);
            }
            return;
        }
        long left = bytes;
        int piece = left == 0 ? 0 : pieces.pieceAt(at);
        long inside = left == 0 ? 0 : at - pieces.start(piece);
        long other0 = offset;
        while (left > 0) {
            long n = Math.min(left, pieces.length(piece) - inside);
            RegionMemory own = ((RegionImpl) pieces.region(piece)).memory();
            long from = pieces.offset(piece) + inside;
            if (out) {
                own.copyOut(from, other, other0, n);
            } else {
                own.copyIn(from, other, other0, n);
            }
            other0 += n;
            left -= n;
            inside = 0;
            piece++;
        }
    }

    /// Keeps a copy of a notification's bytes.
    void keepNote(MemorySegment payload, long offset, int bytes) {
        if (note.length < bytes) {
            note = new byte[Math.max(bytes, 64)];
        }
        MemorySegment.copy(
                payload, java.lang.foreign.ValueLayout.JAVA_BYTE, offset, note, 0, bytes);
        noteLength = bytes;
    }

    /// Whether its caller's streams have got to where it waits for them.
    boolean isAtGate() {
        TransferImpl posted = transfer;
        if (posted == null) {
            return true;
        }
        Gpu.Gate gate = posted.gate;
        return (gate == null || gate.isReached()) && posted.after.areReached();
    }

    /// Forgets everything, ready for the next use.
    void clear() {
        if (wasOnlyDirect()) {
            assert isWithoutFrames();
        } else {
            forgetFrames();
        }
        transfer = null;
        region = null;
        localPieces = null;
        remote = null;
        remotePieces = null;
        regions.clear();
        walk.clear();
        localOffset = 0;
        remoteOffset = 0;
        length = 0;
        high = false;
        direct = false;
        received = 0;
        together = false;
        unfenced = null;
        begun = null;
        copied = 0;
        slow = false;
        reason = 0;
        path = "";
    }

    /// Whether it was a write or read through windows that is done, and nothing else: most short
    /// ones are, and writing all that frames and failures leave behind is a tenth of their cost.
    private boolean wasOnlyDirect() {
        return direct
                && reason == Connection.DONE
                && (kind == Kind.WRITE || kind == Kind.READ)
                && !hasTail()
                && claimed == 0 // a peer that misbehaves can leave these two
                && !peerEnded;
    }

    private boolean isWithoutFrames() {
        return stage == Stage.WAIT
                && sent + noteSent + unconfirmed + confirmedBytes + copies + claimed == 0
                && quantum + peerToken + streamBase == 0
                && !(noteCredited || started || tailSent || withdrawing || copying || abortOwed)
                && !(letGo || asking || exposed || revocable || advertised || peerEnded)
                && !orphaned
                && line == null
                && carrier == null
                && inside == null
                && error == null
                && found == null;
    }

    /// Forgets what is left of frames, of messages, and of an end by a cause.
    private void forgetFrames() {
        counter = null;
        noteLength = -1;
        if (note.length > 4096) {
            note = new byte[0];
        }
        stage = Stage.WAIT;
        sent = 0;
        noteSent = 0;
        noteCredited = false;
        started = false;
        tailSent = false;
        carrier = null;
        withdrawing = false;
        expected = -1;
        unconfirmed = 0;
        confirmedBytes = 0;
        copying = false;
        copies = 0;
        abortOwed = false;
        letGo = false;
        asking = false;
        exposed = false;
        revocable = false;
        inside = null;
        advertised = false;
        peerEnded = false;
        claimed = 0;
        orphaned = false;
        line = null;
        quantum = 0;
        peerToken = 0;
        streamBase = 0;
        error = null;
        found = null;
    }
}
