package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Placement;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Where the payload of a frame goes that a lane is about to take in: straight to its place, when
/// that may be written, or into the lane's buffer. Keeps what it found out about the frame until
/// the frame is applied. Guarded by the lane's poll token.
final class Placing {
    private final ConnectionCore connection;

    /// 0, or why the frame is refused.
    int reason;

    /// The operation that `DATA` belongs to.
    @Nullable Operation target;

    /// The region that `WRITE` goes to.
    @Nullable RegionImpl region;

    /// The operation that a part of `DATA` is claimed for, until that has come.
    private @Nullable Operation claimant;

    private long claimantToken;
    private int claim;

    Placing(ConnectionCore connection) {
        this.connection = connection;
    }

    /// Says where the payload of a frame goes, if it has one.
    ///
    /// @return false when the frame makes no sense
    boolean place(MemorySegment h, long at, int type, int length, Placement placement) {
        reason = 0;
        target = null;
        region = null;
        switch (type) {
            case Frame.WRITE -> {
                int bytes = (Frame.flags(h, at) & Frame.INLINE) != 0 ? Frame.count(h, at) : length;
                if ((Frame.flags(h, at) & Frame.INLINE) != 0
                        && (bytes > Frame.INLINE_MAX || length != 0)) {
                    return false;
                }
                RegionImpl found = writable(h, at);
                if (found != null) {
                    long offset = Frame.field(h, at, Frame.C);
                    if (!fits(offset, bytes, found.size())) {
                        reason = Connection.DENIED;
                    } else if (length > 0) {
                        into(placement, found, offset, found);
                    }
                }
                region = found;
            }
            case Frame.DATA -> placeData(h, at, length, placement);
            case Frame.WRITE_PIECES, Frame.READ_PIECES, Frame.NOTE_PART -> placement.buffer();
            case Frame.TAIL -> {
                placement.buffer();
                return length <= Outbound.SHORT_NOTE;
            }
            case Frame.SEND -> {
                placement.buffer();
                return length <= Outbound.EAGER;
            }
            case Frame.ADVERT, Frame.LOOKUP, Frame.FOUND, Frame.FORGET -> {
                placement.buffer();
                return length <= ControlFrame.MAX_PAYLOAD;
            }
            case Frame.NOP,
                    Frame.READ,
                    Frame.SEND_REQUEST,
                    Frame.SEND_STORED,
                    Frame.TRUNCATED,
                    Frame.ABORT,
                    Frame.WITHDRAW,
                    Frame.WITHDRAWN,
                    Frame.CREDIT,
                    Frame.REFUSED,
                    Frame.KNOWN,
                    Frame.FORGOTTEN,
                    Frame.GOODBYE,
                    Frame.APPLIED,
                    Frame.FENCE,
                    Frame.FENCED,
                    Frame.PING,
                    Frame.PONG -> {
                return length == 0;
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    /// Straight to its place, or into the lane's buffer where the host cannot write the place.
    private static void into(Placement placement, RegionImpl region, long offset, Object owner) {
        if (region.isHost()) {
            placement.into(region.segment(), offset, owner);
        } else {
            placement.buffer();
        }
    }

    static boolean fits(long offset, long length, long size) {
        return offset >= 0 && length >= 0 && offset <= size && length <= size - offset;
    }

    /// The region that a frame names, if it may be written.
    @Nullable RegionImpl writable(MemorySegment h, long at) {
        RegionImpl found = named(h, at);
        if (found != null && !found.access().canWrite()) {
            reason = Connection.DENIED;
            return null;
        }
        return found;
    }

    /// The region that a frame names, or null and a reason.
    @Nullable RegionImpl named(MemorySegment h, long at) {
        long name = Frame.field(h, at, Frame.A);
        RegionImpl found = connection.endpoint().regions().find((int) name, (int) (name >>> 32));
        if (found == null) {
            reason = Connection.STALE;
            return null;
        }
        if (found.key() != Frame.field(h, at, Frame.B)) {
            reason = Connection.DENIED;
            return null;
        }
        return found;
    }

    private void placeData(MemorySegment h, long at, int length, Placement placement) {
        long position = Frame.field(h, at, Frame.A);
        SpinLock lock = connection.lock;
        lock.lock();
        try {
            Operation op = connection.table.find(Frame.field(h, at, Frame.TRANSFER));
            if (op == null
                    || !op.isPending()
                    || (op.kind != Operation.Kind.READ && op.kind != Operation.Kind.RECEIVE)) {
                reason = Connection.CANCELLED;
            } else if (!fits(position, length, op.length) || length > op.length - op.claimed) {
                reason = Connection.DENIED; // the second: some bytes come twice
            } else {
                target = op;
                claimant = op;
                claimantToken = op.token();
                claim = length;
                op.claimed += length;
                if (length == 0) {
                    return;
                }
                if (op.contiguous(position) >= length) {
                    into(placement, op.regionAt(position), op.offsetAt(position), op);
                } else {
                    placement.buffer();
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /// The frame that was placed has come.
    void arrived() {
        claimant = null;
    }

    /// The lane ends: what was claimed for a frame that will not come is free again, since the
    /// frame comes over another lane.
    void abandon() {
        Operation op = claimant;
        claimant = null;
        if (op == null) {
            return;
        }
        connection.lock.lock();
        try {
            if (op.token() == claimantToken) {
                op.claimed -= claim;
            }
        } finally {
            connection.lock.unlock();
        }
    }
}
