package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.Inet4Address;

/// Asks the kernel by which interface it sends packets: routing tables, rules and all.
public final class RouteLookup {
    static final int AF_NETLINK = 16;
    static final int SOCK_RAW = 3;
    static final int NETLINK_ROUTE = 0;
    static final int NLM_F_REQUEST = 1;
    static final int NLMSG_ERROR = 2;
    static final int RTM_NEWROUTE = 24;
    static final int RTM_GETROUTE = 26;
    static final int RTA_DST = 1;
    static final int RTA_SRC = 2;
    static final int RTA_OIF = 4;

    /// ```text
    /// nlmsghdr: 0 len   4 type (2)   6 flags (2)   8 seq   12 pid   16 end
    /// rtmsg:    0 family (1)   1 dst_len (1)   2 src_len (1)   ...   12 end
    /// rtattr:   0 len (2)   2 type (2)   4 data
    /// ```
    static final int HEADER_BYTES = 16;

    static final int HEADER_LEN = 0;
    static final int HEADER_TYPE = 4;
    static final int HEADER_FLAGS = 6;
    static final int RTMSG_BYTES = 12;
    static final int RTMSG_FAMILY = 0;
    static final int RTMSG_DST_LEN = 1;
    static final int RTMSG_SRC_LEN = 2;
    static final int ATTRIBUTE_BYTES = 4;
    static final int ATTRIBUTE_LEN = 0;
    static final int ATTRIBUTE_TYPE = 2;

    private static final int ADDRESS_BYTES = 4;
    private static final int ROOM = 4096;

    private RouteLookup() {}

    /// @param source an address of this machine, which the packets are from
    /// @return the index of the interface by which packets leave, or minus errno
    public static int interfaceTo(Inet4Address source, Inet4Address target) {
        int fd = Sockets.socket(AF_NETLINK, SOCK_RAW | Sockets.SOCK_CLOEXEC, NETLINK_ROUTE);
        if (fd < 0) {
            return fd;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment message = arena.allocate(ROOM, 8);
            int length = HEADER_BYTES + RTMSG_BYTES;
            message.set(JAVA_BYTE, HEADER_BYTES + RTMSG_FAMILY, (byte) Sockets.AF_INET);
            message.set(JAVA_BYTE, HEADER_BYTES + RTMSG_DST_LEN, (byte) Integer.SIZE);
            message.set(JAVA_BYTE, HEADER_BYTES + RTMSG_SRC_LEN, (byte) Integer.SIZE);
            length = attribute(message, length, RTA_DST, target);
            length = attribute(message, length, RTA_SRC, source);
            message.set(JAVA_INT, HEADER_LEN, length);
            message.set(JAVA_SHORT, HEADER_TYPE, (short) RTM_GETROUTE);
            message.set(JAVA_SHORT, HEADER_FLAGS, (short) NLM_F_REQUEST);
            long sent = Sockets.send(fd, message, length, 0);
            // The kernel answers before the call returns.
            long received = sent < 0 ? sent : Sockets.recv(fd, message, ROOM, Sockets.MSG_DONTWAIT);
            return received < 0 ? (int) received : answer(message, received);
        } finally {
            int unused = Descriptors.close(fd);
        }
    }

    private static int attribute(MemorySegment message, int at, int type, Inet4Address address) {
        message.set(JAVA_SHORT, at + ATTRIBUTE_LEN, (short) (ATTRIBUTE_BYTES + ADDRESS_BYTES));
        message.set(JAVA_SHORT, at + ATTRIBUTE_TYPE, (short) type);
        MemorySegment.copy(
                address.getAddress(), 0, message, JAVA_BYTE, at + ATTRIBUTE_BYTES, ADDRESS_BYTES);
        return at + ATTRIBUTE_BYTES + ADDRESS_BYTES;
    }

    private static int answer(MemorySegment message, long received) {
        int type = received < HEADER_BYTES ? 0 : message.get(JAVA_SHORT, HEADER_TYPE);
        if (type == NLMSG_ERROR && received >= HEADER_BYTES + Integer.BYTES) {
            return message.get(JAVA_INT, HEADER_BYTES); // minus errno
        }
        if (type != RTM_NEWROUTE) {
            return -Errno.EPROTO;
        }
        long end = Math.min(received, message.get(JAVA_INT, HEADER_LEN));
        long at = HEADER_BYTES + RTMSG_BYTES;
        while (at + ATTRIBUTE_BYTES + Integer.BYTES <= end) {
            int length = message.get(JAVA_SHORT, at + ATTRIBUTE_LEN) & 0xffff;
            if ((message.get(JAVA_SHORT, at + ATTRIBUTE_TYPE) & 0xffff) == RTA_OIF) {
                return message.get(JAVA_INT, at + ATTRIBUTE_BYTES);
            }
            if (length < ATTRIBUTE_BYTES) {
                break;
            }
            at += (length + 3) & ~3; // aligned to 4
        }
        return -Errno.ENETUNREACH;
    }
}
