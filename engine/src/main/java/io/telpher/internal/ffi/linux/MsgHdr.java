package io.telpher.internal.ffi.linux;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// A `struct msghdr`, allocated once and refilled. Not thread-safe.
///
/// ```text
/// 0 msg_name   8 msg_namelen (4)   16 msg_iov   24 msg_iovlen
/// 32 msg_control   40 msg_controllen   48 msg_flags (4)   56 end
/// ```
public final class MsgHdr {
    public static final int BYTES = 56;
    public static final int NAME = 0;
    public static final int NAME_LENGTH = 8;
    public static final int IOV = 16;
    public static final int IOV_LENGTH = 24;
    public static final int CONTROL = 32;
    public static final int CONTROL_LENGTH = 40;
    public static final int FLAGS = 48;

    private final MemorySegment segment;

    public MsgHdr(Arena arena) {
        segment = arena.allocate(BYTES, 8);
    }

    public MemorySegment segment() {
        return segment;
    }

    /// Points at the entries in use of an iovec array; repeat after each change of its count.
    public void iov(IoVec iov) {
        segment.set(ValueLayout.JAVA_LONG, IOV, iov.segment().address());
        segment.set(ValueLayout.JAVA_LONG, IOV_LENGTH, iov.count());
    }

    public void name(MemorySegment address, int length) {
        LibC.checkLength(address, length);
        segment.set(ValueLayout.JAVA_LONG, NAME, address.address());
        segment.set(ValueLayout.JAVA_INT, NAME_LENGTH, length);
    }

    public int nameLength() {
        return segment.get(ValueLayout.JAVA_INT, NAME_LENGTH);
    }

    /// Sets the buffer for control messages; [MemorySegment#NULL] and 0 for none. `recvmsg`
    /// overwrites the length, so set it before each call.
    public void control(MemorySegment control, long length) {
        LibC.checkLength(control, length);
        segment.set(ValueLayout.JAVA_LONG, CONTROL, control.address());
        segment.set(ValueLayout.JAVA_LONG, CONTROL_LENGTH, length);
    }

    public long controlLength() {
        return segment.get(ValueLayout.JAVA_LONG, CONTROL_LENGTH);
    }

    /// What `recvmsg` reported: [Sockets#MSG_TRUNC], [Sockets#MSG_CTRUNC], ...
    public int flags() {
        return segment.get(ValueLayout.JAVA_INT, FLAGS);
    }
}
