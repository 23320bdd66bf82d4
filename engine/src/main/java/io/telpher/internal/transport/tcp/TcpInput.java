package io.telpher.internal.transport.tcp;

import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.IoVec;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.Objects;

/// The receiving half of a lane; every method is called under the lane's poll token.
///
/// Frames that fit are read many at a time into a small buffer. As soon as a header announces more
/// than is buffered, the rest is read straight to its destination, and the next header with it, so
/// that a stream of large frames costs one call and one copy each.
final class TcpInput {
    /// Bytes read at once while frames are small.
    static final int BUFFER = 32 << 10;

    /// Bytes read beyond the end of a large payload: the next header only, since the next payload
    /// would have to be copied once more.
    private static final int BEYOND = Lane.HEADER;

    /// Bytes read when the header after a large frame was late.
    private static final int BULK_FILL = 4 << 10;

    private static final int LENGTH_AT = 4;
    private static final int SCRATCH = 64 << 10;
    private static final int DRAIN_CALLS = 32;

    private static final ValueLayout.OfInt LENGTH =
            JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final TcpSocket socket;
    private final IoVec vector;

    /// The header of the frame whose payload is being read.
    private final MemorySegment header;

    private final Placement placement = new Placement();

    /// Allocated by the first poll.
    private MemorySegment buffer = MemorySegment.NULL;

    private int from;
    private int to;

    /// Holds payloads of mode [Placement.Mode#BUFFER] and takes what is thrown away.
    private MemorySegment collected = MemorySegment.NULL;

    /// Whether a frame's header was handed over and its payload is incomplete.
    private boolean inside;

    private int length;
    private int done;

    /// Whether the last frame was read straight to its destination.
    private boolean bulk;

    /// What the last read asked for. Less than that arriving means that the socket is empty, which
    /// saves the call that would say so.
    private long asked;

    /// Whether nothing can come any more.
    private boolean over;

    TcpInput(TcpSocket socket) {
        this.socket = socket;
        vector = new IoVec(socket.arena(), 2);
        header = socket.arena().allocate(Lane.HEADER, 64);
    }

    int poll(Receiver receiver, int limit) {
        if (over) {
            return Lane.DEAD;
        }
        int frames = 0;
        boolean drained = false;
        while (frames < limit) {
            if (!inside && to - from >= Lane.HEADER) {
                if (!begin(receiver)) {
                    break;
                }
                if (!inside) {
                    frames++;
                }
                continue;
            }
            if (drained) {
                break;
            }
            long n = inside ? readPayload() : readHeaders();
            if (n <= 0) {
                if (n != -Errno.EAGAIN) {
                    ended(n);
                }
                break;
            }
            drained = n < asked;
            if (inside && done == length) {
                inside = false;
                bulk = true;
                frames++;
                MemorySegment payload =
                        placement.mode() == Placement.Mode.BUFFER ? collected : header;
                receiver.end(header, 0, payload, 0, placement);
            }
        }
        return frames == 0 && over ? Lane.DEAD : frames;
    }

    /// Hands over the header at `from`, and the whole frame when it is there.
    ///
    /// @return false when the lane has to end
    private boolean begin(Receiver receiver) {
        length = buffer.get(LENGTH, from + (long) LENGTH_AT);
        if (length < 0 || length > TcpLane.MAX_PAYLOAD) {
            return protocol(
                    "a frame of "
                            + Integer.toUnsignedLong(length)
                            + " bytes, more than the "
                            + TcpLane.MAX_PAYLOAD
                            + " that are allowed");
        }
        int buffered = Math.min(length, to - from - Lane.HEADER);
        int payloadAt = from + Lane.HEADER;
        MemorySegment head = buffer;
        long at = from;
        if (buffered < length) {
            MemorySegment.copy(buffer, from, header, 0, Lane.HEADER);
            head = header;
            at = 0;
        }
        placement.discard();
        if (!receiver.begin(head, at, placement)) {
            return protocol("a frame that makes no sense");
        }
        checkDestination();
        from = payloadAt + buffered;
        if (buffered == length) {
            bulk = false;
            if (placement.mode() == Placement.Mode.INTO) {
                copyInto(payloadAt, 0, buffered);
            }
            receiver.end(head, at, buffer, payloadAt, placement);
        } else {
            inside = true;
            done = buffered;
            switch (placement.mode()) {
                case INTO -> copyInto(payloadAt, 0, buffered);
                case BUFFER -> {
                    collect(length);
                    MemorySegment.copy(buffer, payloadAt, collected, 0, buffered);
                }
                case DISCARD, KEEP -> {} // nothing is lent here
            }
        }
        return true;
    }

    private void checkDestination() {
        if (placement.mode() == Placement.Mode.INTO) {
            MemorySegment target = placement.segment();
            Objects.checkFromIndexSize(placement.offset(), (long) length, target.byteSize());
            if (!target.isNative() || target.isReadOnly()) {
                throw new IllegalArgumentException("not writable native memory: " + target);
            }
        }
    }

    private void copyInto(int at, int already, int bytes) {
        try {
            MemorySegment.copy(
                    buffer, at, placement.segment(), placement.offset() + already, bytes);
        } catch (IllegalStateException | WrongThreadException e) {
            turnAway();
        }
    }

    /// The destination's arena was closed: the frame ends as if its owner had discarded it.
    private void turnAway() {
        Object owner = placement.owner();
        if (owner != null) {
            placement.revoke(owner);
        }
    }

    /// Makes room in the lane's own memory.
    private void collect(int bytes) {
        if (collected.byteSize() < bytes) {
            int room = Math.max(SCRATCH, Integer.highestOneBit(bytes - 1) << 1);
            collected = socket.arena().allocate(Math.min(room, TcpLane.MAX_PAYLOAD), 64);
        }
    }

    private long readHeaders() {
        if (buffer.address() == 0) {
            buffer = socket.arena().allocate(BUFFER, 64);
        }
        if (from == to) {
            from = 0;
            to = 0;
            asked = bulk ? BULK_FILL : BUFFER;
            long n = Sockets.recv(socket.descriptor(), buffer, asked, 0);
            to = (int) Math.max(0, n);
            return n;
        }
        // Less than a header is left over.
        if (BUFFER - to < BULK_FILL) {
            MemorySegment.copy(buffer, from, buffer, 0, to - from);
            to -= from;
            from = 0;
        }
        asked = bulk ? BULK_FILL : BUFFER - to;
        vector.clear();
        vector.add(buffer.address() + to, asked);
        long n = Sockets.readv(socket.descriptor(), vector.segment(), 1, MemorySegment.NULL);
        to += (int) Math.max(0, n);
        return n;
    }

    /// Reads the payload's rest, and the next header behind it.
    private long readPayload() {
        while (true) {
            int left = length - done;
            MemorySegment keep = MemorySegment.NULL;
            vector.clear();
            switch (placement.mode()) {
                case INTO -> {
                    keep = placement.segment();
                    vector.add(keep.address() + placement.offset() + done, left);
                }
                case BUFFER -> vector.add(collected.address() + done, left);
                case DISCARD, KEEP -> { // nothing is lent here
                    collect(Math.min(left, SCRATCH));
                    left = (int) Math.min(left, collected.byteSize());
                    vector.add(collected.address(), left);
                }
            }
            from = 0;
            to = 0;
            if (left == length - done) {
                vector.add(buffer.address(), BEYOND);
            }
            asked = vector.remaining();
            try {
                long n = Sockets.readv(socket.descriptor(), vector.segment(), vector.count(), keep);
                if (n > 0) {
                    int payload = (int) Math.min(n, left);
                    done += payload;
                    to = (int) n - payload;
                }
                return n;
            } catch (IllegalStateException | WrongThreadException e) {
                turnAway();
            }
        }
    }

    void discard(Object owner) {
        placement.revoke(owner);
    }

    /// @return whether a poll would have something to do without the kernel
    boolean ready() {
        if (over) {
            return true;
        }
        if (inside || to - from < Lane.HEADER) {
            return false;
        }
        int next = buffer.get(LENGTH, from + (long) LENGTH_AT);
        return next < 0 || next > TcpLane.MAX_PAYLOAD || to - from - Lane.HEADER >= next;
    }

    private boolean protocol(String what) {
        over = true;
        socket.fail("protocol: the peer sent " + what);
        return false;
    }

    private void ended(long result) {
        over = true;
        if (result < 0) {
            socket.fail(Errno.describe((int) result));
        } else if (inside) {
            socket.fail(
                    "the peer closed the stream within a frame, after %d of %d bytes"
                            .formatted(done, length));
        } else if (to > from) {
            socket.fail("the peer closed the stream within a header");
        } else {
            socket.fail("the peer closed the stream");
        }
    }

    /// Reads and drops what has arrived, within limits. A socket that is closed with unread bytes
    /// resets the connection, and the reset would destroy what the peer has not read yet.
    void drain() {
        Sockets.shutdown(socket.descriptor(), Sockets.SHUT_WR);
        collect(SCRATCH);
        long size = collected.byteSize();
        for (int i = 0; i < DRAIN_CALLS && !over; i++) {
            long n = Sockets.recv(socket.descriptor(), collected, size, 0);
            if (n < size) {
                return;
            }
        }
    }
}
