package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// One question to the kernel over netlink, and the messages that answer it.
///
/// ```text
/// nlmsghdr: 0 len   4 type (2)   6 flags (2)   8 seq   12 pid   16 end
/// rtattr:   0 len (2)   2 type (2)   4 data, padded to a multiple of 4
/// ```
final class Netlink {
    static final int AF_NETLINK = 16;
    static final int SOCK_RAW = 3;
    static final int NETLINK_ROUTE = 0;
    static final int NETLINK_GENERIC = 16;
    static final int NLM_F_REQUEST = 1;
    static final int NLM_F_DUMP = 0x300;
    static final int NLMSG_ERROR = 2;
    static final int NLMSG_DONE = 3;

    static final int HEADER_BYTES = 16;
    static final int HEADER_LEN = 0;
    static final int HEADER_TYPE = 4;
    static final int HEADER_FLAGS = 6;
    static final int ATTRIBUTE_BYTES = 4;
    static final int ATTRIBUTE_LEN = 0;
    static final int ATTRIBUTE_TYPE = 2;

    /// Beside an attribute's number: that it holds others.
    static final int NLA_F_NESTED = 0x8000;

    /// The bits of an attribute's type that are its number.
    static final int NLA_TYPE_MASK = ~0xc000;

    /// The kernel puts at most half of it into one piece of a long answer.
    private static final int ROOM = 64 << 10;

    private Netlink() {}

    /// An answer.
    ///
    /// @param error 0, or minus errno: nobody has answered then, or only with that
    /// @param messages what follows the headers of the messages; the memory is the arena's
    record Answer(int error, List<MemorySegment> messages) {}

    /// A message that is being made.
    static final class Request {
        private final MemorySegment message;
        private int length;

        /// @param flags besides [#NLM_F_REQUEST]
        /// @param fixed bytes of the family's own header, which begins as zeros
        Request(Arena arena, int type, int flags, int fixed) {
            message = arena.allocate(ROOM, 8);
            message.set(JAVA_SHORT, HEADER_TYPE, (short) type);
            message.set(JAVA_SHORT, HEADER_FLAGS, (short) (NLM_F_REQUEST | flags));
            length = HEADER_BYTES + aligned(fixed);
        }

        /// Sets a byte of the family's header.
        Request set(int offset, int value) {
            message.set(JAVA_BYTE, HEADER_BYTES + offset, (byte) value);
            return this;
        }

        Request attribute(int type, byte[] data) {
            message.set(
                    JAVA_SHORT, length + ATTRIBUTE_LEN, (short) (ATTRIBUTE_BYTES + data.length));
            message.set(JAVA_SHORT, length + ATTRIBUTE_TYPE, (short) type);
            MemorySegment.copy(data, 0, message, JAVA_BYTE, length + ATTRIBUTE_BYTES, data.length);
            length += ATTRIBUTE_BYTES + aligned(data.length);
            return this;
        }

        /// An attribute that holds another one, a name.
        Request nested(int outer, int inner, String name) {
            byte[] text = zeroEnded(name);
            message.set(JAVA_SHORT, length + ATTRIBUTE_TYPE, (short) (outer | NLA_F_NESTED));
            message.set(
                    JAVA_SHORT,
                    length + ATTRIBUTE_LEN,
                    (short) (2 * ATTRIBUTE_BYTES + text.length));
            length += ATTRIBUTE_BYTES;
            return attribute(inner, text);
        }
    }

    static byte[] zeroEnded(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return Arrays.copyOf(bytes, bytes.length + 1);
    }

    /// Asks, and takes in all of the answer. The kernel answers within the calls, so nothing is
    /// waited for.
    static Answer ask(Arena arena, int protocol, Request request) {
        int fd = Sockets.socket(AF_NETLINK, SOCK_RAW | Sockets.SOCK_CLOEXEC, protocol);
        if (fd < 0) {
            return new Answer(fd, List.of());
        }
        try {
            boolean many =
                    (request.message.get(JAVA_SHORT, HEADER_FLAGS) & NLM_F_DUMP) == NLM_F_DUMP;
            request.message.set(JAVA_INT, HEADER_LEN, request.length);
            long sent = Sockets.send(fd, request.message, request.length, 0);
            return sent < 0 ? new Answer((int) sent, List.of()) : receive(arena, fd, many);
        } finally {
            int unused = Descriptors.close(fd);
        }
    }

    private static Answer receive(Arena arena, int fd, boolean many) {
        List<MemorySegment> messages = new ArrayList<>();
        while (true) {
            MemorySegment buffer = arena.allocate(ROOM, 8);
            long received = Sockets.recv(fd, buffer, ROOM, Sockets.MSG_DONTWAIT);
            if (received < 0) {
                return new Answer((int) received, messages);
            }
            long at = 0;
            while (at + HEADER_BYTES <= received) {
                int length = buffer.get(JAVA_INT, at + HEADER_LEN);
                int type = buffer.get(JAVA_SHORT, at + HEADER_TYPE);
                if (length < HEADER_BYTES || at + length > received) {
                    return new Answer(-Errno.EPROTO, messages);
                }
                if (type == NLMSG_DONE || type == NLMSG_ERROR) {
                    boolean told = length >= HEADER_BYTES + Integer.BYTES;
                    int error = told ? buffer.get(JAVA_INT, at + HEADER_BYTES) : 0;
                    return new Answer(Math.min(0, error), messages);
                }
                messages.add(buffer.asSlice(at + HEADER_BYTES, length - HEADER_BYTES));
                at += aligned(length);
            }
            if (!many) {
                return new Answer(messages.isEmpty() ? -Errno.EPROTO : 0, messages);
            }
        }
    }

    /// @param from where the first attribute begins
    /// @return the attributes' data by type; of several of one type the last
    static Map<Integer, MemorySegment> attributes(MemorySegment message, long from) {
        Map<Integer, MemorySegment> all = new HashMap<>();
        long at = from;
        while (at + ATTRIBUTE_BYTES <= message.byteSize()) {
            int length = Short.toUnsignedInt(message.get(JAVA_SHORT, at + ATTRIBUTE_LEN));
            if (length < ATTRIBUTE_BYTES || at + length > message.byteSize()) {
                break;
            }
            int type = Short.toUnsignedInt(message.get(JAVA_SHORT, at + ATTRIBUTE_TYPE));
            all.put(
                    type & NLA_TYPE_MASK,
                    message.asSlice(at + ATTRIBUTE_BYTES, length - ATTRIBUTE_BYTES));
            at += aligned(length);
        }
        return all;
    }

    /// @return the number in an attribute; -1 where there is none, or no such number
    static int number(@Nullable MemorySegment attribute) {
        return attribute == null || attribute.byteSize() < Integer.BYTES
                ? -1
                : attribute.get(JAVA_INT, 0);
    }

    static int aligned(int bytes) {
        return (bytes + 3) & ~3;
    }
}
