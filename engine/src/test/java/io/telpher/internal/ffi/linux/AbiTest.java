package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.CConstants;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Compares every number in the bindings with what the C compiler says: the C programs are made
/// from the Java constants, so that none can be forgotten.
class AbiTest {
    private static final List<Class<?>> CLASSES =
            List.of(
                    Clocks.class,
                    Descriptors.class,
                    Epoll.class,
                    Errno.class,
                    EventFd.class,
                    FdPassing.class,
                    GenericNetlink.class,
                    IoVec.class,
                    Memory.class,
                    MsgHdr.class,
                    Netlink.class,
                    Poll.class,
                    Processes.class,
                    RouteLookup.class,
                    SocketAddresses.class,
                    Sockets.class,
                    TcpInfo.class);

    /// The kernel and glibc share these headers, except for `struct tcp_info`: only the kernel's is
    /// complete, and the two headers exclude each other.
    private static final String HEADERS =
            """
            #define _GNU_SOURCE
            #include <errno.h>
            #include <fcntl.h>
            #include <linux/ethtool_netlink.h>
            #include <linux/genetlink.h>
            #include <linux/mempolicy.h>
            #include <linux/rtnetlink.h>
            #include <limits.h>
            #include <netinet/in.h>
            #include <netinet/ip.h>
            #include <netinet/tcp.h>
            #include <poll.h>
            #include <signal.h>
            #include <stddef.h>
            #include <stdio.h>
            #include <sys/epoll.h>
            #include <sys/eventfd.h>
            #include <sys/mman.h>
            #include <sys/prctl.h>
            #include <sys/resource.h>
            #include <sys/socket.h>
            #include <sys/syscall.h>
            #include <sys/timex.h>
            #include <sys/uio.h>
            #include <sys/un.h>
            #include <unistd.h>
            """;

    private static final String TCP_INFO_HEADERS =
            """
            #include <stddef.h>
            #include <stdio.h>
            #include <linux/tcp.h>
            """;

    /// Constants that C names differently, and layouts. Everything else has its C name.
    private static final Map<String, String> EXPRESSIONS =
            Map.ofEntries(
                    Map.entry("Clocks.TIMEX_BYTES", "sizeof(struct timex)"),
                    Map.entry("Epoll.EVENT_BYTES", "sizeof(struct epoll_event)"),
                    Map.entry("Epoll.EVENT_EVENTS", "offsetof(struct epoll_event, events)"),
                    Map.entry("Epoll.EVENT_DATA", "offsetof(struct epoll_event, data)"),
                    Map.entry("FdPassing.CMSG_LEN_OFFSET", "offsetof(struct cmsghdr, cmsg_len)"),
                    Map.entry("FdPassing.CMSG_LEVEL", "offsetof(struct cmsghdr, cmsg_level)"),
                    Map.entry("FdPassing.CMSG_TYPE", "offsetof(struct cmsghdr, cmsg_type)"),
                    Map.entry("FdPassing.CMSG_DATA", "CMSG_LEN(0)"),
                    Map.entry("GenericNetlink.GENL_BYTES", "sizeof(struct genlmsghdr)"),
                    Map.entry("GenericNetlink.GENL_CMD", "offsetof(struct genlmsghdr, cmd)"),
                    Map.entry(
                            "GenericNetlink.GENL_VERSION", "offsetof(struct genlmsghdr, version)"),
                    Map.entry("IoVec.BYTES", "sizeof(struct iovec)"),
                    Map.entry("IoVec.BASE", "offsetof(struct iovec, iov_base)"),
                    Map.entry("IoVec.LENGTH", "offsetof(struct iovec, iov_len)"),
                    Map.entry("IoVec.MAX_ENTRIES", "IOV_MAX"),
                    Map.entry("MsgHdr.BYTES", "sizeof(struct msghdr)"),
                    Map.entry("MsgHdr.NAME", "offsetof(struct msghdr, msg_name)"),
                    Map.entry("MsgHdr.NAME_LENGTH", "offsetof(struct msghdr, msg_namelen)"),
                    Map.entry("MsgHdr.IOV", "offsetof(struct msghdr, msg_iov)"),
                    Map.entry("MsgHdr.IOV_LENGTH", "offsetof(struct msghdr, msg_iovlen)"),
                    Map.entry("MsgHdr.CONTROL", "offsetof(struct msghdr, msg_control)"),
                    Map.entry("MsgHdr.CONTROL_LENGTH", "offsetof(struct msghdr, msg_controllen)"),
                    Map.entry("MsgHdr.FLAGS", "offsetof(struct msghdr, msg_flags)"),
                    Map.entry("Poll.POLLFD_BYTES", "sizeof(struct pollfd)"),
                    Map.entry("Poll.POLLFD_FD", "offsetof(struct pollfd, fd)"),
                    Map.entry("Poll.POLLFD_EVENTS", "offsetof(struct pollfd, events)"),
                    Map.entry("Poll.POLLFD_REVENTS", "offsetof(struct pollfd, revents)"),
                    Map.entry("Processes.RUSAGE_BYTES", "sizeof(struct rusage)"),
                    Map.entry(
                            "Processes.RUSAGE_USER_SECONDS",
                            "offsetof(struct rusage, ru_utime.tv_sec)"),
                    Map.entry(
                            "Processes.RUSAGE_USER_MICROS",
                            "offsetof(struct rusage, ru_utime.tv_usec)"),
                    Map.entry(
                            "Processes.RUSAGE_SYSTEM_SECONDS",
                            "offsetof(struct rusage, ru_stime.tv_sec)"),
                    Map.entry(
                            "Processes.RUSAGE_SYSTEM_MICROS",
                            "offsetof(struct rusage, ru_stime.tv_usec)"),
                    Map.entry("Netlink.HEADER_BYTES", "sizeof(struct nlmsghdr)"),
                    Map.entry("Netlink.HEADER_LEN", "offsetof(struct nlmsghdr, nlmsg_len)"),
                    Map.entry("Netlink.HEADER_TYPE", "offsetof(struct nlmsghdr, nlmsg_type)"),
                    Map.entry("Netlink.HEADER_FLAGS", "offsetof(struct nlmsghdr, nlmsg_flags)"),
                    Map.entry("RouteLookup.RTMSG_BYTES", "sizeof(struct rtmsg)"),
                    Map.entry("RouteLookup.RTMSG_FAMILY", "offsetof(struct rtmsg, rtm_family)"),
                    Map.entry("RouteLookup.RTMSG_DST_LEN", "offsetof(struct rtmsg, rtm_dst_len)"),
                    Map.entry("RouteLookup.RTMSG_SRC_LEN", "offsetof(struct rtmsg, rtm_src_len)"),
                    Map.entry("Netlink.ATTRIBUTE_BYTES", "sizeof(struct rtattr)"),
                    Map.entry("Netlink.ATTRIBUTE_LEN", "offsetof(struct rtattr, rta_len)"),
                    Map.entry("Netlink.ATTRIBUTE_TYPE", "offsetof(struct rtattr, rta_type)"),
                    Map.entry("RouteLookup.RTMSG_TYPE", "offsetof(struct rtmsg, rtm_type)"),
                    Map.entry("RouteLookup.RTMSG_FLAGS", "offsetof(struct rtmsg, rtm_flags)"),
                    Map.entry("RouteLookup.NEXTHOP_BYTES", "sizeof(struct rtnexthop)"),
                    Map.entry("RouteLookup.NEXTHOP_LEN", "offsetof(struct rtnexthop, rtnh_len)"),
                    Map.entry(
                            "RouteLookup.NEXTHOP_INTERFACE",
                            "offsetof(struct rtnexthop, rtnh_ifindex)"),
                    Map.entry("SocketAddresses.STORAGE_BYTES", "sizeof(struct sockaddr_storage)"),
                    Map.entry("SocketAddresses.FAMILY", "offsetof(struct sockaddr, sa_family)"),
                    Map.entry("SocketAddresses.IN_PORT", "offsetof(struct sockaddr_in, sin_port)"),
                    Map.entry(
                            "SocketAddresses.IN_ADDRESS", "offsetof(struct sockaddr_in, sin_addr)"),
                    Map.entry("SocketAddresses.IN_BYTES", "sizeof(struct sockaddr_in)"),
                    Map.entry(
                            "SocketAddresses.IN6_FLOW_INFO",
                            "offsetof(struct sockaddr_in6, sin6_flowinfo)"),
                    Map.entry(
                            "SocketAddresses.IN6_ADDRESS",
                            "offsetof(struct sockaddr_in6, sin6_addr)"),
                    Map.entry(
                            "SocketAddresses.IN6_SCOPE_ID",
                            "offsetof(struct sockaddr_in6, sin6_scope_id)"),
                    Map.entry("SocketAddresses.IN6_BYTES", "sizeof(struct sockaddr_in6)"),
                    Map.entry("SocketAddresses.UN_PATH", "offsetof(struct sockaddr_un, sun_path)"),
                    Map.entry("SocketAddresses.UN_BYTES", "sizeof(struct sockaddr_un)"),
                    Map.entry(
                            "SocketAddresses.MAX_UNIX_NAME_BYTES",
                            "sizeof(((struct sockaddr_un *) 0)->sun_path) - 1"),
                    Map.entry("Sockets.UCRED_BYTES", "sizeof(struct ucred)"),
                    Map.entry("Sockets.UCRED_PID", "offsetof(struct ucred, pid)"),
                    Map.entry("Sockets.UCRED_UID", "offsetof(struct ucred, uid)"),
                    Map.entry("Sockets.UCRED_GID", "offsetof(struct ucred, gid)"));

    /// Sizes of our own choosing, and one limit that no header tells.
    private static final Set<String> NOT_IN_C =
            Set.of(
                    "FdPassing.MAX_DESCRIPTORS",
                    "Processes.CPU_SET_BYTES",
                    "Netlink.ROOM",
                    "TcpInfo.BYTES");

    /// Younger than the headers of the systems that we build on.
    private static final Set<String> MAYBE_MISSING =
            Set.of(
                    "GenericNetlink.NETDEV_CMD_BIND_RX",
                    "Sockets.SO_PEERPIDFD",
                    "Sockets.TCP_RTO_MAX_MS");

    @TempDir private Path folder;

    @BeforeAll
    static void needsCompiler() {
        CConstants.assumeCompiler();
    }

    @Test
    void constantsAndLayoutsAreThoseOfTheHeaders() throws Exception {
        Map<String, Long> java = new TreeMap<>();
        Map<String, String> c = new LinkedHashMap<>();
        for (Class<?> owner : CLASSES) {
            collect(owner, java, c);
        }
        c.keySet().removeIf(AbiTest::isTcpInfoField);
        for (int bytes = 1; bytes <= 17; bytes++) {
            java.put("CMSG_LEN(" + bytes + ")", FdPassing.messageLength(bytes));
            java.put("CMSG_SPACE(" + bytes + ")", FdPassing.messageSpace(bytes));
            c.put("CMSG_LEN(" + bytes + ")", "CMSG_LEN(" + bytes + ")");
            c.put("CMSG_SPACE(" + bytes + ")", "CMSG_SPACE(" + bytes + ")");
        }

        Map<String, Long> told = run("constants", program(HEADERS, c));

        java.keySet().removeIf(AbiTest::isTcpInfoField);
        for (String name : MAYBE_MISSING) {
            if (!told.containsKey(name)) {
                java.remove(name);
            }
        }
        assertThat(java).hasSizeGreaterThan(250);
        assertThat(told).isEqualTo(java);
    }

    @Test
    void tcpInfoOffsetsAreThoseOfTheKernel() throws Exception {
        Map<String, Long> java = new TreeMap<>();
        Map<String, String> c = new LinkedHashMap<>();
        collect(TcpInfo.class, java, c);
        java.keySet().removeIf(name -> !isTcpInfoField(name));
        c.keySet().removeIf(name -> !isTcpInfoField(name));
        c.replaceAll(
                (_, field) ->
                        "offsetof(struct tcp_info, tcpi_" + field.toLowerCase(Locale.ROOT) + ")");

        assertThat(java).hasSizeGreaterThan(10);
        assertThat(run("tcpinfo", program(TCP_INFO_HEADERS, c))).isEqualTo(java);
    }

    private static boolean isTcpInfoField(String name) {
        return name.startsWith("TcpInfo.") && !name.startsWith("TcpInfo.TCP_");
    }

    private static void collect(Class<?> owner, Map<String, Long> java, Map<String, String> c) {
        CConstants.collect(owner, NOT_IN_C, EXPRESSIONS, AbiTest::isTcpInfoField, java, c);
    }

    private Map<String, Long> run(String name, String program) throws Exception {
        return CConstants.run(folder, name, program, List.of());
    }

    private static String program(String headers, Map<String, String> expressions) {
        return CConstants.program(headers, expressions, MAYBE_MISSING);
    }
}
