package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/// Descriptors over a Unix socket (`SCM_RIGHTS`). For the control path: each call allocates.
///
/// A control message, aligned to 8 bytes on both architectures:
///
/// ```text
/// 0 cmsg_len (header and data, no padding)   8 cmsg_level   12 cmsg_type
/// 16 data: the descriptors, 4 bytes each
/// ```
public final class FdPassing {
    /// The most descriptors that the kernel passes at once (`SCM_MAX_FD`).
    public static final int MAX_DESCRIPTORS = 253;

    static final int CMSG_LEN_OFFSET = 0;
    static final int CMSG_LEVEL = 8;
    static final int CMSG_TYPE = 12;
    static final int CMSG_DATA = 16;

    private static final int[] NONE = {};

    private FdPassing() {}

    /// What arrived: `bytes` as from `recvmsg` (0 at the end of the stream, `-errno` when it
    /// failed) and the descriptors, close-on-exec, now the caller's to close. When `truncated`,
    /// descriptors were lost, for want of room or because this process has too many open: then
    /// there are none, those that did arrive are closed again.
    public record Received(long bytes, int[] descriptors, boolean truncated) {}

    /// `CMSG_ALIGN`
    static long align(long length) {
        return (length + 7) & ~7L;
    }

    /// `CMSG_LEN`
    static long messageLength(long dataBytes) {
        return CMSG_DATA + dataBytes;
    }

    /// `CMSG_SPACE`
    static long messageSpace(long dataBytes) {
        return CMSG_DATA + align(dataBytes);
    }

    /// Sends all or the first part of `bytes`; the descriptors travel with the first byte, so at
    /// least one byte is needed. Returns the bytes sent: what is left goes by plain `send`. The
    /// sender keeps its descriptors and may close them at once.
    public static long send(int socket, MemorySegment bytes, int... descriptors) {
        if (bytes.byteSize() == 0 || descriptors.length > MAX_DESCRIPTORS) {
            return -Errno.EINVAL;
        }
        try (Arena arena = Arena.ofConfined()) {
            IoVec iov = new IoVec(arena, 1);
            iov.add(bytes);
            MsgHdr message = new MsgHdr(arena);
            message.iov(iov);
            if (descriptors.length > 0) {
                long data = 4L * descriptors.length;
                MemorySegment control = arena.allocate(messageSpace(data), 8);
                control.set(JAVA_LONG, CMSG_LEN_OFFSET, messageLength(data));
                control.set(JAVA_INT, CMSG_LEVEL, Sockets.SOL_SOCKET);
                control.set(JAVA_INT, CMSG_TYPE, Sockets.SCM_RIGHTS);
                MemorySegment.copy(
                        descriptors, 0, control, JAVA_INT, CMSG_DATA, descriptors.length);
                message.control(control, control.byteSize());
            }
            return Sockets.sendmsg(socket, message.segment(), Sockets.MSG_NOSIGNAL, bytes);
        }
    }

    /// Receives up to the size of `into`, and at most `maxDescriptors` descriptors. On a stream
    /// socket bytes sent with descriptors are never merged with what was sent after them.
    public static Received receive(int socket, MemorySegment into, int maxDescriptors) {
        try (Arena arena = Arena.ofConfined()) {
            IoVec iov = new IoVec(arena, 1);
            iov.add(into);
            // Room for all that the kernel can send: a smaller buffer is no bound, since its
            // padding holds one more. Without any the kernel closes what comes and says so.
            MemorySegment control =
                    maxDescriptors == 0
                            ? MemorySegment.NULL
                            : arena.allocate(messageSpace(4L * MAX_DESCRIPTORS), 8);
            MsgHdr message = new MsgHdr(arena);
            message.iov(iov);
            message.control(control, control.byteSize());
            long received =
                    Sockets.recvmsg(socket, message.segment(), Sockets.MSG_CMSG_CLOEXEC, into);
            if (received < 0) {
                return new Received(received, NONE, false);
            }
            int[] descriptors = rights(control, message.controlLength());
            if ((message.flags() & Sockets.MSG_CTRUNC) == 0
                    && descriptors.length <= maxDescriptors) {
                return new Received(received, descriptors, false);
            }
            for (int fd : descriptors) {
                int unused = Descriptors.close(fd);
            }
            return new Received(received, NONE, true);
        }
    }

    private static int[] rights(MemorySegment control, long controlLength) {
        int[] found = NONE;
        long offset = 0;
        while (offset + CMSG_DATA <= controlLength) {
            long length = control.get(JAVA_LONG, offset + CMSG_LEN_OFFSET);
            if (length < CMSG_DATA || length > controlLength - offset) {
                break;
            }
            if (control.get(JAVA_INT, offset + CMSG_LEVEL) == Sockets.SOL_SOCKET
                    && control.get(JAVA_INT, offset + CMSG_TYPE) == Sockets.SCM_RIGHTS) {
                int count = (int) ((length - CMSG_DATA) / 4);
                int before = found.length;
                found = Arrays.copyOf(found, before + count);
                MemorySegment.copy(control, JAVA_INT, offset + CMSG_DATA, found, before, count);
            }
            offset += align(length);
        }
        return found;
    }
}
