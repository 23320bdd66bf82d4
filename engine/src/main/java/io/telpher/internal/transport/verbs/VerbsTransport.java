package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.Environment;
import io.telpher.spi.Availability;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// Lanes over RDMA, `verbs`: between hosts the first choice, where both have a port in one network.
public final class VerbsTransport implements Transport {
    /// The transport's name.
    public static final String NAME = "verbs";

    /// The calls that endpoints make which are opened from now on; tests put a double here.
    static volatile Provider provider = new SystemProvider();

    /// Gives a variable's value.
    static volatile Function<String, @Nullable String> environment = Environment::getenv;

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
        String variable = IbSettings.of(environment).disabled();
        return variable != null
                ? new Availability.Missing("disabled by " + variable + "=1", "unset it")
                : provider.availability();
    }

    @Override
    public TransportEndpoint open(EndpointContext context) {
        return VerbsEndpoint.open(
                context, provider, IbSettings.of(environment, context.options().liveness()));
    }
}
