package io.telpher;

import java.util.List;

/// Counters of one connection since it was made, read at one moment. Totals are the sums of the
/// parts of the same snapshot.
///
/// Bytes are payload. What a peer stores into this side's memory by itself, or reads from there
/// (paths `self`, `mapped`, `cma`), this side does not see: the peer counts it.
///
/// @param id the connection's number, the same on both sides
/// @param peer incarnation of the peer's endpoint, which its address holds too
/// @param slowTransfers transfers that took longer than [EndpointOptions#slowTransfer()]; receives,
///     which wait for others, are none
/// @param notificationsSent notifications that the peer has taken in, those of writes included
/// @param notificationsReceived notifications that came from the peer
/// @param failures transfers that ended otherwise than as `DONE`
/// @param paths a line for each path that has carried something
/// @param lanes a line for each lane, dead ones too
public record ConnectionMetrics(
        long id,
        long peer,
        long slowTransfers,
        long notificationsSent,
        long notificationsReceived,
        TransferFailures failures,
        List<Path> paths,
        List<Lane> lanes) {
    /// Keeps copies of the lists.
    public ConnectionMetrics {
        paths = List.copyOf(paths);
        lanes = List.copyOf(lanes);
    }

    /// @return payload bytes sent, or stored into the peer's memory
    public long bytesSent() {
        return paths.stream().mapToLong(Path::bytesSent).sum();
    }

    /// @return payload bytes received, or read from the peer's memory
    public long bytesReceived() {
        return paths.stream().mapToLong(Path::bytesReceived).sum();
    }

    /// @return transfers that ended as `DONE`
    public long transfersDone() {
        return paths.stream().mapToLong(Path::transfersDone).sum();
    }

    /// @return transfers that ended otherwise
    public long transfersFailed() {
        return failures.total();
    }

    /// @return frames that were sent again after a lane's death
    public long resends() {
        return lanes.stream().mapToLong(Lane::resends).sum();
    }

    /// @return how often a lane stood still
    public long stalls() {
        return lanes.stream().mapToLong(Lane::stalls).sum();
    }

    /// @return frames that came in other than they were sent
    public long checksumFailures() {
        return lanes.stream().mapToLong(Lane::checksumFailures).sum();
    }

    /// Counters of one path: of its lanes, and of what went without lanes.
    ///
    /// @param name the path, such as `mapped` or `tcp`
    /// @param bytesSent payload bytes
    /// @param bytesReceived payload bytes
    /// @param transfersDone transfers that ended as `DONE`
    public record Path(String name, long bytesSent, long bytesReceived, long transfersDone) {}

    /// Counters of one lane.
    ///
    /// @param index its number in the connection, the same on both sides
    /// @param path its path
    /// @param description both ends
    /// @param alive whether it still carries anything
    /// @param framesSent frames sent
    /// @param framesReceived frames received
    /// @param bytesSent payload bytes sent
    /// @param bytesReceived payload bytes received
    /// @param resends frames sent on it because a dead lane had not delivered them
    /// @param stalls how often the peer's host acknowledged nothing for a second although something
    ///     was owed
    /// @param checksumFailures frames that came in other than they were sent, which ended the lane;
    ///     always 0 where frames carry no checksum ([EndpointOptions#checksums()])
    /// @param roundTripNanos smoothed round-trip time as the system measures it; -1: not known
    public record Lane(
            int index,
            String path,
            String description,
            boolean alive,
            long framesSent,
            long framesReceived,
            long bytesSent,
            long bytesReceived,
            long resends,
            long stalls,
            long checksumFailures,
            long roundTripNanos) {}
}
