package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// Asks the kernel for routes: routing tables, rules and all.
public final class RouteLookup {
    static final int RTM_GETROUTE = 26;
    static final int RTA_DST = 1;
    static final int RTA_SRC = 2;
    static final int RTA_OIF = 4;
    static final int RTA_METRICS = 8;
    static final int RTAX_MTU = 2;
    static final int RTN_UNICAST = 1;

    /// ```text
    /// rtmsg:    0 family (1)   1 dst_len (1)   2 src_len (1)   ...   7 type (1)   ...   12 end
    /// ```
    static final int RTMSG_BYTES = 12;

    static final int RTMSG_FAMILY = 0;
    static final int RTMSG_DST_LEN = 1;
    static final int RTMSG_SRC_LEN = 2;
    static final int RTMSG_TYPE = 7;

    private RouteLookup() {}

    /// A route that was given a size of packets of its own.
    ///
    /// @param target the first address of where it leads
    /// @param prefix how many bits of it count; 0 for the default route
    /// @param nic the index of its interface
    /// @param mtu bytes
    public record Sized(InetAddress target, int prefix, int nic, int mtu) {}

    /// @param source an address of this machine, which the packets are from
    /// @return the index of the interface by which packets leave, or minus errno
    public static int interfaceTo(Inet4Address source, Inet4Address target) {
        try (Arena arena = Arena.ofConfined()) {
            Netlink.Request request =
                    new Netlink.Request(arena, RTM_GETROUTE, 0, RTMSG_BYTES)
                            .set(RTMSG_FAMILY, Sockets.AF_INET)
                            .set(RTMSG_DST_LEN, Integer.SIZE)
                            .set(RTMSG_SRC_LEN, Integer.SIZE)
                            .attribute(RTA_DST, target.getAddress())
                            .attribute(RTA_SRC, source.getAddress());
            Netlink.Answer answer = Netlink.ask(arena, Netlink.NETLINK_ROUTE, request);
            if (answer.error() < 0) {
                return answer.error();
            }
            MemorySegment route = answer.messages().getFirst();
            int index = Netlink.number(Netlink.attributes(route, RTMSG_BYTES).get(RTA_OIF));
            return index > 0 ? index : -Errno.ENETUNREACH;
        }
    }

    /// @return the unicast routes of all tables and both families that have a size of their own
    ///     (`ip route add ... mtu SIZE`); those that the kernel has told so far, where it fails
    public static List<Sized> sized() {
        List<Sized> all = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            Netlink.Request request =
                    new Netlink.Request(arena, RTM_GETROUTE, Netlink.NLM_F_DUMP, RTMSG_BYTES);
            for (MemorySegment route :
                    Netlink.ask(arena, Netlink.NETLINK_ROUTE, request).messages()) {
                sized(route, all);
            }
        }
        return all;
    }

    private static void sized(MemorySegment route, List<Sized> all) {
        if (route.byteSize() < RTMSG_BYTES || route.get(JAVA_BYTE, RTMSG_TYPE) != RTN_UNICAST) {
            return;
        }
        Map<Integer, MemorySegment> attributes = Netlink.attributes(route, RTMSG_BYTES);
        MemorySegment metrics = attributes.get(RTA_METRICS);
        int mtu =
                metrics == null ? -1 : Netlink.number(Netlink.attributes(metrics, 0).get(RTAX_MTU));
        if (mtu <= 0) {
            return;
        }
        boolean inet6 = route.get(JAVA_BYTE, RTMSG_FAMILY) == Sockets.AF_INET6;
        MemorySegment target = attributes.get(RTA_DST);
        byte[] ip = target == null ? new byte[inet6 ? 16 : 4] : target.toArray(JAVA_BYTE);
        int prefix = Byte.toUnsignedInt(route.get(JAVA_BYTE, RTMSG_DST_LEN));
        int nic = Netlink.number(attributes.get(RTA_OIF));
        try {
            all.add(new Sized(InetAddress.getByAddress(ip), prefix, nic, mtu));
        } catch (UnknownHostException e) {
            // No address of either length: another family's route.
        }
    }
}
