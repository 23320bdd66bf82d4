package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.JavaCommand;
import io.telpher.cli.Tool;
import io.telpher.cli.TwoNamespaces;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Two network namespaces with faults in the way between them.
class DoctorNetworkTest {
    @TempDir Path folder;

    private TwoNamespaces namespaces;

    @BeforeEach
    void connectNamespaces() {
        String missing = TwoNamespaces.missing();
        assumeTrue(missing == null, missing);
        assumeTrue(Tool.find("iptables") != null, "needs the package iptables");
        namespaces = TwoNamespaces.create("tlpd");
    }

    @AfterEach
    void removeNamespaces() {
        if (namespaces != null) {
            namespaces.close();
        }
    }

    private static List<String> telpher(String namespace, String... arguments) {
        List<String> command = new ArrayList<>(TwoNamespaces.in(namespace));
        command.addAll(JavaCommand.of(List.of(), arguments));
        return command;
    }

    @Test
    void packetsThatVanishByTheirSizeAreFound() throws Exception {
        Path address = folder.resolve("address");
        Process listener =
                Tool.start(
                        telpher(namespaces.there(), "bench", "--listen", address.toString()),
                        Map.of());
        try {
            for (int i = 0; i < 600 && !Files.exists(address); i++) {
                Thread.sleep(50);
            }
            assertThat(address).exists();
            Tool.Output sound = doctorOfPeer(address);
            assertThat(sound.text())
                    .contains("leaves directly from 10.77.1.1 by d0, packets of 1500 bytes")
                    .contains("connected; full packets arrive");

            TwoNamespaces.run(
                    "ip netns exec %s iptables -A INPUT -p tcp -m length --length 1300:65535 -j DROP"
                            .formatted(namespaces.there()));
            Tool.Output broken = doctorOfPeer(address);
            assertThat(broken.exitCode()).as(broken.text()).isEqualTo(1);
            assertThat(broken.text())
                    .contains("10.77.1.2", " answers")
                    .contains("small packets arrive and full ones do not");

            TwoNamespaces.run("ip -n %s addr del 10.77.1.1/24 dev d0".formatted(namespaces.here()));
            Tool.Output unrouted = doctorOfPeer(address);
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
        TwoNamespaces.run("ip -n %s link set d0 down".formatted(namespaces.here()));
        TwoNamespaces.run("ip -n %s link set lo down".formatted(namespaces.here()));
        Tool.Output output = doctor(Map.of(), "--only=mtu,subnets,paths");
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains("no interface has an address", "ip link set lo up")
                .as("shared memory does not need one")
                .contains("is one copy");
    }

    @Test
    void aRouteWithASizeOfItsOwnIsFound() throws IOException {
        TwoNamespaces.run(
                "ip -n %s route add 10.78.0.0/16 via 10.77.1.2 mtu 1300"
                        .formatted(namespaces.here()));
        TwoNamespaces.run(
                "ip -n %s route add fd00:78::/32 dev d0 mtu 1280".formatted(namespaces.here()));
        assertThat(doctor(Map.of(), "--verbose", "--only=mtu").text())
                .contains(
                        "the route to 10.78.0.0/16 takes packets of 1300 bytes, its interface 1500")
                .contains("10.78.0.0/16 dev d0 mtu 1300; /sys/class/net/d0/mtu = 1500")
                .contains("the route to fd00:78:0:0:0:0:0:0/32 takes packets of 1280 bytes")
                .doesNotContain("the route to 10.77.1.0");
    }

    @Test
    void aRouteWithSeveralNextHopsIsFoundByEachOfItsInterfaces() throws IOException {
        for (String command :
                List.of(
                        "link add e0 mtu 1400 type veth peer name e1",
                        "addr add 10.79.1.1/24 dev e0",
                        "link set e1 up",
                        "link set e0 up",
                        "route add 10.80.0.0/16 mtu 1300 nexthop via 10.77.1.2"
                                + " nexthop via 10.77.1.3 nexthop via 10.79.1.2")) {
            TwoNamespaces.run("ip -n %s %s".formatted(namespaces.here(), command));
        }
        assertThat(doctor(Map.of(), "--verbose", "--only=mtu").text())
                .doesNotContain("check itself failed")
                .containsOnlyOnce("10.80.0.0/16 dev d0 mtu 1300; /sys/class/net/d0/mtu = 1500")
                .containsOnlyOnce("10.80.0.0/16 dev e0 mtu 1300; /sys/class/net/e0/mtu = 1400");
    }

    private Tool.Output doctorOfPeer(Path address) throws IOException {
        // Both namespaces are of this host, so shared memory would do.
        return doctor(Map.of("TELPHER_TRANSPORTS", "tcp"), "--json", "--only=peer", "@" + address);
    }

    /// Runs it in the one namespace.
    private Tool.Output doctor(Map<String, String> environment, String... arguments)
            throws IOException {
        List<String> command = telpher(namespaces.here(), "doctor");
        command.addAll(List.of(arguments));
        return Tool.await(Tool.start(command, environment), 100);
    }
}
