package io.telpher;

import java.util.List;

/// Counters of one endpoint since it was opened, read at one moment. Immutable.
///
/// @param incarnation the endpoint's number, which its address holds too
/// @param connectionsOpened connections made, by either side
/// @param connectionsClosed connections that one of the sides closed
/// @param connectionsLost connections that ended otherwise
/// @param regions registered regions
/// @param regionBytes bytes of all registered regions; what is registered twice counts twice
/// @param sharedBytes bytes of those that Telpher allocated and peers on this host can map
/// @param ended what the connections that are over have counted
/// @param connections the others
public record EndpointMetrics(
        long incarnation,
        long connectionsOpened,
        long connectionsClosed,
        long connectionsLost,
        long regions,
        long regionBytes,
        long sharedBytes,
        Totals ended,
        List<ConnectionMetrics> connections) {
    /// Keeps a copy of the list.
    public EndpointMetrics {
        connections = List.copyOf(connections);
    }

    /// Sums over connections, those that are over included: none of them ever goes down.
    ///
    /// @param bytesSent payload bytes sent, or stored into peers' memory
    /// @param bytesReceived payload bytes received, or read from peers' memory
    /// @param transfersDone transfers that ended as `DONE`
    /// @param slowTransfers transfers that took longer than [EndpointOptions#slowTransfer()]
    /// @param notificationsSent notifications that peers have taken in
    /// @param notificationsReceived notifications that came from peers
    /// @param resends frames sent again after a lane's death
    /// @param stalls how often a lane stood still
    /// @param checksumFailures frames that came in other than they were sent
    /// @param failures transfers that ended otherwise than as `DONE`
    public record Totals(
            long bytesSent,
            long bytesReceived,
            long transfersDone,
            long slowTransfers,
            long notificationsSent,
            long notificationsReceived,
            long resends,
            long stalls,
            long checksumFailures,
            TransferFailures failures) {
        /// Nothing at all.
        public static final Totals NONE =
                new Totals(0, 0, 0, 0, 0, 0, 0, 0, 0, TransferFailures.NONE);

        /// @return these and a connection's together
        public Totals plus(ConnectionMetrics more) {
            return new Totals(
                    bytesSent + more.bytesSent(),
                    bytesReceived + more.bytesReceived(),
                    transfersDone + more.transfersDone(),
                    slowTransfers + more.slowTransfers(),
                    notificationsSent + more.notificationsSent(),
                    notificationsReceived + more.notificationsReceived(),
                    resends + more.resends(),
                    stalls + more.stalls(),
                    checksumFailures + more.checksumFailures(),
                    failures.plus(more.failures()));
        }
    }

    /// @return sums over all connections, those that are over included
    public Totals totals() {
        Totals sum = ended;
        for (ConnectionMetrics connection : connections) {
            sum = sum.plus(connection);
        }
        return sum;
    }
}
