package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.IoVec;
import io.telpher.internal.ffi.linux.MsgHdr;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// The sending half of a lane; every method is called under the lane's send token.
///
/// On the wire come first the bytes of `buffer` from `from` to `to`, then what is left of the one
/// payload that is written out of its owner's memory. Small frames are copied into the buffer
/// whole; of a large one the header is.
final class TcpOutput {
    /// Room for small frames that wait for [#flush]. One system call costs about as much as copying
    /// this.
    static final int BUFFER = 32 << 10;

    /// Largest frame, header included, that is copied: beyond it a call of its own is cheaper.
    static final int SMALL = 4 << 10;

    private final TcpSocket socket;
    private final IoVec vector;
    private final MsgHdr message;

    /// Allocated with the first frame.
    private MemorySegment buffer = MemorySegment.NULL;

    private int from;
    private int to;

    private MemorySegment payload = MemorySegment.NULL;
    private long payloadAt;
    private int payloadLeft;
    private @Nullable Object owner;

    /// Where released payloads go; allocated with the first of them.
    private MemorySegment released = MemorySegment.NULL;

    /// Whether bytes are left over after a flush. Read by the thread that parks.
    private volatile boolean blocked;

    TcpOutput(TcpSocket socket) {
        this.socket = socket;
        vector = new IoVec(socket.arena(), 2);
        message = new MsgHdr(socket.arena());
    }

    boolean wantsWrite() {
        return blocked;
    }

    /// As [Lane#send].
    ///
    /// @throws IllegalStateException when the payload's arena was closed before anything of the
    ///     frame was taken; the lane goes on
    int send(
            MemorySegment header,
            long at,
            MemorySegment memory,
            long offset,
            int length,
            @Nullable Object holder) {
        int needed = Lane.HEADER + (length <= SMALL - Lane.HEADER ? length : 0);
        if (socket.failure() != null) {
            return Lane.DEAD;
        }
        if (payloadLeft > 0 || BUFFER - to < needed) {
            int flushed = flush();
            if (flushed == Lane.DEAD || payloadLeft > 0) {
                return flushed;
            }
            if (BUFFER - to < needed && !compact(needed)) {
                return Lane.FULL;
            }
        }
        if (buffer.address() == 0) {
            buffer = socket.arena().allocate(BUFFER, 64);
        }
        if (needed > Lane.HEADER) {
            // First the part that may find its arena closed, so that then nothing was taken.
            MemorySegment.copy(memory, offset, buffer, to + (long) Lane.HEADER, length);
        }
        MemorySegment.copy(header, at, buffer, to, Lane.HEADER);
        to += needed;
        if (length > needed - Lane.HEADER) {
            return sendLarge(memory, offset, length, holder);
        }
        return Lane.OK;
    }

    private int sendLarge(MemorySegment memory, long offset, int length, @Nullable Object holder) {
        java.util.Objects.checkFromIndexSize(offset, (long) length, memory.byteSize());
        payload = memory;
        payloadAt = offset;
        payloadLeft = length;
        owner = holder;
        try {
            return push() == Lane.DEAD ? Lane.DEAD : Lane.OK;
        } catch (IllegalStateException | WrongThreadException e) {
            // The first call fails before the kernel sees a byte: the frame was not taken.
            to -= Lane.HEADER;
            finishPayload();
            throw e;
        }
    }

    /// Moves what is left in the buffer to its start.
    private boolean compact(int needed) {
        if (from == 0 || BUFFER - (to - from) < needed) {
            return false;
        }
        MemorySegment.copy(buffer, from, buffer, 0, to - from);
        to -= from;
        from = 0;
        return true;
    }

    int flush() {
        try {
            return push();
        } catch (IllegalStateException | WrongThreadException e) {
            return die(
                    "the memory of a frame that was being sent was closed, with "
                            + payloadLeft
                            + " bytes of it left: "
                            + e.getMessage());
        }
    }

    /// Writes until nothing is left or the kernel takes no more.
    private int push() {
        if (socket.failure() != null) {
            blocked = false;
            return Lane.DEAD;
        }
        while (to > from || payloadLeft > 0) {
            long asked = (long) (to - from) + payloadLeft;
            long sent = write();
            if (sent == -Errno.EAGAIN) {
                blocked = true;
                return Lane.FULL;
            }
            if (sent < 0) {
                return die(Errno.describe((int) sent));
            }
            advance((int) sent);
            if (sent < asked) {
                // The kernel takes less than everything only when its buffer is full.
                blocked = true;
                return Lane.FULL;
            }
        }
        blocked = false;
        return Lane.OK;
    }

    private long write() {
        int fd = socket.descriptor();
        if (payloadLeft == 0 && from == 0) {
            return Sockets.send(fd, buffer, to, Sockets.MSG_NOSIGNAL);
        }
        vector.clear();
        if (to > from) {
            vector.add(buffer.address() + from, to - from);
        }
        if (payloadLeft > 0) {
            vector.add(payload.address() + payloadAt, payloadLeft);
        }
        message.iov(vector);
        return Sockets.sendmsg(fd, message.segment(), Sockets.MSG_NOSIGNAL, payload);
    }

    private void advance(int sent) {
        int buffered = Math.min(sent, to - from);
        from += buffered;
        if (from == to) {
            from = 0;
            to = 0;
        }
        payloadAt += sent - buffered;
        payloadLeft -= sent - buffered;
        if (payloadLeft == 0) {
            finishPayload();
        }
    }

    private void finishPayload() {
        payloadLeft = 0;
        payload = MemorySegment.NULL;
        owner = null;
    }

    private int die(String reason) {
        socket.fail(reason);
        blocked = false;
        from = 0;
        to = 0;
        finishPayload();
        return Lane.DEAD;
    }

    void release(Object holder) {
        if (owner != holder || payloadLeft == 0) {
            return;
        }
        if (released.byteSize() < payloadLeft) {
            released = socket.arena().allocate(payloadLeft, 64);
        }
        try {
            MemorySegment.copy(payload, payloadAt, released, 0, payloadLeft);
        } catch (IllegalStateException | WrongThreadException e) {
            die("the memory of a frame that was being sent was closed: " + e.getMessage());
            return;
        }
        payload = released;
        payloadAt = 0;
        owner = null;
    }
}
