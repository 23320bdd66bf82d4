package io.telpher.internal.transport.verbs;

import io.telpher.EndpointOptions;
import io.telpher.Setting;
import io.telpher.internal.ffi.linux.Environment;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.spi.Availability;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// Lanes over RDMA, `verbs`: between hosts the first choice, where both have a port in one network.
public final class VerbsTransport implements Transport {
    /// The transport's name.
    public static final String NAME = "verbs";

    /// `IBV_MTU_256` and `IBV_MTU_4096`
    private static final int SMALLEST_MTU = 1;

    private static final int LARGEST_MTU = 5;

    /// The calls that endpoints make which are opened from now on; tests put a double here.
    static volatile Provider provider = new SystemProvider();

    /// Gives a variable's value.
    static volatile Function<String, @Nullable String> environment = Environment::getenv;

    /// A port that an endpoint's address lists.
    ///
    /// @param name device and number there: `mlx5_0/1`
    /// @param ethernet RoCE, or else InfiniBand
    /// @param address of its GID
    /// @param mtu bytes of data in a packet; 0 where the address does not say it
    public record Port(String name, boolean ethernet, InetAddress address, int mtu) {}

    /// For the service loader.
    public VerbsTransport() {}

    /// @return the RDMA ports of an endpoint, as its address says it; what cannot be read is left
    ///     out
    public static List<Port> ports(PeerAddress peer) {
        List<Port> all = new ArrayList<>();
        for (Locator locator : peer.of(NAME)) {
            try {
                Rail rail = Rail.decode(locator.data());
                boolean known = rail.mtu() >= SMALLEST_MTU && rail.mtu() <= LARGEST_MTU;
                all.add(
                        new Port(
                                rail.portText(),
                                rail.ethernet(),
                                InetAddress.getByAddress(rail.gid()),
                                known ? VerbsPorts.mtuBytes(rail.mtu()) : 0));
            } catch (IllegalArgumentException | UnknownHostException e) {
                continue; // of a later version
            }
        }
        return List.copyOf(all);
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public List<String> paths() {
        return List.of(VerbsWindow.PATH, VerbsLane.PATH);
    }

    @Override
    public int rank() {
        return 30;
    }

    /// @return what each `TELPHER_IB_` variable comes to in an environment
    /// @throws IllegalArgumentException when one cannot be understood: names it
    public static List<Setting> settings(Map<String, String> environment) {
        return IbSettings.inForce(
                environment::get, EndpointOptions.fromEnvironment(environment).liveness());
    }

    /// A variable that cannot be understood is an error only where it would count: without a
    /// device it must not keep an endpoint from opening.
    @Override
    public Availability probe() {
        String variable;
        try {
            variable = IbSettings.disabledBy(environment);
            if (variable == null) {
                IbSettings checked = IbSettings.of(environment);
                assert checked.disabled() == null;
            }
        } catch (IllegalArgumentException e) {
            Availability there = provider.availability();
            if (there instanceof Availability.Missing) {
                return there;
            }
            throw e;
        }
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
