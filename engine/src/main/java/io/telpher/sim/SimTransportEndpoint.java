package io.telpher.sim;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// One endpoint in the simulated network. Its locator is `host/port`.
final class SimTransportEndpoint implements TransportEndpoint {
    /// What [#dial] needs.
    private record Target(SimLink link, SimHost host, int port) {}

    private final SimProcess process;
    private final EndpointContext context;
    private final int port;
    private final WindowRegistry registry;

    SimTransportEndpoint(SimProcess process, EndpointContext context) {
        this.process = process;
        this.context = context;
        this.port = process.listen(this);
        this.registry = new WindowRegistry(process, context);
        process.log("opens endpoint " + port);
    }

    WindowRegistry registry() {
        return registry;
    }

    @Override
    public List<Locator> locators() {
        String text = process.host().name() + "/" + port;
        return List.of(new Locator(SimTransport.NAME, text.getBytes(StandardCharsets.UTF_8), text));
    }

    @Override
    public List<Route> routes(PeerAddress peer) {
        List<Route> routes = new ArrayList<>();
        for (Locator locator : peer.of(SimTransport.NAME)) {
            String text = new String(locator.data(), StandardCharsets.UTF_8);
            int slash = text.lastIndexOf('/');
            SimHost host = process.simulation().find(text.substring(0, slash));
            int there = Integer.parseInt(text.substring(slash + 1));
            if (host == null) {
                routes.add(rejected(text, "there is no such host in this simulation"));
                continue;
            }
            List<SimLink> links = process.simulation().links(process.host(), host);
            if (links.isEmpty()) {
                routes.add(
                        rejected(
                                text,
                                "no link between %s and %s; make one with Simulation.link"
                                        .formatted(process.host().name(), host.name())));
            }
            for (SimLink link : links) {
                routes.add(
                        new Route(
                                SimTransport.NAME,
                                text + " over " + link.name(),
                                link.options().lanes(),
                                null,
                                new Target(link, host, there)));
            }
        }
        return routes;
    }

    private static Route rejected(String text, String why) {
        return new Route(SimTransport.NAME, text, 0, why, "");
    }

    @Override
    public Channel dial(Route route, Deadline deadline) {
        Target target = (Target) route.target();
        SimLink link = target.link;
        Scheduler scheduler = process.scheduler();
        scheduler.sleep(link.latencyNow());
        while (link.isHeldUp() || target.host.isVanished()) {
            if (deadline.passed()) {
                throw new TelpherException.TimedOut(route.text() + ": nobody answers");
            }
            scheduler.sleep(Math.min(1_000_000, Math.max(1, deadline.left())));
        }
        SimProcess there = target.host.process();
        SimTransportEndpoint listener = there == null ? null : there.listener(target.port);
        if (there == null || listener == null) {
            scheduler.sleep(link.latencyNow());
            throw new TelpherException.ConnectFailed(
                    route.text() + ": nobody listens there", List.of());
        }
        Stream stream = new Stream(link, process.simulation().nextStream(), process, there);
        process.log("dials " + stream.name() + " to " + route.text());
        there.start(
                there.thread(
                        "listener",
                        () -> listener.context.accepted(listener, new SimChannel(stream.end(1)))));
        scheduler.sleep(link.latencyNow());
        return new SimChannel(stream.end(0));
    }

    @Override
    public Link link(Channel channel, Role role, PeerAddress peer, Deadline deadline) {
        long refusal = ((SimChannel) channel).link().refusalNow();
        if (refusal != 0) {
            process.scheduler().sleep(Math.max(1, Math.min(refusal, deadline.left())));
            throw new TelpherException.TimedOut(channel.text() + ": no lane comes of it");
        }
        StreamEnd end = ((SimChannel) channel).detach();
        LinkOptions options = end.stream().link().options();
        process.log("has a lane over " + end.stream().name());
        SimWindows windows = null;
        if (options.windows()) {
            for (Locator locator : peer.of(SimTransport.NAME)) {
                String text = new String(locator.data(), StandardCharsets.UTF_8);
                int there = Integer.parseInt(text.substring(text.lastIndexOf('/') + 1));
                StreamEnd theirs = end.stream().end(1 - end.side());
                SimProcess other = theirs.process();
                SimTransportEndpoint owner = other.listener(there);
                if (owner != null) {
                    windows =
                            new SimWindows(
                                    process, owner.registry, new SimAdverts(process, end, theirs));
                }
            }
        }
        return new Link(
                options.style() == LinkOptions.Style.RING ? new RingLane(end) : new StreamLane(end),
                windows);
    }

    @Override
    public void opened(LocalRegion region) {
        // Windows ask the endpoint's table.
    }

    @Override
    public @Nullable String revoke(LocalRegion region, Deadline deadline) {
        return registry.revoke(region, deadline);
    }

    @Override
    public void close() {
        process.unlisten(port);
        process.log("closes endpoint " + port);
    }
}
