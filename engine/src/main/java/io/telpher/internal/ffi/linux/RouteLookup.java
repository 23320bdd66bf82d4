package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/// Asks the kernel for routes: routing tables, rules and all.
public final class RouteLookup {
    static final int RTM_GETROUTE = 26;
    static final int RTA_DST = 1;
    static final int RTA_SRC = 2;
    static final int RTA_OIF = 4;
    static final int RTA_METRICS = 8;
    static final int RTA_MULTIPATH = 9;
    static final int RTA_NH_ID = 30;
    static final int RTAX_MTU = 2;
    static final int RTN_UNICAST = 1;

    /// ```text
    /// rtmsg:   0 family (1)   1 dst_len (1)   2 src_len (1)   7 type (1)   8 flags (4)   12 end
    /// ```
    static final int RTMSG_BYTES = 12;

    static final int RTMSG_FAMILY = 0;
    static final int RTMSG_DST_LEN = 1;
    static final int RTMSG_SRC_LEN = 2;
    static final int RTMSG_TYPE = 7;
    static final int RTMSG_FLAGS = 8;

    /// Answer with the entry of the table that was found, so that there has to be one.
    static final int RTM_F_FIB_MATCH = 0x2000;

    /// ```text
    /// rtnexthop: 0 len (2), attributes included   ...   4 interface   8 attributes
    /// ```
    static final int NEXTHOP_BYTES = 8;

    static final int NEXTHOP_LEN = 0;
    static final int NEXTHOP_INTERFACE = 4;

    private RouteLookup() {}

    /// A route that was given a size of packets of its own.
    ///
    /// @param target the first address of where it leads
    /// @param prefix how many bits of it count; 0 for the default route
    /// @param nic the index of its interface, above 0
    /// @param mtu bytes
    public record Sized(InetAddress target, int prefix, int nic, int mtu) {}

    /// @param source an address of this machine, which the packets are from
    /// @param target of the same family
    /// @return the index of the interface by which packets leave, or minus errno
    public static int interfaceTo(InetAddress source, InetAddress target) {
        try (Arena arena = Arena.ofConfined()) {
            return interfaceOf(arena, request(arena, source, target));
        }
    }

    /// Whether a table has a route by an interface, the on-link ones included. For packets that are
    /// bound to an interface, as those of a RoCE port are, the kernel takes every address to be
    /// on-link where no table knows it: here that is no route. One of several next hops counts.
    ///
    /// @param nic the index of the interface
    /// @param source an address that it has
    /// @param target of the same family
    public static boolean leads(int nic, InetAddress source, InetAddress target) {
        try (Arena arena = Arena.ofConfined()) {
            byte[] index = new byte[Integer.BYTES];
            MemorySegment.ofArray(index).set(JAVA_INT.withByteAlignment(1), 0, nic);
            Netlink.Request request =
                    request(arena, source, target)
                            .set(RTMSG_FLAGS + 1, RTM_F_FIB_MATCH >> 8)
                            .attribute(RTA_OIF, index);
            Netlink.Answer answer = Netlink.ask(arena, Netlink.NETLINK_ROUTE, request);
            if (answer.error() < 0) {
                return false;
            }
            Map<Integer, MemorySegment> found =
                    Netlink.attributes(answer.messages().getFirst(), RTMSG_BYTES);
            Set<Integer> nics = interfaces(found);
            // The kernel looks for next hops of the interface that it was asked for alone.
            return nics.contains(nic) || (nics.isEmpty() && found.containsKey(RTA_NH_ID));
        }
    }

    private static Netlink.Request request(Arena arena, InetAddress source, InetAddress target) {
        boolean inet4 = target instanceof Inet4Address;
        int bits = inet4 ? Integer.SIZE : 2 * Long.SIZE;
        return new Netlink.Request(arena, RTM_GETROUTE, 0, RTMSG_BYTES)
                .set(RTMSG_FAMILY, inet4 ? Sockets.AF_INET : Sockets.AF_INET6)
                .set(RTMSG_DST_LEN, bits)
                .set(RTMSG_SRC_LEN, bits)
                .attribute(RTA_DST, target.getAddress())
                .attribute(RTA_SRC, source.getAddress());
    }

    private static int interfaceOf(Arena arena, Netlink.Request request) {
        Netlink.Answer answer = Netlink.ask(arena, Netlink.NETLINK_ROUTE, request);
        if (answer.error() < 0) {
            return answer.error();
        }
        MemorySegment route = answer.messages().getFirst();
        int index = Netlink.number(Netlink.attributes(route, RTMSG_BYTES).get(RTA_OIF));
        return index > 0 ? index : -Errno.ENETUNREACH;
    }

    /// @return the unicast routes of all tables and both families that have a size of their own
    ///     (`ip route add ... mtu SIZE`), one with several next hops once for each interface that
    ///     it takes; those that the kernel has told so far, where it fails
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
        try {
            InetAddress address = InetAddress.getByAddress(ip);
            for (int nic : interfaces(attributes)) {
                all.add(new Sized(address, prefix, nic, mtu));
            }
        } catch (UnknownHostException e) {
            // No address of either length: another family's route.
        }
    }

    /// A route with several next hops names no interface itself, each of them does. One by a next
    /// hop that is an object of its own names none at all where the kernel tells that alone
    /// (`nexthop_compat_mode` 0).
    private static Set<Integer> interfaces(Map<Integer, MemorySegment> attributes) {
        Set<Integer> all = new LinkedHashSet<>();
        all.add(Netlink.number(attributes.get(RTA_OIF)));
        MemorySegment hops = attributes.getOrDefault(RTA_MULTIPATH, MemorySegment.NULL);
        long at = 0;
        while (at + NEXTHOP_BYTES <= hops.byteSize()) {
            all.add(hops.get(JAVA_INT, at + NEXTHOP_INTERFACE));
            int length = Short.toUnsignedInt(hops.get(JAVA_SHORT, at + NEXTHOP_LEN));
            at += Math.max(NEXTHOP_BYTES, Netlink.aligned(length));
        }
        all.removeIf(nic -> nic <= 0);
        return all;
    }
}
