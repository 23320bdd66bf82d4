package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.TransferFailures;
import java.util.ArrayList;
import java.util.List;

/// Counts what a connection does: how operations end, by path and by reason. Plain numbers, guarded
/// by the connection's lock, under which operations end anyway; short copies, which end without it,
/// are counted by [Direct].
final class Tally {
    /// One path's counters.
    static final class OfPath {
        final String path;
        long done;

        /// Bytes that went without a lane; lanes count their own.
        long written;

        long read;

        OfPath(String path) {
            this.path = path;
        }
    }

    private OfPath[] paths = new OfPath[0];
    private final long[] failures = new long[1 - Connection.FAILED];
    long slow;
    long notificationsSent;
    long notificationsReceived;

    /// @return the counters of a path: a connection has few
    OfPath of(String path) {
        for (OfPath one : paths) {
            // Names of paths are constants: nearly always the same object.
            if (one.path == path || one.path.equals(path)) {
                return one;
            }
        }
        OfPath added = new OfPath(path);
        paths = java.util.Arrays.copyOf(paths, paths.length + 1);
        paths[paths.length - 1] = added;
        return added;
    }

    void failed(int reason) {
        failures[reason < 0 && reason >= Connection.FAILED ? -reason : -Connection.FAILED]++;
    }

    TransferFailures failures() {
        return new TransferFailures(
                failures[-Connection.CLOSED],
                failures[-Connection.PEER_LOST],
                failures[-Connection.STALE],
                failures[-Connection.DENIED],
                failures[-Connection.TIMED_OUT],
                failures[-Connection.TRUNCATED],
                failures[-Connection.CANCELLED],
                failures[-Connection.FAILED]);
    }

    /// Adds another tally's paths.
    void add(Tally other) {
        for (OfPath one : other.paths) {
            OfPath sum = of(one.path);
            sum.done += one.done;
            sum.written += one.written;
            sum.read += one.read;
        }
    }

    /// @return the paths that have carried something
    List<ConnectionMetrics.Path> paths() {
        List<ConnectionMetrics.Path> all = new ArrayList<>();
        for (OfPath one : paths) {
            if (one.done != 0 || one.written != 0 || one.read != 0) {
                all.add(new ConnectionMetrics.Path(one.path, one.written, one.read, one.done));
            }
        }
        return all;
    }
}
