package io.telpher.spi;

import io.telpher.EndpointOptions;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/// What the engine gives to the transports of one endpoint. Thread-safe.
public interface EndpointContext {
    /// @return the endpoint's options
    EndpointOptions options();

    /// @return the endpoint's incarnation
    long incarnation();

    /// Takes over an incoming channel: the engine authenticates the peer on the control executor.
    void accepted(TransportEndpoint from, Channel channel);

    /// @return for whatever may block
    Executor control();

    /// @return the registered region with that index if its generation and key are right and it is
    ///     open, else null
    @Nullable LocalRegion region(int index, int generation, long key);

    /// @return whether the region of that index and generation is open, whatever its key: tells a
    ///     wrong key from a closed region
    boolean isOpen(int index, int generation);

    /// Calls `ready` on the progress thread whenever the descriptor is readable, has hung up or has
    /// failed, until [#unwatch(int)]. Level-triggered; `ready` must not block.
    void watch(int descriptor, Runnable ready);

    /// Ends [#watch(int, Runnable)]; the descriptor may be closed afterwards.
    void unwatch(int descriptor);
}
