package io.telpher.internal.transport.verbs;

import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Release;
import io.telpher.internal.transport.tcp.TcpTransport;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Lane;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/// One endpoint's devices and its ways to others. The streams over which peers are met, and which
/// stay beside the lanes, are those of a transport `tcp` of its own.
final class VerbsEndpoint implements TransportEndpoint {
    /// The transport name of the locators that say where the streams are listened for.
    private static final String STREAMS = "verbs-tcp";

    private static final String TCP = "tcp";

    /// What [#dial] needs.
    ///
    /// @param pair the rails
    /// @param streams ways to the peer's listeners, best first
    private record Target(Rails.Pair pair, List<Route> streams) {}

    private final EndpointContext context;
    private final Ways ways;
    private final IbSettings settings;
    private final List<Device> devices;
    private final TransportEndpoint tcp;

    /// The memory that each device knows.
    private final Map<Device, Registrations> memory = new HashMap<>();

    /// What peers reach this endpoint's memory by.
    private final List<VerbsWindows> windows = new CopyOnWriteArrayList<>();

    private final Setup setup;

    private VerbsEndpoint(
            EndpointContext context, Provider provider, IbSettings settings, List<Device> devices) {
        this.context = context;
        this.ways = new Ways(provider, Nearness.here());
        this.settings = settings;
        this.devices = devices;
        // One whose ports are all excluded carries nothing, ever; one whose ports are down may.
        long used = devices.stream().filter(device -> device.mayBeUsed(settings)).count();
        for (Device device : devices) {
            memory.put(device, new Registrations(device, context, used > 1));
        }
        this.setup = new Setup(devices, settings, ways, allowsWindows());
        this.tcp = new TcpTransport().open(new Streams());
    }

    private boolean allowsWindows() {
        List<String> paths = context.options().paths();
        return paths.isEmpty() || paths.contains(VerbsWindow.PATH);
    }

    /// Opens every device; one that does not open costs a remark. Where no port is up or has a GID
    /// yet, one may come.
    ///
    /// @throws TelpherException.Unsupported when there is no port that may be used
    static VerbsEndpoint open(EndpointContext context, Provider provider, IbSettings settings) {
        List<Device> devices = new ArrayList<>();
        List<String> remarks = new ArrayList<>();
        boolean any = false;
        try {
            for (String name : provider.devices()) {
                try {
                    Device device = new Device(provider, context, name);
                    devices.add(device);
                    if (device.mayBeUsed(settings)) {
                        any = true;
                    } else {
                        remarks.add(name + ": none of its ports is among those to use");
                    }
                } catch (TelpherException.NativeFailure e) {
                    remarks.add(name + ": " + e.getMessage());
                }
            }
            if (!any) {
                throw new TelpherException.Unsupported(
                        "no RDMA port can be used: " + String.join("; ", remarks));
            }
            return new VerbsEndpoint(context, provider, settings, List.copyOf(devices));
        } catch (Throwable e) {
            var unused = Release.after(e, () -> Release.all(devices, Device::close));
            throw e;
        }
    }

    /// Ports and GIDs as they are now.
    @Override
    public List<Locator> locators() {
        List<Locator> all = new ArrayList<>();
        for (Rail rail : rails(new ArrayList<>())) {
            all.add(new Locator(VerbsTransport.NAME, rail.encode(), rail.toString()));
        }
        for (Locator stream : tcp.locators()) {
            all.add(new Locator(STREAMS, stream.data(), "control " + stream.text()));
        }
        return List.copyOf(all);
    }

    private List<Rail> rails(List<String> remarks) {
        List<Rail> rails = new ArrayList<>();
        for (Device device : devices) {
            rails.addAll(device.rails(settings, remarks));
        }
        return rails;
    }

    @Override
    public List<Route> routes(PeerAddress peer) {
        List<Route> routes = new ArrayList<>();
        List<Rail> remote = new ArrayList<>();
        for (Locator locator : peer.of(VerbsTransport.NAME)) {
            try {
                remote.add(Rail.decode(locator.data()));
            } catch (IllegalArgumentException e) {
                routes.add(rejected(locator.text(), "cannot be read: " + e.getMessage()));
            }
        }
        if (remote.isEmpty()) {
            routes.add(rejected("verbs", "the peer's address lists no RDMA port"));
        }
        List<String> remarks = new ArrayList<>();
        List<Rail> local = rails(remarks);
        List<Route> streams = new ArrayList<>();
        for (Route route : tcp.routes(withStreams(peer))) {
            if (route.rejected() == null) {
                streams.add(route);
            }
        }
        Rails.Plan plan = Rails.plan(local, remote, ways);
        int lanes = context.options().lanes();
        for (Rails.Pair pair : plan.pairs()) {
            routes.add(
                    streams.isEmpty()
                            ? rejected(pair.text(), "no way to the peer's control port by TCP")
                            : new Route(
                                    VerbsTransport.NAME,
                                    pair.text(),
                                    lanes > 0 ? lanes : settings.queuePairs(),
                                    null,
                                    new Target(pair, List.copyOf(streams))));
        }
        for (Rails.Pair pair : plan.spared()) {
            routes.add(
                    rejected(
                            pair.text(),
                            "nothing has arrived when it was tried; a later connect tries it again"));
        }
        for (Rails.Unreachable each : plan.unreachable()) {
            routes.add(rejected(each.rail().toString(), each.why()));
        }
        for (String remark : remarks) {
            routes.add(rejected("verbs", remark));
        }
        return List.copyOf(routes);
    }

    private static Route rejected(String text, String why) {
        return new Route(VerbsTransport.NAME, text, 0, why, why);
    }

    /// The same peer, whose streams' locators are those of the transport that dials them.
    private static PeerAddress withStreams(PeerAddress peer) {
        return new PeerAddress(
                peer.incarnation(),
                peer.host(),
                peer.of(STREAMS).stream().map(l -> new Locator(TCP, l.data(), l.text())).toList());
    }

    @Override
    public Channel dial(Route route, Deadline deadline) {
        if (!(route.target() instanceof Target target)) {
            throw new TelpherException.ConnectFailed(
                    route.text() + " is no way: " + route.rejected(), List.of());
        }
        List<String> failures = new ArrayList<>();
        int left = target.streams().size();
        for (Route stream : target.streams()) {
            // One that is silent leaves the others their share of the time.
            Deadline share = deadline.or(Duration.ofNanos(deadline.left() / left--));
            try {
                return new VerbsChannel(tcp.dial(stream, share), target.pair());
            } catch (TelpherException.ConnectFailed | TelpherException.TimedOut e) {
                failures.add(String.valueOf(e.getMessage()));
            }
        }
        throw new TelpherException.ConnectFailed("no control stream", failures);
    }

    @Override
    public Link link(Channel channel, Role role, PeerAddress peer, Deadline deadline) {
        if (!(channel instanceof VerbsChannel(Channel stream, Rails.Pair pair))) {
            throw new IllegalArgumentException(channel.text() + " is not a channel of verbs");
        }
        Setup.Connected connected = null;
        Lane control = null;
        try {
            connected =
                    pair != null
                            ? setup.initiate(channel, pair, deadline)
                            : setup.accept(channel, deadline);
            control = tcp.link(stream, role, peer, deadline).lane();
        } finally {
            if (control == null) {
                if (connected != null) {
                    connected.rings().close();
                }
                stream.close();
            }
        }
        return link(connected.rings(), connected.peer(), new ControlStream(control));
    }

    private Link link(RingPair rings, Offer peer, ControlStream control) {
        QueuePair queuePair = rings.queuePair();
        Registrations known = memory.get(queuePair.device());
        VerbsWindows made = null;
        if (allowsWindows() && peer.oneSided() && known != null) {
            made =
                    new VerbsWindows(
                            context,
                            known,
                            queuePair.rail(),
                            settings,
                            peer,
                            control,
                            queuePair::broken,
                            windows::remove);
            windows.add(made);
        }
        return new Link(new VerbsLane(rings, peer, control, made), made);
    }

    @Override
    public void opened(LocalRegion region) {
        // A device gets to know it when something first needs that.
    }

    /// Peers are told before the devices forget the region: see [WindowTargets#revoked].
    @Override
    public @Nullable String revoke(LocalRegion region, Deadline deadline) {
        for (VerbsWindows each : windows) {
            each.targets().revoked(region);
        }
        String failure = null;
        for (Registrations each : memory.values()) {
            String failed = each.revoke(region);
            failure = failed == null ? failure : failed;
        }
        return failure;
    }

    @Override
    public void close() {
        Release.each(
                tcp::close,
                () -> Release.all(memory.values(), Registrations::close),
                () -> Release.all(devices, Device::close));
    }

    /// What the transport of the streams sees of the endpoint: a port of its own, and channels that
    /// come in are to become queue pairs.
    private final class Streams implements EndpointContext {
        private final EndpointOptions options = context.options().withPort(0);

        @Override
        public EndpointOptions options() {
            return options;
        }

        @Override
        public long incarnation() {
            return context.incarnation();
        }

        @Override
        public void accepted(TransportEndpoint from, Channel channel) {
            context.accepted(VerbsEndpoint.this, new VerbsChannel(channel, null));
        }

        @Override
        public Executor control() {
            return context.control();
        }

        @Override
        public @Nullable LocalRegion region(int index, int generation, long key) {
            return context.region(index, generation, key);
        }

        @Override
        public boolean isOpen(int index, int generation) {
            return context.isOpen(index, generation);
        }

        @Override
        public void watch(int descriptor, Runnable ready) {
            context.watch(descriptor, ready);
        }

        @Override
        public void unwatch(int descriptor) {
            context.unwatch(descriptor);
        }
    }
}
