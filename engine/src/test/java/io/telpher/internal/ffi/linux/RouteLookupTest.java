package io.telpher.internal.ffi.linux;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.net.Inet4Address;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class RouteLookupTest {
    private static final Inet4Address LOOPBACK = Inet4Address.ofLiteral("127.0.0.1");

    @Test
    void loopbackLeavesByLoopback() throws Exception {
        int index = RouteLookup.interfaceTo(LOOPBACK, LOOPBACK);
        assertThat(NetworkInterface.getByIndex(index).isLoopback()).isTrue();
    }

    @Test
    void anAddressOfNobodyHereIsNoSource() {
        Inet4Address stranger = Inet4Address.ofLiteral("192.0.2.77");
        assertThat(RouteLookup.interfaceTo(stranger, LOOPBACK)).isNegative();
    }

    /// Without a route the kernel takes any address to be on the link of the interface that packets
    /// are bound to.
    @Test
    void noTableHasARouteByLoopbackToWhatIsNotThere() throws Exception {
        int loopback = NetworkInterface.getByInetAddress(LOOPBACK).getIndex();
        Inet4Address mine = Inet4Address.ofLiteral("127.0.0.5");
        Inet4Address others = Inet4Address.ofLiteral("192.0.2.77");
        assertThat(RouteLookup.leads(loopback, LOOPBACK, mine)).isTrue();
        assertThat(RouteLookup.leads(loopback, LOOPBACK, others)).isFalse();
        assertThat(RouteLookup.leads(loopback + 1000, LOOPBACK, mine)).isFalse();
    }

    /// Which names no interface itself, its next hops do; or not even these, where they are objects
    /// of their own and the kernel tells their number alone.
    @Test
    void aRouteWithSeveralNextHopsLeadsByEachOfThem() throws Exception {
        assumeTrue(
                "root".equals(System.getProperty("user.name")),
                "needs root, for network namespaces");
        assumeTrue(
                Stream.of("/sbin/ip", "/usr/sbin/ip", "/bin/ip", "/usr/bin/ip")
                        .anyMatch(ip -> Files.isExecutable(Path.of(ip))),
                "needs ip (package iproute2)");
        String space = "tlp" + ProcessHandle.current().pid() + "r";
        ip("netns add " + space);
        try {
            String in = "-n " + space;
            for (int i = 0; i < 3; i++) {
                ip("%s link add d%d type veth peer name p%d".formatted(in, i, i));
                ip("%s addr add 10.1.%d.1/24 dev d%d".formatted(in, i, i));
                ip("%s link set p%d up".formatted(in, i));
                ip("%s link set d%d up".formatted(in, i));
            }
            String hops = " nexthop via 10.1.0.2 dev d0 nexthop via 10.1.1.2 dev d1";
            ip(in + " route add 10.9.0.0/16" + hops);
            ip(in + " nexthop add id 1 via 10.1.0.2 dev d0");
            ip(in + " nexthop add id 2 via 10.1.1.2 dev d1");
            ip(in + " nexthop add id 3 group 1/2");
            ip(in + " route add 10.10.0.0/16 nhid 3");
            for (int compatible : new int[] {1, 0}) {
                ip(
                        "netns exec %s sysctl -qw net.ipv4.nexthop_compat_mode=%d"
                                .formatted(space, compatible));
                assertThat(leads(space, "10.9.1.1")).containsExactly("true", "true", "false");
                assertThat(leads(space, "10.10.1.1")).containsExactly("true", "true", "false");
                assertThat(leads(space, "10.11.1.1")).containsExactly("false", "false", "false");
            }
        } finally {
            ip("netns delete " + space);
        }
    }

    /// @return whether each interface leads to an address
    private static List<String> leads(String space, String target) throws Exception {
        List<String> questions = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            questions.addAll(List.of("d" + i, "10.1.%d.1".formatted(i), target));
        }
        List<String> command = new ArrayList<>(List.of("ip", "netns", "exec", space));
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.add(RoutesThere.class.getName());
        command.addAll(questions);
        return output(command).lines().toList();
    }

    private static void ip(String arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of("ip"));
        command.addAll(List.of(arguments.split(" ")));
        String unused = output(command);
    }

    private static String output(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor()).as("%s: %s", command, said).isZero();
        return said;
    }
}
