package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/// What the kernel tells of network devices by generic netlink: which commands it knows, and
/// whether a device splits headers from data.
public final class GenericNetlink {
    static final int GENL_ID_CTRL = 16;
    static final int CTRL_CMD_GETFAMILY = 3;
    static final int CTRL_ATTR_FAMILY_ID = 1;
    static final int CTRL_ATTR_FAMILY_NAME = 2;
    static final int CTRL_ATTR_OPS = 6;
    static final int CTRL_ATTR_OP_ID = 1;
    static final int ETHTOOL_MSG_RINGS_GET = 15;
    static final int ETHTOOL_A_RINGS_HEADER = 1;
    static final int ETHTOOL_A_HEADER_DEV_NAME = 2;
    static final int ETHTOOL_A_RINGS_TCP_DATA_SPLIT = 11;

    /// Binds a device's queues to memory that is not the host's (Linux 6.12 and later).
    public static final int NETDEV_CMD_BIND_RX = 13;

    public static final int ETHTOOL_TCP_DATA_SPLIT_UNKNOWN = 0;
    public static final int ETHTOOL_TCP_DATA_SPLIT_DISABLED = 1;
    public static final int ETHTOOL_TCP_DATA_SPLIT_ENABLED = 2;

    /// ```text
    /// genlmsghdr: 0 cmd (1)   1 version (1)   2 reserved (2)   4 end
    /// ```
    static final int GENL_BYTES = 4;

    static final int GENL_CMD = 0;
    static final int GENL_VERSION = 1;

    private GenericNetlink() {}

    /// @param id its number in messages; 0 where the kernel has no such family
    /// @param commands those that it knows
    private record Family(int id, Set<Integer> commands) {}

    /// @return the commands of a family such as `netdev`; none where the kernel does not have it
    public static Set<Integer> commands(String family) {
        try (Arena arena = Arena.ofConfined()) {
            return family(arena, family).commands();
        }
    }

    /// @return one of the `ETHTOOL_TCP_DATA_SPLIT_` values, or minus errno
    public static int dataSplit(String netdev) {
        try (Arena arena = Arena.ofConfined()) {
            int ethtool = family(arena, "ethtool").id();
            if (ethtool == 0) {
                return -Errno.EOPNOTSUPP;
            }
            Netlink.Answer answer =
                    Netlink.ask(
                            arena,
                            Netlink.NETLINK_GENERIC,
                            request(arena, ethtool, ETHTOOL_MSG_RINGS_GET)
                                    .nested(
                                            ETHTOOL_A_RINGS_HEADER,
                                            ETHTOOL_A_HEADER_DEV_NAME,
                                            netdev));
            if (answer.error() < 0) {
                return answer.error();
            }
            MemorySegment split =
                    Netlink.attributes(answer.messages().getFirst(), GENL_BYTES)
                            .get(ETHTOOL_A_RINGS_TCP_DATA_SPLIT);
            return split == null || split.byteSize() == 0
                    ? ETHTOOL_TCP_DATA_SPLIT_UNKNOWN
                    : split.get(JAVA_BYTE, 0);
        }
    }

    private static Family family(Arena arena, String name) {
        Netlink.Answer answer =
                Netlink.ask(
                        arena,
                        Netlink.NETLINK_GENERIC,
                        request(arena, GENL_ID_CTRL, CTRL_CMD_GETFAMILY)
                                .attribute(CTRL_ATTR_FAMILY_NAME, Netlink.zeroEnded(name)));
        if (answer.error() < 0) {
            return new Family(0, Set.of());
        }
        Map<Integer, MemorySegment> attributes =
                Netlink.attributes(answer.messages().getFirst(), GENL_BYTES);
        MemorySegment id = attributes.get(CTRL_ATTR_FAMILY_ID);
        Set<Integer> commands = new HashSet<>();
        MemorySegment list = attributes.get(CTRL_ATTR_OPS);
        if (list != null) {
            for (MemorySegment command : Netlink.attributes(list, 0).values()) {
                commands.add(Netlink.number(Netlink.attributes(command, 0).get(CTRL_ATTR_OP_ID)));
            }
        }
        return new Family(
                id == null || id.byteSize() < Short.BYTES
                        ? 0
                        : Short.toUnsignedInt(id.get(JAVA_SHORT, 0)),
                commands);
    }

    private static Netlink.Request request(Arena arena, int family, int command) {
        return new Netlink.Request(arena, family, 0, GENL_BYTES)
                .set(GENL_CMD, command)
                .set(GENL_VERSION, 1);
    }
}
