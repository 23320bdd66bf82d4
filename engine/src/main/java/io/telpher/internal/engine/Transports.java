package io.telpher.internal.engine;

import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Release;
import io.telpher.spi.Availability;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Locator;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The transports that an endpoint uses, by rank, and why it does not use the others. Changes while
/// the endpoint is opened, and then no more.
public final class Transports {
    /// A transport that is in use here.
    record Opened(Transport transport, TransportEndpoint endpoint) {}

    private final List<Opened> inUse = new ArrayList<>();
    private final List<String> unavailable = new ArrayList<>();

    Transports() {}

    /// Checks the names in options against the transports that there are on this machine.
    ///
    /// @return the same options
    /// @throws IllegalArgumentException when one names what is not there
    public static EndpointOptions checked(EndpointOptions options) {
        check(options, NativePlatform.HERE.transports());
        return options;
    }

    private static void check(EndpointOptions options, List<Transport> there) {
        check("transport", options.transports(), there.stream().map(Transport::name));
        check("path", options.paths(), there.stream().flatMap(t -> t.paths().stream()));
    }

    private static void check(String what, List<String> named, Stream<String> there) {
        List<String> known = there.sorted().toList();
        for (String name : named) {
            if (!known.contains(name)) {
                throw new IllegalArgumentException(
                        "there is no %s '%s'; those there are: %s"
                                .formatted(what, name, String.join(", ", known)));
            }
        }
    }

    /// Opens those that are allowed and work here. Those that were opened are [#close]'s to close,
    /// also when this throws.
    ///
    /// @throws IllegalArgumentException when the options name what is not there
    /// @throws TelpherException.Unsupported when there are none
    void open(List<Transport> there, EndpointContext endpoint) {
        EndpointOptions options = endpoint.options();
        check(options, there);
        List<Transport> found = new ArrayList<>(there);
        found.sort(Comparator.comparingInt(Transport::rank));
        for (Transport transport : found) {
            if (!options.transports().isEmpty()
                    && !options.transports().contains(transport.name())) {
                unavailable.add(transport.name() + ": not among the allowed transports");
                continue;
            }
            if (!options.paths().isEmpty()
                    && Collections.disjoint(options.paths(), transport.paths())) {
                unavailable.add(
                        "%s: the option 'paths' names none of its paths: %s"
                                .formatted(transport.name(), String.join(", ", transport.paths())));
                continue;
            }
            if (transport.probe() instanceof Availability.Missing missing) {
                unavailable.add(
                        "%s: %s; %s"
                                .formatted(transport.name(), missing.reason(), missing.remedy()));
                continue;
            }
            try {
                inUse.add(new Opened(transport, transport.open(endpoint)));
            } catch (TelpherException.Unsupported | TelpherException.NativeFailure e) {
                unavailable.add(transport.name() + ": " + e.getMessage());
            }
        }
        if (inUse.isEmpty()) {
            throw new TelpherException.Unsupported(
                    "no transport can be used%s: %s"
                            .formatted(
                                    options.transports().isEmpty()
                                            ? ""
                                            : ", allowed are " + options.transports(),
                                    String.join("; ", unavailable)));
        }
    }

    List<Opened> inUse() {
        return inUse;
    }

    /// @return why the others are not in use, a line each
    List<String> unavailable() {
        return unavailable;
    }

    /// @return where peers reach them
    List<Locator> locators() {
        List<Locator> locators = new ArrayList<>();
        for (Opened opened : inUse) {
            locators.addAll(opened.endpoint().locators());
        }
        return List.copyOf(locators);
    }

    /// Tells all of a new region.
    void opened(RegionImpl region) {
        for (Opened opened : inUse) {
            opened.endpoint().opened(region);
        }
    }

    /// Takes a region away from all peers.
    ///
    /// @return who holds it beyond the deadline, or null
    @Nullable String revoke(RegionImpl region, Deadline deadline) {
        for (Opened opened : inUse) {
            String holder = opened.endpoint().revoke(region, deadline);
            if (holder != null) {
                return holder;
            }
        }
        return null;
    }

    /// @return the port that peers on other hosts connect to, or 0
    int port() {
        return inUse.stream()
                .mapToInt(opened -> opened.endpoint().port())
                .filter(port -> port != 0)
                .findFirst()
                .orElse(0);
    }

    String explain() {
        StringBuilder text = new StringBuilder();
        for (Opened opened : inUse) {
            List<String> places = new ArrayList<>();
            opened.endpoint().locators().forEach(locator -> places.add(locator.text()));
            text.append(opened.transport().name())
                    .append(": in use, ")
                    .append(String.join(", ", places))
                    .append('\n');
        }
        unavailable.forEach(reason -> text.append(reason).append('\n'));
        return text.toString();
    }

    void close() {
        Release.all(inUse, opened -> opened.endpoint().close());
    }
}
