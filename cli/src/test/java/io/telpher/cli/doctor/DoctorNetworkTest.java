package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.JavaCommand;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Two network namespaces with faults in the way between them.
class DoctorNetworkTest {
    private static final String ID = "tlpd" + ProcessHandle.current().pid();
    private static final String HERE = ID + "a";
    private static final String THERE = ID + "b";

    @TempDir Path folder;

    @BeforeEach
    void connectNamespaces() {
        assumeTrue("root".equals(System.getProperty("user.name")), "needs root for namespaces");
        assumeTrue(Tool.find("ip") != null, "needs ip of the package iproute2");
        assumeTrue(Tool.find("iptables") != null, "needs the package iptables");
        run("ip netns add " + HERE);
        run("ip netns add " + THERE);
        run("ip -n %s link add d0 type veth peer name d0 netns %s".formatted(HERE, THERE));
        for (String namespace : List.of(HERE, THERE)) {
            String address = namespace.equals(HERE) ? "10.77.1.1/24" : "10.77.1.2/24";
            run("ip -n %s addr add %s dev d0".formatted(namespace, address));
            run("ip -n %s link set d0 up".formatted(namespace));
            run("ip -n %s link set lo up".formatted(namespace));
        }
        awaitLink(HERE);
        awaitLink(THERE);
    }

    /// The kernel notices some time after the second end is up that there is a link.
    private static void awaitLink(String namespace) {
        long end = System.nanoTime() + 20_000_000_000L;
        Tool.Output link;
        do {
            link = Tool.run(List.of("ip", "-n", namespace, "link", "show", "d0"), Map.of(), 20);
            assertThat(System.nanoTime()).as("no link yet: " + link.text()).isLessThan(end);
        } while (!link.text().contains("state UP"));
    }

    @AfterEach
    void removeNamespaces() {
        for (String namespace : List.of(HERE, THERE)) {
            Tool.run(List.of("ip", "netns", "del", namespace), Map.of(), 20);
        }
    }

    private static void run(String command) {
        Tool.Output output = Tool.run(Arrays.asList(command.split(" ")), Map.of(), 20);
        assertThat(output.exitCode()).as(command + ": " + output.error()).isZero();
    }

    private static List<String> telpher(String namespace, String... arguments) {
        List<String> command = new ArrayList<>(List.of("ip", "netns", "exec", namespace));
        command.addAll(JavaCommand.of(List.of(), arguments));
        return command;
    }

    @Test
    void packetsThatVanishByTheirSizeAreFound() throws Exception {
        Path address = folder.resolve("address");
        Process listener =
                Tool.start(telpher(THERE, "bench", "--listen", address.toString()), Map.of());
        try {
            for (int i = 0; i < 600 && !Files.exists(address); i++) {
                Thread.sleep(50);
            }
            assertThat(address).exists();
            Tool.Output sound = doctor(address);
            assertThat(sound.text())
                    .contains("leaves directly from 10.77.1.1 by d0, packets of 1500 bytes")
                    .contains("connected; full packets arrive");

            run(
                    "ip netns exec %s iptables -A INPUT -p tcp -m length --length 1300:65535 -j DROP"
                            .formatted(THERE));
            Tool.Output broken = doctor(address);
            assertThat(broken.exitCode()).as(broken.text()).isEqualTo(1);
            assertThat(broken.text())
                    .contains("10.77.1.2", " answers")
                    .contains("small packets arrive and full ones do not");

            run("ip -n %s addr del 10.77.1.1/24 dev d0".formatted(HERE));
            Tool.Output unrouted = doctor(address);
            assertThat(unrouted.text())
                    .contains("no route to 10.77.1.2", "ENETUNREACH")
                    .as("the link-local addresses are left")
                    .contains("connected");
        } finally {
            Tool.end(listener);
        }
    }

    @Test
    void aNamespaceWhereNothingIsUp() throws IOException {
        run("ip -n %s link set d0 down".formatted(HERE));
        run("ip -n %s link set lo down".formatted(HERE));
        Tool.Output output =
                Tool.await(
                        Tool.start(telpher(HERE, "doctor", "--only=mtu,subnets,paths"), Map.of()),
                        100);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains("no interface has an address", "ip link set lo up")
                .as("shared memory does not need one")
                .contains("is one copy");
    }

    private static Tool.Output doctor(Path address) throws IOException {
        // Both namespaces are of this host, so shared memory would do.
        Map<String, String> environment = Map.of("TELPHER_TRANSPORTS", "tcp");
        return Tool.await(
                Tool.start(
                        telpher(HERE, "doctor", "--json", "--only=peer", "@" + address),
                        environment),
                100);
    }
}
