package io.telpher.spi;

/// A way to move bytes between endpoints.
public interface Transport {
    /// @return short lower-case name, as options and tools use it
    String name();

    /// @return rank: lower is tried first
    int rank();

    /// @return whether it works here; cheap, touches nothing
    Availability probe();

    /// Opens the listeners of one endpoint.
    ///
    /// @throws io.telpher.TelpherException when it cannot
    TransportEndpoint open(EndpointContext context);
}
