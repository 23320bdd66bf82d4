package io.telpher.cli.watch;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.TransferFailures;
import io.telpher.internal.observe.Snapshot;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/// Writes snapshots in Prometheus's text format 0.0.4.
final class PrometheusText {
    /// The format's content type.
    static final String CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

    private record Family(String type, String help, Map<String, Double> samples) {}

    private final Map<String, Family> families = new LinkedHashMap<>();

    /// Says whether a process could be read.
    void readable(long pid, boolean readable) {
        gauge(
                "telpher_process_readable",
                "Whether the counters of the process could be read.",
                labels("pid", pid),
                readable ? 1 : 0);
    }

    /// Adds a process's snapshot.
    ///
    /// @param nowMillis the time of the scrape
    void add(long pid, Snapshot snapshot, long nowMillis) {
        gauge(
                "telpher_snapshot_age_seconds",
                "Age of the counters; more than a few seconds: the process is stopped or busy.",
                labels("pid", pid),
                Math.max(0, nowMillis - snapshot.writtenMillis()) / 1000.0);
        gauge(
                "telpher_connections_left_out",
                "Connections without series of their own, for want of room.",
                labels("pid", pid),
                snapshot.leftOut());
        for (EndpointMetrics endpoint : snapshot.endpoints()) {
            add(pid, endpoint);
        }
    }

    private void add(long pid, EndpointMetrics endpoint) {
        String labels = labels("pid", pid, "endpoint", hex(endpoint.incarnation()));
        EndpointMetrics.Totals totals = endpoint.totals();
        gauge(
                "telpher_connections",
                "Open connections.",
                labels,
                endpoint.connectionsOpened()
                        - endpoint.connectionsClosed()
                        - endpoint.connectionsLost());
        counter(
                "telpher_connections_opened_total",
                "Connections made, by either side.",
                labels,
                endpoint.connectionsOpened());
        counter(
                "telpher_connections_closed_total",
                "Connections that one of the sides closed.",
                labels,
                endpoint.connectionsClosed());
        counter(
                "telpher_connections_lost_total",
                "Connections that ended otherwise.",
                labels,
                endpoint.connectionsLost());
        gauge("telpher_regions", "Registered memory regions.", labels, endpoint.regions());
        gauge(
                "telpher_region_bytes",
                "Memory in registered regions.",
                labels,
                endpoint.regionBytes());
        gauge(
                "telpher_shared_region_bytes",
                "Memory in regions that peers on this host can map.",
                labels,
                endpoint.sharedBytes());
        counter(
                "telpher_endpoint_sent_bytes_total",
                "Payload sent or stored into peers' memory, by all connections ever.",
                labels,
                totals.bytesSent());
        counter(
                "telpher_endpoint_received_bytes_total",
                "Payload received or read from peers' memory, by all connections ever.",
                labels,
                totals.bytesReceived());
        counter(
                "telpher_endpoint_transfers_done_total",
                "Transfers done, by all connections ever.",
                labels,
                totals.transfersDone());
        failures(
                "telpher_endpoint_transfers_failed_total",
                "Transfers not done, by all connections ever.",
                labels,
                totals.failures());
        counter(
                "telpher_endpoint_slow_transfers_total",
                "Transfers that took longer than the option slowTransfer.",
                labels,
                totals.slowTransfers());
        counter(
                "telpher_endpoint_notifications_sent_total",
                "Notifications that peers have taken in.",
                labels,
                totals.notificationsSent());
        counter(
                "telpher_endpoint_notifications_received_total",
                "Notifications that came from peers.",
                labels,
                totals.notificationsReceived());
        counter(
                "telpher_endpoint_resends_total",
                "Frames sent again after a lane's death.",
                labels,
                totals.resends());
        counter(
                "telpher_endpoint_stalls_total",
                "How often a lane stood still.",
                labels,
                totals.stalls());
        counter(
                "telpher_endpoint_checksum_failures_total",
                "Frames that came in other than they were sent.",
                labels,
                totals.checksumFailures());
        for (ConnectionMetrics connection : endpoint.connections()) {
            add(labels, connection);
        }
    }

    private void add(String endpoint, ConnectionMetrics connection) {
        String labels =
                endpoint
                        + ","
                        + labels(
                                "connection", hex(connection.id()), "peer", hex(connection.peer()));
        failures(
                "telpher_connection_transfers_failed_total",
                "Transfers of an open connection that were not done.",
                labels,
                connection.failures());
        for (ConnectionMetrics.Path path : connection.paths()) {
            String way = labels + "," + labels("path", path.name());
            counter(
                    "telpher_path_sent_bytes_total",
                    "Payload sent or stored, by an open connection on a path.",
                    way,
                    path.bytesSent());
            counter(
                    "telpher_path_received_bytes_total",
                    "Payload received or read, by an open connection on a path.",
                    way,
                    path.bytesReceived());
            counter(
                    "telpher_path_transfers_done_total",
                    "Transfers done, by an open connection on a path.",
                    way,
                    path.transfersDone());
        }
        for (ConnectionMetrics.Lane lane : connection.lanes()) {
            String one = labels + "," + labels("lane", lane.index(), "path", lane.path());
            gauge("telpher_lane_up", "Whether a lane is alive.", one, lane.alive() ? 1 : 0);
            counter(
                    "telpher_lane_sent_bytes_total",
                    "Payload sent on a lane.",
                    one,
                    lane.bytesSent());
            counter(
                    "telpher_lane_received_bytes_total",
                    "Payload received on a lane.",
                    one,
                    lane.bytesReceived());
            counter(
                    "telpher_lane_sent_frames_total",
                    "Frames sent on a lane.",
                    one,
                    lane.framesSent());
            counter(
                    "telpher_lane_received_frames_total",
                    "Frames received on a lane.",
                    one,
                    lane.framesReceived());
            counter(
                    "telpher_lane_resends_total",
                    "Frames sent on a lane because a dead one had not delivered them.",
                    one,
                    lane.resends());
            counter(
                    "telpher_lane_stalls_total",
                    "How often a lane stood still.",
                    one,
                    lane.stalls());
            counter(
                    "telpher_lane_checksum_failures_total",
                    "Frames of a lane that came in other than they were sent.",
                    one,
                    lane.checksumFailures());
            if (lane.roundTripNanos() >= 0) {
                gauge(
                        "telpher_lane_round_trip_seconds",
                        "Smoothed round-trip time of a lane.",
                        one,
                        lane.roundTripNanos() / 1e9);
            }
        }
    }

    private void failures(String name, String help, String labels, TransferFailures failures) {
        Map<String, Long> reasons = new LinkedHashMap<>();
        reasons.put("closed", failures.closed());
        reasons.put("peer_lost", failures.peerLost());
        reasons.put("stale", failures.stale());
        reasons.put("denied", failures.denied());
        reasons.put("timed_out", failures.timedOut());
        reasons.put("truncated", failures.truncated());
        reasons.put("cancelled", failures.cancelled());
        reasons.put("other", failures.other());
        reasons.forEach(
                (reason, count) ->
                        counter(name, help, labels + "," + labels("reason", reason), count));
    }

    /// An endpoint may be connected with itself: then both ends have the same labels, and a series
    /// must not come twice.
    private void counter(String name, String help, String labels, double value) {
        family(name, "counter", help).samples.merge(labels, value, Double::sum);
    }

    private void gauge(String name, String help, String labels, double value) {
        family(name, "gauge", help).samples.merge(labels, value, Math::max);
    }

    private Family family(String name, String type, String help) {
        return families.computeIfAbsent(name, n -> new Family(type, help, new LinkedHashMap<>()));
    }

    private static String labels(Object... namesAndValues) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            text.append(i == 0 ? "" : ",")
                    .append(namesAndValues[i])
                    .append("=\"")
                    .append(
                            namesAndValues[i + 1]
                                    .toString()
                                    .replace("\\", "\\\\")
                                    .replace("\"", "\\\"")
                                    .replace("\n", "\\n"))
                    .append('"');
        }
        return text.toString();
    }

    static String hex(long number) {
        return "%016x".formatted(number);
    }

    /// @return the page
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        families.forEach(
                (name, family) -> {
                    text.append("# HELP ").append(name).append(' ').append(family.help);
                    text.append("\n# TYPE ").append(name).append(' ').append(family.type);
                    text.append('\n');
                    family.samples.forEach(
                            (labels, value) ->
                                    text.append(name)
                                            .append('{')
                                            .append(labels)
                                            .append("} ")
                                            .append(number(value))
                                            .append('\n'));
                });
        return text.toString();
    }

    /// Counters beyond 2^53 lose their last digits, as they do in Prometheus itself.
    private static String number(double value) {
        return value == Math.rint(value) && Math.abs(value) < 1e18
                ? Long.toString((long) value)
                : String.format(Locale.ROOT, "%.9g", value);
    }
}
