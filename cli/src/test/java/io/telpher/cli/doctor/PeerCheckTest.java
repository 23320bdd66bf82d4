package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.EndpointAddress;
import io.telpher.cli.doctor.Finding.Severity;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

/// The ways to a peer, and what can be wrong with them.
class PeerCheckTest extends WrittenHost {
    private static final PeerCheck CHECK =
            new PeerCheck(
                    EndpointAddress.of(
                            "peer.example",
                            7070,
                            "0123456789abcdef".getBytes(StandardCharsets.US_ASCII)));

    @Test
    void aPeersWaysAreShown() throws IOException {
        probes.resolved =
                List.of(InetAddress.ofLiteral("10.1.0.9"), InetAddress.ofLiteral("192.168.3.3"));
        List<Finding> all = CHECK.examine(RecordedHost.load("sound", folder, probes));
        assertThat(wrong(all)).isEmpty();
        assertThat(all)
                .extracting(Finding::evidence)
                .satisfiesExactly(
                        near ->
                                assertThat(near)
                                        .contains("10.1.0.9:7070", "directly", "by eth0", "9000"),
                        far -> assertThat(far).contains("192.168.3.3:7070", "routed"),
                        visit -> assertThat(visit).contains("lane 0 (tcp)"));
    }

    @Test
    void whatIsWrongWithAPeerIsToldApart() {
        assertThat(onlyWrong(CHECK).evidence()).contains("peer.example is unknown");

        probes.resolved = List.of(InetAddress.ofLiteral("10.1.0.9"));
        probes.visit = new Probes.Visit("does not accept this secret", true, null, "");
        assertThat(onlyWrong(CHECK).summary()).contains("refuses");

        probes.visit = new Probes.Visit(null, false, "a message did not arrive", "lane 0 (tcp)");
        assertThat(onlyWrong(CHECK))
                .satisfies(
                        f -> assertThat(f.severity()).isEqualTo(Severity.ERROR),
                        f -> assertThat(f.remedy()).contains("MTU", "tcp_mtu_probing"));

        probes.dialled = "Connection refused";
        probes.visit = new Probes.Visit("nobody there", false, null, "");
        assertThat(wrong(examine(CHECK)))
                .extracting(Finding::severity)
                .containsExactly(Severity.WARNING, Severity.ERROR);

        probes.egress = new Probes.Egress("connect: ENETUNREACH", null, 0);
        assertThat(wrong(examine(CHECK)).getFirst().summary())
                .startsWith("no route to 10.1.0.9:7070");
    }
}
