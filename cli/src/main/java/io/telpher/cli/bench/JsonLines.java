package io.telpher.cli.bench;

import io.telpher.cli.Json;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Writes measurements as JSON, one object per line. Not for several threads.
final class JsonLines implements AutoCloseable {
    private final @Nullable Writer out;
    private final @Nullable Report report;

    /// @param file where to, replaced when it exists; null to write nothing
    /// @param report gets every line too; null when there is none
    JsonLines(@Nullable Path file, @Nullable Report report) {
        this.report = report;
        try {
            out = file == null ? null : Files.newBufferedWriter(file);
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
        }
    }

    /// Writes a row of Telpher's own.
    ///
    /// @param lanes of a connection
    /// @param round which repetition, from 1
    void row(Row row, int lanes, int round, String pins) {
        Map<String, Object> fields = head("telpher", Machine.version(), "java");
        fields.put("device", row.stage().memory().onGpu() ? Gpus.kind() : "cpu");
        fields.put("transport", row.stage().transport());
        fields.put("path", row.stage().path());
        fields.put("memory", row.stage().memory().toString());
        fields.put("op", row.test().op().word());
        fields.put("tool", "bench");
        fields.put("settings", row.settings(pins));
        tail(fields, row.test(), lanes, round, row.iterations());
        fields.put("GBps", row.gbps());
        fields.put("us_p50", row.usP50());
        fields.put("us_p99", row.usP99());
        fields.put("us_p999", row.usP999());
        fields.put("cpu_s_per_GB", row.cpuPerGb());
        fields.put("wrong", row.wrong());
        write(fields);
    }

    /// Writes what a pair of a full mesh reached, or all of them together.
    ///
    /// @param processes who owns the GPUs
    /// @param round which measurement, from 1
    void flow(
            MeshResult flow,
            Case test,
            MemoryPair memory,
            MeshPlan.Processes processes,
            long round) {
        Map<String, Object> fields = head("telpher", Machine.version(), "java");
        fields.put("device", memory.onGpu() ? Gpus.kind() : "cpu");
        fields.put("transport", Stage.transportOf(flow.path()));
        fields.put("path", flow.path());
        fields.put("memory", memory.toString());
        fields.put("op", test.op().word());
        fields.put("tool", "fullmesh");
        fields.put("settings", flow.mode().text() + ", processes: " + processes.word());
        fields.put("from", flow.from());
        fields.put("to", flow.to());
        tail(fields, test, flow.lanes(), (int) round, flow.writes());
        fields.put("GBps", flow.gbps());
        fields.put("us_p50", flow.usP50());
        fields.put("us_p99", flow.usP99());
        fields.put("us_p999", flow.usP999());
        fields.put("cpu_s_per_GB", Double.NaN);
        fields.put("wrong", 0);
        write(fields);
    }

    /// Writes what another program reached. What its test does may be another operation than ours,
    /// beside which it was measured: the line of the comparison names both.
    ///
    /// @param test ours; size, pieces and depth are the same
    void peer(PeerResult peer, Case test, int round) {
        Map<String, Object> fields = head(peer.system(), peer.version(), peer.client());
        fields.put("device", peer.memory().contains("cuda") ? Gpus.kind() : "cpu");
        fields.put("transport", peer.transport());
        fields.put("path", peer.path());
        fields.put("memory", peer.memory());
        fields.put("op", peer.op());
        fields.put("tool", peer.tool());
        fields.put("settings", peer.settings());
        tail(fields, test, 0, round, peer.iterations());
        fields.put("GBps", peer.gbps());
        fields.put("us_p50", peer.usP50());
        fields.put("us_p99", peer.usP99());
        fields.put("us_p999", Double.NaN);
        fields.put("cpu_s_per_GB", peer.cpuPerGb());
        fields.put("wrong", peer.wrong().isPresent() ? peer.wrong().getAsLong() : Double.NaN);
        write(fields);
    }

    /// Writes a comparison.
    ///
    /// @param peer the other system
    /// @param tool its tool, or `best`
    /// @param of what is compared: GBps, us_p50, us_p99 or cpu_s_per_GB
    void ratio(
            String peer,
            String tool,
            String peerOp,
            Stage stage,
            Case test,
            String of,
            Spread ratio) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("ratio", "telpher/" + peer);
        fields.put("tool", tool);
        fields.put("peer_op", peerOp);
        fields.put("transport", stage.transport());
        fields.put("path", stage.path());
        fields.put("memory", stage.memory().toString());
        fields.put("op", test.op().word());
        fields.put("bytes", test.bytes());
        fields.put("pieces", test.pieces());
        fields.put("depth", test.depth());
        fields.put("client", "java");
        fields.put("of", of);
        fields.put("median", ratio.median());
        fields.put("min", ratio.min());
        fields.put("max", ratio.max());
        write(fields);
    }

    /// Writes a figure that is not an operation.
    ///
    /// @param reference what it is to be compared with, or null
    void metric(String name, double value, String unit, @Nullable Object reference) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("metric", name);
        fields.put("value", value);
        fields.put("unit", unit);
        fields.put("reference", reference);
        write(fields);
    }

    private static Map<String, Object> head(String system, String version, String client) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("system", system);
        fields.put("version", version);
        fields.put("client", client);
        return fields;
    }

    private static void tail(
            Map<String, Object> fields, Case test, int lanes, int round, long iterations) {
        fields.put("bytes", test.bytes());
        fields.put("pieces", test.pieces());
        fields.put("depth", test.depth());
        fields.put("lanes", lanes);
        fields.put("round", round);
        fields.put("iterations", iterations);
    }

    private void write(Map<String, Object> fields) {
        String line = Json.object(fields);
        if (report != null) {
            report.add(line);
        }
        if (out == null) {
            return;
        }
        try {
            out.write(line);
            out.write('\n');
            out.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        if (out != null) {
            try {
                out.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
