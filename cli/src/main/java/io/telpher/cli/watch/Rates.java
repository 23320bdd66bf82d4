package io.telpher.cli.watch;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.internal.observe.Snapshot;
import org.jspecify.annotations.Nullable;

/// What changed between two snapshots of one process. Without an earlier one nothing is known, and
/// rates are NaN.
final class Rates {
    private final @Nullable Snapshot before;
    private final double seconds;

    /// @param before an earlier snapshot, or null
    /// @param now the present one
    Rates(@Nullable Snapshot before, Snapshot now) {
        boolean later = before != null && now.writtenMillis() > before.writtenMillis();
        this.before = later ? before : null;
        this.seconds =
                later && before != null
                        ? (now.writtenMillis() - before.writtenMillis()) / 1000.0
                        : Double.NaN;
    }

    /// Of one thing and what it was before.
    record Rate(double sentGBps, double receivedGBps, double transfersPerSecond) {
        private static final Rate UNKNOWN = new Rate(Double.NaN, Double.NaN, Double.NaN);
    }

    private Rate rate(long sent, long received, long transfers) {
        return new Rate(sent / seconds / 1e9, received / seconds / 1e9, transfers / seconds);
    }

    private @Nullable ConnectionMetrics earlier(long endpoint, ConnectionMetrics connection) {
        if (before != null) {
            for (EndpointMetrics one : before.endpoints()) {
                if (one.incarnation() == endpoint) {
                    return earlier(one, connection);
                }
            }
        }
        return null;
    }

    private static @Nullable ConnectionMetrics earlier(
            EndpointMetrics endpoint, ConnectionMetrics connection) {
        for (ConnectionMetrics old : endpoint.connections()) {
            if (old.id() == connection.id()) {
                return old;
            }
        }
        return null;
    }

    /// What is new counts from nothing.
    Rate of(long endpoint, ConnectionMetrics connection, ConnectionMetrics.Path path) {
        if (before == null) {
            return Rate.UNKNOWN;
        }
        ConnectionMetrics old = earlier(endpoint, connection);
        if (old != null) {
            for (ConnectionMetrics.Path p : old.paths()) {
                if (p.name().equals(path.name())) {
                    return rate(
                            path.bytesSent() - p.bytesSent(),
                            path.bytesReceived() - p.bytesReceived(),
                            path.transfersDone() - p.transfersDone());
                }
            }
        }
        return rate(path.bytesSent(), path.bytesReceived(), path.transfersDone());
    }

    /// The rate of transfers of a lane is that of its frames, both ways.
    Rate of(long endpoint, ConnectionMetrics connection, ConnectionMetrics.Lane lane) {
        if (before == null) {
            return Rate.UNKNOWN;
        }
        ConnectionMetrics old = earlier(endpoint, connection);
        if (old != null) {
            for (ConnectionMetrics.Lane l : old.lanes()) {
                if (l.index() == lane.index()) {
                    return rate(
                            lane.bytesSent() - l.bytesSent(),
                            lane.bytesReceived() - l.bytesReceived(),
                            frames(lane) - frames(l));
                }
            }
        }
        return rate(lane.bytesSent(), lane.bytesReceived(), frames(lane));
    }

    private static long frames(ConnectionMetrics.Lane lane) {
        return lane.framesSent() + lane.framesReceived();
    }
}
