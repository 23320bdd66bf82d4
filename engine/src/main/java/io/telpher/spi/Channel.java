package io.telpher.spi;

/// A fresh byte stream to a peer, before and while the engine authenticates: blocking, used by one
/// thread.
public interface Channel extends AutoCloseable {
    /// Sends all bytes.
    ///
    /// @throws io.telpher.TelpherException.TimedOut at the deadline
    /// @throws io.telpher.TelpherException.PeerLost when the stream broke
    void send(byte[] bytes, Deadline deadline);

    /// Receives exactly so many bytes.
    ///
    /// @throws io.telpher.TelpherException.TimedOut at the deadline
    /// @throws io.telpher.TelpherException.PeerLost when the stream ended or broke
    byte[] receive(int length, Deadline deadline);

    /// @return both ends, for people
    String text();

    /// Closes it at once; harmless when it became a link.
    @Override
    void close();
}
