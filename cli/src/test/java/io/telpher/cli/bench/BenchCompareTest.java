package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs `telpher bench --compare`.
class BenchCompareTest {
    @TempDir Path temp;

    @Test
    void comparesWithAPeerInEveryRound() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                BenchProcess.run(
                        Map.of(),
                        "--compare=memcpy",
                        "--rounds=2",
                        "--path=mapped",
                        "--op=write",
                        "--sizes=64K",
                        "--depth=1,4",
                        "--seconds=0.02",
                        "--patience=0",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains("round 2 of 2", "all data right")
                .containsPattern("mapped +write of 64K.* GBps +/ memcpy copy: ");
        List<String> lines = Files.readAllLines(json);
        for (String system : List.of("telpher", "memcpy")) {
            for (int depth : new int[] {1, 4}) {
                for (int round : new int[] {1, 2}) {
                    int lanes = system.equals("telpher") ? 1 : 0;
                    String tail =
                            "\"depth\":%d,\"lanes\":%d,\"round\":%d,"
                                    .formatted(depth, lanes, round);
                    assertThat(lines)
                            .filteredOn(l -> l.startsWith("{\"system\":\"" + system + "\","))
                            .filteredOn(l -> l.contains("\"bytes\":65536,\"pieces\":1," + tail))
                            .singleElement()
                            .asString()
                            .contains("\"transport\":\"shm\"", "\"op\":\"write\"")
                            .containsPattern("\"GBps\":[0-9.]*[1-9]")
                            .containsPattern(
                                    depth == 1 || system.equals("telpher")
                                            ? "\"us_p50\":[0-9.]*[1-9]"
                                            : "\"us_p50\":null")
                            .endsWith("\"wrong\":0}");
                }
            }
        }
        String ratio =
                "\\{\"ratio\":\"telpher/memcpy\",\"tool\":\"copy\",\"peer_op\":\"write\","
                        + "\"transport\":\"shm\",\"path\":\"mapped\",\"memory\":\"telpher\","
                        + "\"op\":\"write\",\"bytes\":65536,\"pieces\":1,\"depth\":%s,\"client\":\"java\","
                        + "\"of\":\"%s\",\"median\":[0-9.]+,\"min\":[0-9.]+,\"max\":[0-9.]+}";
        for (String of : List.of("1 us_p50", "1 cpu_s_per_GB", "4 GBps", "4 cpu_s_per_GB")) {
            String[] parts = of.split(" ");
            assertThat(lines)
                    .as(of)
                    .filteredOn(l -> l.matches(ratio.formatted((Object[]) parts)))
                    .hasSize(1);
        }
    }

    @Test
    void peersThatAreMissingAreNamedWithTheirPackages() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                BenchProcess.run(
                        Map.of("PATH", temp.toString()),
                        "--compare=ucx,iperf3",
                        "--rounds=1",
                        "--path=tcp",
                        "--op=write",
                        "--sizes=64K",
                        "--depth=4",
                        "--seconds=0.02",
                        "--patience=0",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains(
                        "not compared with ucx: ucx_perftest is missing (package ucx-utils)",
                        "not compared with iperf3: iperf3 is missing (package iperf3)",
                        "all data right");
        assertThat(Files.readAllLines(json)).noneMatch(l -> l.contains("\"ratio\""));
    }
}
