package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.Environment;
import io.telpher.spi.Availability;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;

/// Lanes over RDMA, `verbs`: between hosts the first choice, where both have a port in one network.
public final class VerbsTransport implements Transport {
    /// The transport's name.
    public static final String NAME = "verbs";

    /// The calls that endpoints make which are opened from now on; tests put a double here.
    static volatile Provider provider = new SystemProvider();

    /// For the service loader.
    public VerbsTransport() {}

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public int rank() {
        return 30;
    }

    @Override
    public Availability probe() {
        String variable = IbSettings.of(Environment::getenv).disabled();
        return variable != null
                ? new Availability.Missing("disabled by " + variable + "=1", "unset it")
                : provider.availability();
    }

    @Override
    public TransportEndpoint open(EndpointContext context) {
        return VerbsEndpoint.open(
                context,
                provider,
                IbSettings.of(Environment::getenv, context.options().liveness()));
    }
}
