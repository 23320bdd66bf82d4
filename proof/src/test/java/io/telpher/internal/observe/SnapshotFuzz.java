package io.telpher.internal.observe;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import java.io.IOException;

/// Counters that another process has published: they are read again as the same after they were
/// written again, and hold nothing that a terminal obeys; or an [IOException].
public final class SnapshotFuzz {
    private SnapshotFuzz() {}

    /// @param data the body of a page of counters
    public static void fuzzerTestOneInput(byte[] data) {
        Snapshot read;
        try {
            read = Snapshot.decode(1, 2, data);
        } catch (IOException e) {
            return;
        }
        for (EndpointMetrics endpoint : read.endpoints()) {
            endpoint.connections().forEach(SnapshotFuzz::check);
        }
        try {
            Snapshot again = Snapshot.decode(1, 2, Snapshot.encode(read.endpoints()));
            if (again.leftOut() == 0 && !again.endpoints().equals(read.endpoints())) {
                throw new AssertionError(read + " was read again as another");
            }
        } catch (IOException e) {
            throw new AssertionError(read + " could not be read again", e);
        }
    }

    private static void check(ConnectionMetrics connection) {
        connection.paths().forEach(path -> check(path.name()));
        connection.lanes().forEach(lane -> check(lane.path() + lane.description()));
    }

    private static void check(String text) {
        if (text.chars().anyMatch(Character::isISOControl)) {
            throw new AssertionError("a control character in '" + text + "'");
        }
    }
}
