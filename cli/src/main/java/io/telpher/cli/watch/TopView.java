package io.telpher.cli.watch;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.cli.Json;
import io.telpher.internal.observe.Snapshot;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Shows a process's counters, for people or as JSON lines.
final class TopView {
    /// While somebody looks a snapshot is written about every second.
    private static final long OLD_MILLIS = 3000;

    private static final String ROW = "  %-18s %-10s %9s %9s %11s %9s %8s  %s%n";

    private TopView() {}

    /// @param before an earlier snapshot, or null
    static String table(long pid, @Nullable Snapshot before, Snapshot now, long nowMillis) {
        StringBuilder text = new StringBuilder();
        Rates rates = new Rates(before, now);
        long age = nowMillis - now.writtenMillis();
        text.append("process ").append(pid);
        if (age > OLD_MILLIS) {
            text.append(
                    String.format(
                            Locale.ROOT,
                            ": these numbers are %.0f s old, the process is stopped or has no"
                                    + " processor",
                            age / 1000.0));
        }
        text.append('\n');
        for (EndpointMetrics endpoint : now.endpoints()) {
            endpoint(text, endpoint, rates);
        }
        if (now.leftOut() > 0) {
            text.append("  and ").append(now.leftOut()).append(" more connections\n");
        }
        return text.toString();
    }

    private static void endpoint(StringBuilder text, EndpointMetrics endpoint, Rates rates) {
        EndpointMetrics.Totals totals = endpoint.totals();
        text.append(
                String.format(
                        Locale.ROOT,
                        " endpoint %s: connections %d opened, %d closed, %d lost; regions %d, %s (%s"
                                + " mappable)%n  ever: sent %s, received %s, done %d, failed %d, slow"
                                + " %d, resends %d, stalls %d%n",
                        PrometheusText.hex(endpoint.incarnation()),
                        endpoint.connectionsOpened(),
                        endpoint.connectionsClosed(),
                        endpoint.connectionsLost(),
                        endpoint.regions(),
                        bytes(endpoint.regionBytes()),
                        bytes(endpoint.sharedBytes()),
                        bytes(totals.bytesSent()),
                        bytes(totals.bytesReceived()),
                        totals.transfersDone(),
                        totals.failures().total(),
                        totals.slowTransfers(),
                        totals.resends(),
                        totals.stalls()));
        if (endpoint.connections().isEmpty()) {
            return;
        }
        row(text, "CONNECTION", "PATH", "OUT GB/s", "IN GB/s", "DONE/s", "FAILED", "RTT us", "");
        for (ConnectionMetrics connection : endpoint.connections()) {
            String name = PrometheusText.hex(connection.id());
            String failed = Long.toString(connection.transfersFailed());
            String peer = "with " + PrometheusText.hex(connection.peer());
            if (connection.paths().isEmpty()) {
                row(text, name, "-", "-", "-", "-", failed, "", peer);
            }
            for (ConnectionMetrics.Path path : connection.paths()) {
                Rates.Rate rate = rates.of(endpoint.incarnation(), connection, path);
                row(
                        text,
                        name,
                        path.name(),
                        number(rate.sentGBps(), 3),
                        number(rate.receivedGBps(), 3),
                        number(rate.transfersPerSecond(), 0),
                        failed,
                        "",
                        peer);
                name = "";
                failed = "";
                peer = "";
            }
            for (ConnectionMetrics.Lane lane : connection.lanes()) {
                Rates.Rate rate = rates.of(endpoint.incarnation(), connection, lane);
                row(
                        text,
                        "  lane " + lane.index(),
                        lane.path(),
                        number(rate.sentGBps(), 3),
                        number(rate.receivedGBps(), 3),
                        "",
                        "",
                        lane.roundTripNanos() < 0 ? "" : number(lane.roundTripNanos() / 1000.0, 0),
                        (lane.alive() ? "" : "dead ")
                                + (lane.stalls() > 0 ? "stalls " + lane.stalls() + " " : "")
                                + (lane.resends() > 0 ? "resends " + lane.resends() + " " : "")
                                + lane.description());
            }
        }
    }

    private static void row(StringBuilder text, Object... cells) {
        text.append(String.format(Locale.ROOT, ROW, cells).stripTrailing()).append('\n');
    }

    private static String number(double value, int digits) {
        return Double.isFinite(value)
                ? String.format(Locale.ROOT, "%." + digits + "f", value)
                : "-";
    }

    private static String bytes(long count) {
        if (count < 10_000) {
            return count + " B";
        }
        double value = count;
        int unit = -1;
        while (value >= 999.95 && unit < 4) {
            value /= 1000;
            unit++;
        }
        return String.format(Locale.ROOT, "%.1f %cB", value, "kMGTP".charAt(unit));
    }

    /// @return a line for each endpoint, path and lane
    static String json(long pid, @Nullable Snapshot before, Snapshot now, long nowMillis) {
        StringBuilder text = new StringBuilder();
        Rates rates = new Rates(before, now);
        for (EndpointMetrics endpoint : now.endpoints()) {
            EndpointMetrics.Totals totals = endpoint.totals();
            Map<String, Object> fields = start("endpoint", pid, endpoint);
            fields.put("age_seconds", Math.max(0, nowMillis - now.writtenMillis()) / 1000.0);
            fields.put("connections_opened", endpoint.connectionsOpened());
            fields.put("connections_closed", endpoint.connectionsClosed());
            fields.put("connections_lost", endpoint.connectionsLost());
            fields.put("regions", endpoint.regions());
            fields.put("region_bytes", endpoint.regionBytes());
            fields.put("shared_bytes", endpoint.sharedBytes());
            fields.put("sent_bytes", totals.bytesSent());
            fields.put("received_bytes", totals.bytesReceived());
            fields.put("transfers_done", totals.transfersDone());
            fields.put("transfers_failed", totals.failures().total());
            fields.put("slow_transfers", totals.slowTransfers());
            fields.put("notifications_sent", totals.notificationsSent());
            fields.put("notifications_received", totals.notificationsReceived());
            fields.put("resends", totals.resends());
            fields.put("stalls", totals.stalls());
            fields.put("checksum_failures", totals.checksumFailures());
            line(text, fields);
            for (ConnectionMetrics connection : endpoint.connections()) {
                json(text, pid, endpoint, connection, rates);
            }
        }
        return text.toString();
    }

    private static void json(
            StringBuilder text,
            long pid,
            EndpointMetrics endpoint,
            ConnectionMetrics connection,
            Rates rates) {
        for (ConnectionMetrics.Path path : connection.paths()) {
            Map<String, Object> fields = start("path", pid, endpoint, connection);
            fields.put("path", path.name());
            fields.put("sent_bytes", path.bytesSent());
            fields.put("received_bytes", path.bytesReceived());
            fields.put("transfers_done", path.transfersDone());
            Rates.Rate rate = rates.of(endpoint.incarnation(), connection, path);
            fields.put("sent_GBps", rate.sentGBps());
            fields.put("received_GBps", rate.receivedGBps());
            fields.put("transfers_per_second", rate.transfersPerSecond());
            line(text, fields);
        }
        for (ConnectionMetrics.Lane lane : connection.lanes()) {
            Map<String, Object> fields = start("lane", pid, endpoint, connection);
            fields.put("lane", lane.index());
            fields.put("path", lane.path());
            fields.put("ends", lane.description());
            fields.put("alive", lane.alive());
            fields.put("sent_bytes", lane.bytesSent());
            fields.put("received_bytes", lane.bytesReceived());
            fields.put("sent_frames", lane.framesSent());
            fields.put("received_frames", lane.framesReceived());
            fields.put("resends", lane.resends());
            fields.put("stalls", lane.stalls());
            fields.put("checksum_failures", lane.checksumFailures());
            fields.put(
                    "round_trip_us",
                    lane.roundTripNanos() < 0 ? Double.NaN : lane.roundTripNanos() / 1000.0);
            Rates.Rate rate = rates.of(endpoint.incarnation(), connection, lane);
            fields.put("sent_GBps", rate.sentGBps());
            fields.put("received_GBps", rate.receivedGBps());
            line(text, fields);
        }
    }

    private static Map<String, Object> start(String kind, long pid, EndpointMetrics endpoint) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("kind", kind);
        fields.put("pid", pid);
        fields.put("endpoint", PrometheusText.hex(endpoint.incarnation()));
        return fields;
    }

    private static Map<String, Object> start(
            String kind, long pid, EndpointMetrics endpoint, ConnectionMetrics connection) {
        Map<String, Object> fields = start(kind, pid, endpoint);
        fields.put("connection", PrometheusText.hex(connection.id()));
        fields.put("peer", PrometheusText.hex(connection.peer()));
        return fields;
    }

    private static void line(StringBuilder text, Map<String, Object> fields) {
        text.append(Json.object(fields)).append('\n');
    }
}
