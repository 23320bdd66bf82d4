package io.telpher.spi;

import java.util.List;

/// A way to move bytes between endpoints.
public interface Transport {
    /// @return short lower-case name, as options and tools use it
    String name();

    /// The names of all paths by which its bytes may travel, as transfers, options and tools use
    /// them. Where the option `paths` names others only, the transport is not opened.
    default List<String> paths() {
        return List.of(name());
    }

    /// @return rank: lower is tried first
    int rank();

    /// @return whether it works here; cheap, touches nothing
    Availability probe();

    /// Opens the listeners of one endpoint.
    ///
    /// @throws io.telpher.TelpherException when it cannot
    TransportEndpoint open(EndpointContext context);
}
