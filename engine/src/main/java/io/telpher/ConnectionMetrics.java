package io.telpher;

import java.util.List;

/// Counters of one connection, read at one moment.
///
/// @param bytesSent payload bytes sent or stored into the peer's memory
/// @param bytesReceived payload bytes received from the peer (bytes that a peer stores by itself
///     are not seen)
/// @param transfersDone transfers that ended as `DONE`
/// @param transfersFailed transfers that ended otherwise
/// @param lanes a line for each lane
public record ConnectionMetrics(
        long bytesSent,
        long bytesReceived,
        long transfersDone,
        long transfersFailed,
        List<Lane> lanes) {
    /// Counters of one lane.
    ///
    /// @param description both ends
    /// @param alive whether it still carries anything
    /// @param framesSent frames sent
    /// @param framesReceived frames received
    /// @param bytesSent payload bytes sent
    /// @param bytesReceived payload bytes received
    public record Lane(
            String description,
            boolean alive,
            long framesSent,
            long framesReceived,
            long bytesSent,
            long bytesReceived) {}
}
