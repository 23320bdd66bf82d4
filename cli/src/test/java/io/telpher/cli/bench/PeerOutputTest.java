package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.io.InputStream;
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
        assertThat(output.overallLatency()).isEqualTo(0.101);
    }

    @Test
    void readsBandwidthsOfUcxPerftestAsMebibytes() throws IOException {
        PerftestOutput output = PerftestOutput.parse(recorded("ucx-put_bw.txt"));
        assertThat(output.overallBandwidth()).isEqualTo(114912.44);
        assertThat(output.gbps()).isCloseTo(65536 / 0.544e-6 / 1e9, within(0.1));
        assertThat(PerftestOutput.parse(recorded("ucx-get.txt")).overallLatency())
                .isEqualTo(1051.160);
    }

    @Test
    void refusesOtherTextOfUcxPerftest() {
        assertThatThrownBy(() -> PerftestOutput.parse("Usage: ucx_perftest [ server-hostname ]"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("Usage");
        assertThatThrownBy(() -> PerftestOutput.parse("iterations,overall_lat\n1"))
                .isInstanceOf(IllegalArgumentException.class);
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
