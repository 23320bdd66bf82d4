package io.telpher.internal.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Two hosts, played by two network namespaces: joined by two cables with a subnet each, and by a
/// switch that both are attached to twice. Needs root, `ip` and `iptables`.
class TcpNetworkTest {
    private static final String NAME = "tlp" + ProcessHandle.current().pid();
    private static final String NEAR = NAME + "a";
    private static final String FAR = NAME + "b";
    private static final String SWITCH = NAME + "s";

    @BeforeAll
    static void build() throws Exception {
        assumeTrue(
                "root".equals(System.getProperty("user.name")),
                "needs root, for network namespaces");
        assumeTrue(exists("ip"), "needs ip (package iproute2)");
        assumeTrue(exists("iptables"), "needs iptables (package iptables)");
        assumeTrue(run("ip", "netns", "add", NEAR) == 0, "cannot make network namespaces");
        must("ip", "netns", "add", FAR);
        must("ip", "netns", "add", SWITCH);
        for (int i = 1; i <= 2; i++) {
            must(
                    "ip",
                    "-n",
                    NEAR,
                    "link",
                    "add",
                    "name",
                    "cable" + i,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    "cable" + i,
                    "netns",
                    FAR);
            attach(NEAR, "cable" + i, "10.77." + i + ".1/24");
            attach(FAR, "cable" + i, "10.77." + i + ".2/24");
        }
        must("ip", "-n", SWITCH, "link", "add", "name", "bridge0", "type", "bridge");
        must("ip", "-n", SWITCH, "link", "set", "bridge0", "up");
        int host = 1;
        for (String space : List.of(NEAR, FAR)) {
            must("ip", "-n", space, "link", "set", "lo", "up");
            for (int i = 1; i <= 2; i++) {
                String port = "port" + host;
                must(
                        "ip",
                        "-n",
                        space,
                        "link",
                        "add",
                        "name",
                        "switch" + i,
                        "type",
                        "veth",
                        "peer",
                        "name",
                        port,
                        "netns",
                        SWITCH);
                must("ip", "-n", SWITCH, "link", "set", port, "master", "bridge0");
                must("ip", "-n", SWITCH, "link", "set", port, "up");
                attach(space, "switch" + i, "10.78.0." + host + "/16");
                host++;
            }
        }
        for (String space : List.of(NEAR, FAR)) {
            for (String nic : List.of("cable1", "cable2", "switch1", "switch2")) {
                awaitCarrier(space, nic);
            }
        }
    }

    /// The kernel tells of a new cable a moment later.
    private static void awaitCarrier(String space, String nic) throws Exception {
        String test = "test $(cat /sys/class/net/" + nic + "/operstate) = up";
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (run("ip", "netns", "exec", space, "sh", "-c", test) != 0) {
            assertThat(System.nanoTime()).as(nic + " stays down").isLessThan(until);
            Thread.sleep(50);
        }
    }

    private static boolean exists(String program) {
        return List.of("/sbin/", "/usr/sbin/", "/bin/", "/usr/bin/").stream()
                .anyMatch(folder -> Files.isExecutable(Path.of(folder + program)));
    }

    private static void attach(String space, String nic, String address) throws Exception {
        must("ip", "-n", space, "addr", "add", address, "dev", nic);
        must("ip", "-n", space, "link", "set", nic, "up");
    }

    @AfterAll
    static void tearDown() throws Exception {
        for (String space : List.of(NEAR, FAR, SWITCH)) {
            if (Files.exists(Path.of("/run/netns", space))) {
                run("ip", "netns", "delete", space);
            }
        }
    }

    private static int run(String... command) throws IOException, InterruptedException {
        return new ProcessBuilder(command).inheritIO().start().waitFor();
    }

    private static void must(String... command) throws IOException, InterruptedException {
        assertThat(run(command)).as(String.join(" ", command)).isZero();
    }

    private static void scenario(String name, String interfaces) throws Exception {
        List<String> command = new ArrayList<>(List.of("ip", "netns", "exec", NEAR));
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.addAll(
                List.of(
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        NetworkScenarios.class.getName(),
                        name,
                        FAR,
                        interfaces));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        try {
            String output =
                    new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
            assertThat(process.exitValue()).as(name + ": " + output).isZero();
            System.out.print(name + ": " + output + System.lineSeparator());
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void everyCableCarriesItsOwnPair() throws Exception {
        scenario("cables", "cable");
    }

    @Test
    void onOneSwitchEveryInterfaceCarriesItsOwnPairWhereTheHostAllowsIt() throws Exception {
        for (String space : List.of(NEAR, FAR)) {
            for (String setting : List.of("arp_ignore=1", "arp_announce=2", "rp_filter=0")) {
                must("ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv4.conf.all." + setting);
            }
        }
        scenario("cables", "switch");
    }

    @ParameterizedTest
    @ValueSource(strings = {"stopped", "dropped", "idle", "window", "blackhole", "eyeballs"})
    void lostAndStoppedPeersAreToldApart(String name) throws Exception {
        scenario(name, "10.77.1.0/24");
    }
}
