package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Placement;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Where the payload of a frame goes that a lane is about to take in: straight to its place, when
/// that may be written, or into the lane's buffer. Keeps what it found out about the frame until
/// the frame is applied. Guarded by the lane's poll token.
final class Placing {
    private final ConnectionCore connection;
    private final InboundStaging staging;

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

    Placing(ConnectionCore connection, InboundStaging staging) {
        this.connection = connection;
        this.staging = staging;
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
                    } else if (length > 0 && found.isHost()) {
                        placement.into(found.segment(), offset, found);
                    } else if (length > 0) {
                        // A tail that follows on this lane must find the bytes there.
                        boolean late = (Frame.flags(h, at) & Frame.COUNTED) == 0;
                        stage(placement, device(found), found, late ? length : 0);
                    }
                }
                region = found;
            }
            case Frame.DATA -> placeData(h, at, length, placement);
            case Frame.WRITE_PIECES -> {
                RegionImpl found = writable(h, at);
                // The far side could still change a table in memory that it shares.
                boolean late =
                        (Frame.flags(h, at) & Frame.COUNTED) == 0 && placement.lent() == null;
                Device by = found == null || !late ? null : device(found);
                if (found == null || by == null) {
                    placement.buffer();
                } else {
                    stage(placement, by, found, length);
                }
            }
            case Frame.READ_PIECES, Frame.NOTE_PART -> placement.buffer();
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

    /// Where a payload goes that is a device's: what is long waits in a buffer of its own while the
    /// device copies it.
    private void stage(Placement placement, @Nullable Device by, Object owner, int length) {
        if (by == null
                || length <= Outbound.EAGER
                || !staging.place(placement, by, owner, length)) {
            placement.buffer();
        }
    }

    private static @Nullable Device device(RegionImpl region) {
        DeviceMemory memory = region.deviceMemory();
        return memory == null ? null : memory.device();
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
                Device by = op.deviceAt(position);
                if (by == null && op.contiguous(position) >= length) {
                    placement.into(op.regionAt(position).segment(), op.offsetAt(position), op);
                } else {
                    boolean alone = by != null && op.onDevice(by, position, length) == length;
                    stage(placement, by, op, alone ? length : 0);
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
