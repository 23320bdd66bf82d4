package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.telpher.topology.Gid;
import io.telpher.topology.NicPort;
import io.telpher.topology.NicPort.Fabric;
import io.telpher.topology.NicPort.State;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;

/// On what the programs really printed.
class PeerOutputTest {
    @Test
    void readsLatenciesOfUcxPerftest() throws IOException {
        PerftestOutput output = PerftestOutput.parse(recorded("ucx-tag_lat.txt"));
        assertThat(output.iterations()).isEqualTo(30_000);
        assertThat(output.percentile()).isEqualTo(0.115);
        // Not the mean, which is 1051.160.
        assertThat(PerftestOutput.parse(recorded("ucx-get.txt")).percentile()).isEqualTo(1133.563);
    }

    @Test
    void readsBandwidthsOfUcxPerftestAsMebibytes() throws IOException {
        PerftestOutput output = PerftestOutput.parse(recorded("ucx-put_bw.txt"));
        assertThat(output.overallBandwidth()).isEqualTo(114912.44);
        assertThat(output.gbps()).isCloseTo(65536 / 0.544e-6 / 1e9, within(0.1));
    }

    @Test
    void refusesOtherTextOfUcxPerftest() {
        assertThatThrownBy(() -> PerftestOutput.parse("Usage: ucx_perftest [ server-hostname ]"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("Usage");
        assertThatThrownBy(() -> PerftestOutput.parse("iterations,overall_bw\n1"))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void readsWhatThePerftestProgramsPrint() throws IOException {
        IbPerftestOutput bandwidth = IbPerftestOutput.parse(recorded("ib_write_bw.txt"));
        assertThat(bandwidth.latency()).isFalse();
        assertThat(bandwidth.iterations()).isEqualTo(500);
        assertThat(bandwidth.gbps()).isCloseTo(109.22 * 1048576 / 1e9, within(1e-6));
        IbPerftestOutput latency = IbPerftestOutput.parse(recorded("ib_write_lat.txt"));
        assertThat(latency.latency()).isTrue();
        assertThat(latency.usP50()).isEqualTo(17.46);
        assertThat(latency.usP99()).isEqualTo(61.67);
        String overflown = recorded("ib_write_lat.txt").replace("\t7.67 ", "\t-nan ");
        assertThat(overflown).contains("-nan"); // as it prints the deviation of long times
        assertThat(IbPerftestOutput.parse(overflown)).isEqualTo(latency);
        for (String text : new String[] {"", "#bytes #iterations\n1 2", "#bytes x\nCouldn't"}) {
            assertThatThrownBy(() -> IbPerftestOutput.parse(text))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("perftest printed");
        }
    }

    @Test
    void perftestRunsBetweenThePortsOfOneCable() {
        PerftestPeer.Ends ends =
                PerftestPeer.Ends.of(
                        List.of(
                                port("rxe01", State.UP, "10.9.1.1"),
                                port("rxe02", State.UP, "10.9.2.1"),
                                port("rxe12", State.DOWN, "10.9.1.7"),
                                port("rxe20", State.UP, "10.9.2.2")));
        assertThat(Objects.requireNonNull(ends).client().name()).isEqualTo("rxe02");
        assertThat(ends.server().name()).isEqualTo("rxe20");
        PerftestPeer.Ends alone =
                PerftestPeer.Ends.of(List.of(port("mlx5_0", State.UP, "10.9.1.1")));
        assertThat(Objects.requireNonNull(alone).server()).isEqualTo(alone.client());
        assertThat(PerftestPeer.Ends.of(List.of())).isNull();
        assertThat(PerftestPeer.tool(new Case(Op.WRITE, 65_536, 1, 16))).isEqualTo("ib_write_bw");
        assertThat(PerftestPeer.tool(new Case(Op.COUNTER, 8, 1, 1))).isEqualTo("ib_write_lat");
        assertThat(PerftestPeer.tool(new Case(Op.WRITE, 8, 2, 1))).isNull();
        assertThat(PerftestPeer.opOf("ib_write_lat")).isEqualTo("write");
        assertThat(PerftestPeer.opOf("ib_send_bw")).isEqualTo("send");
    }

    private static NicPort port(String name, State state, String address) {
        return new NicPort(
                name,
                0,
                0,
                name,
                Fabric.ROCE,
                1,
                100_000,
                state,
                "",
                "",
                null,
                "",
                0,
                List.of(new Gid(1, Gid.Type.ROCE_V2, address)));
    }

    @Test
    void readsTheSummaryOfIperf3() throws IOException {
        Iperf3Peer.Summary summary = Iperf3Peer.Summary.parse(recorded("iperf3.json"));
        assertThat(summary.bytes()).isEqualTo(2297692160.0);
        assertThat(summary.gbps()).isCloseTo(2.29, within(0.01));
        assertThat(summary.cpuPerGb()).isCloseTo(0.38, within(0.01));
        assertThatThrownBy(() -> Iperf3Peer.Summary.parse("{\"error\":\"unable to connect\"}"))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void readsProcessorTimesOfBothShells() {
        assertThat(CpuTimes.parse("noise\n0m0.001s 0m0.002s\n0m1.500s 1m0.250s\n"))
                .isEqualTo(61.75);
        assertThat(CpuTimes.parse("0m0.000000s 0m0.000000s\n0m0.010000s 0m0.020000s\n"))
                .isCloseTo(0.03, within(1e-9));
        assertThat(CpuTimes.parse("nothing")).isNaN();
    }

    @Test
    void setsWhatBothLinksCarriedAgainstTheirRates() {
        String json =
                "{\"metric\":\"equal: sum of rails, write of 256M at depth 1\",\"value\":0.48,\"x\":1}\n"
                        + "{\"metric\":\"equal: configured rates\",\"value\":0.5000,\"x\":null}\n"
                        + "{\"metric\":\"1:2: configured rates\",\"value\":0.75}\n";
        Map<String, Double> shares = VethBench.parse(json);
        assertThat(shares.get("equal")).isCloseTo(0.96, within(1e-9));
        assertThat(shares.get("1:2")).isNaN();
    }

    @Test
    void choosesTheTestsThatDoWhatARowDoes() {
        assertThat(UcxPeer.tools(new Case(Op.WRITE, 8, 1, 1))).containsExactly("ucp_put_lat");
        assertThat(UcxPeer.tools(new Case(Op.WRITE, 8, 1, 16))).containsExactly("ucp_put_bw");
        assertThat(UcxPeer.tools(new Case(Op.SEND, 8, 1, 16)))
                .containsExactly("tag_bw", "ucp_am_bw");
        assertThat(UcxPeer.opOf("ucp_put_bw")).isEqualTo("write");
        assertThat(UcxPeer.opOf("ucp_get")).isEqualTo("read");
        assertThat(UcxPeer.opOf("tag_lat")).isEqualTo("send");
    }

    private static String recorded(String name) throws IOException {
        try (InputStream in = PeerOutputTest.class.getResourceAsStream(name)) {
            return new String(Objects.requireNonNull(in, name).readAllBytes(), UTF_8);
        }
    }
}
