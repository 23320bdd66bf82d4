package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.IoVec;
import io.telpher.internal.ffi.linux.MsgHdr;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
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
        if (length > 0) {
            checkPayload(memory, offset, length);
        }
        if (payloadLeft > 0 || BUFFER - to < needed) {
            int pushed = push(Sockets.MSG_NOSIGNAL | Sockets.MSG_MORE);
            if (pushed == Lane.DEAD || payloadLeft > 0) {
                return pushed;
            }
            if (BUFFER - to < needed && !compact(needed)) {
                return Lane.FULL;
            }
        }
        if (buffer.address() == 0) {
            buffer = socket.arena().allocate(BUFFER, 64);
        }
        if (needed > Lane.HEADER) {
            // First the part that may still find its arena closed: nothing was taken then.
            MemorySegment.copy(memory, offset, buffer, to + (long) Lane.HEADER, length);
        }
        MemorySegment.copy(header, at, buffer, to, Lane.HEADER);
        to += needed;
        if (length > needed - Lane.HEADER) {
            payload = memory;
            payloadAt = offset;
            payloadLeft = length;
            owner = holder;
        }
        return Lane.OK;
    }

    /// Fails before anything is taken.
    private static void checkPayload(MemorySegment memory, long offset, int length) {
        Objects.checkFromIndexSize(offset, (long) length, memory.byteSize());
        if (length > SMALL - Lane.HEADER && !memory.isNative()) {
            throw new IllegalArgumentException("a large payload in heap memory: " + memory);
        }
        if (!memory.scope().isAlive()) {
            throw new IllegalStateException("the arena of the payload is closed");
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
        return push(Sockets.MSG_NOSIGNAL);
    }

    /// Writes until nothing is left or the kernel takes no more. With `MSG_MORE` the kernel keeps
    /// the last bytes, if they make no full segment, for those that follow.
    private int push(int flags) {
        if (socket.failure() != null) {
            blocked = false;
            return Lane.DEAD;
        }
        while (to > from || payloadLeft > 0) {
            long asked = (long) (to - from) + payloadLeft;
            long sent;
            try {
                sent = write(flags);
            } catch (IllegalStateException | WrongThreadException e) {
                return dieOfMemory(e);
            }
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

    private long write(int flags) {
        int fd = socket.descriptor();
        if (payloadLeft == 0 && from == 0) {
            return Sockets.send(fd, buffer, to, flags);
        }
        vector.clear();
        if (to > from) {
            vector.add(buffer.address() + from, to - from);
        }
        if (payloadLeft > 0) {
            vector.add(payload.address() + payloadAt, payloadLeft);
        }
        message.iov(vector);
        return Sockets.sendmsg(fd, message.segment(), flags, payload);
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

    private int dieOfMemory(RuntimeException e) {
        return die(
                "the memory of a frame that was being sent was closed, with "
                        + payloadLeft
                        + " bytes of it left: "
                        + e.getMessage());
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
            dieOfMemory(e);
            return;
        }
        payload = released;
        payloadAt = 0;
        owner = null;
    }
}
