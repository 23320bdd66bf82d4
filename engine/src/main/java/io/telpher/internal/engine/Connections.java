package io.telpher.internal.engine;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/// The connections of an endpoint, and the counts of those that have ended. On any thread: a
/// connection that ends while somebody counts is counted once.
final class Connections {
    private final List<ConnectionCore> all = new CopyOnWriteArrayList<>();

    // Guarded by this, and so is their order with changes of `all`.
    private long opened;
    private long closed;
    private long lost;
    private EndpointMetrics.Totals ended = EndpointMetrics.Totals.NONE;

    /// @return those that have not ended
    List<ConnectionCore> all() {
        return all;
    }

    synchronized void add(ConnectionCore connection) {
        all.add(connection);
        opened++;
    }

    /// A connection has ended; harmless when that was said before.
    synchronized void remove(ConnectionCore connection) {
        if (all.remove(connection)) {
            ended = ended.plus(connection.metrics());
            if (connection.wasClosed()) {
                closed++;
            } else {
                lost++;
            }
        }
    }

    /// @param incarnation the endpoint's
    /// @param regions the endpoint's
    synchronized EndpointMetrics metrics(long incarnation, RegionTable regions) {
        List<ConnectionMetrics> each = new ArrayList<>();
        for (ConnectionCore connection : all) {
            each.add(connection.metrics());
        }
        return new EndpointMetrics(
                incarnation,
                opened,
                closed,
                lost,
                regions.count(),
                regions.bytes(),
                regions.sharedBytes(),
                ended,
                each);
    }
}
