package io.telpher.internal.transport.tcp;

import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.memory.Release;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/// One endpoint's listeners and its ways to others. Keeps nothing for regions: a peer reaches them
/// by frames only.
final class TcpEndpoint implements TransportEndpoint {
    /// The transport name of locators that hold `host:port` as text.
    static final String BY_NAME = "tcp-host";

    private final EndpointContext context;
    private final List<TcpListener> listeners;
    private final List<Locator> locators;
    private final AtomicBoolean closed = new AtomicBoolean();

    private TcpEndpoint(
            EndpointContext context, List<TcpListener> listeners, List<Locator> locators) {
        this.context = context;
        this.listeners = listeners;
        this.locators = locators;
    }

    /// Listens: everywhere on one port, or, where interfaces were chosen, at their addresses only.
    static TcpEndpoint open(EndpointContext context) {
        EndpointOptions options = context.options();
        List<NetAddress> chosen = Interfaces.select(Interfaces.enumerate(), options.interfaces());
        List<TcpListener> listeners = new ArrayList<>();
        List<Locator> locators = new ArrayList<>();
        try {
            if (options.interfaces().isEmpty()) {
                TcpListener listener = TcpListener.everywhere(options.port());
                listeners.add(listener);
                for (NetAddress address : chosen) {
                    addLocator(listener, address, locators);
                }
            } else {
                listenAt(chosen, options.port(), listeners, locators);
            }
        } catch (RuntimeException e) {
            throw Release.after(e, () -> Release.all(listeners, TcpListener::close));
        }
        TcpEndpoint endpoint =
                new TcpEndpoint(context, List.copyOf(listeners), List.copyOf(locators));
        for (TcpListener listener : listeners) {
            context.watch(listener.descriptor(), () -> listener.accept(endpoint::accepted));
        }
        return endpoint;
    }

    /// Listens at each address. One that the kernel does not let anybody bind, since it is still
    /// being checked for duplicates, is left out unless it is the only one.
    private static void listenAt(
            List<NetAddress> chosen,
            int firstPort,
            List<TcpListener> listeners,
            List<Locator> locators) {
        int port = firstPort;
        TelpherException.NativeFailure unavailable = null;
        for (NetAddress address : chosen) {
            try {
                TcpListener listener =
                        TcpListener.at(
                                address,
                                port,
                                listeners.isEmpty()
                                        ? TcpListener.Fallback.NONE
                                        : TcpListener.Fallback.ANY_PORT);
                listeners.add(listener);
                addLocator(listener, address, locators);
                port = port == 0 ? listener.port() : port;
            } catch (TelpherException.NativeFailure e) {
                if (e.errno() != Errno.EADDRNOTAVAIL) {
                    throw e;
                }
                unavailable = e;
            }
        }
        if (listeners.isEmpty() && unavailable != null) {
            throw unavailable;
        }
    }

    private static void addLocator(
            TcpListener listener, NetAddress address, List<Locator> locators) {
        NetAddress served = listener.serve(address);
        if (served != null) {
            locators.add(new Locator(TcpRoutes.TRANSPORT, served.encode(), served.toString()));
        }
    }

    private void accepted(Channel channel) {
        try {
            context.accepted(this, channel);
        } catch (RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    @Override
    public List<Locator> locators() {
        return locators;
    }

    @Override
    public int port() {
        return listeners.isEmpty() ? 0 : listeners.getFirst().port();
    }

    @Override
    public List<Route> routes(PeerAddress peer) {
        EndpointOptions options = context.options();
        TcpRoutes.Budget budget =
                new TcpRoutes.Budget(options.lanes(), Math.max(0, options.maxSockets() - 1));
        List<NetAddress> remote = new ArrayList<>();
        List<Route> unreadable = new ArrayList<>();
        for (Locator locator : peer.of(TcpRoutes.TRANSPORT)) {
            try {
                remote.add(NetAddress.decode(locator.data()));
            } catch (IllegalArgumentException e) {
                unreadable.add(TcpRoutes.unreadable(locator.text(), e));
            }
        }
        List<Route> routes = new ArrayList<>();
        if (!remote.isEmpty()) {
            List<NetAddress> local =
                    Interfaces.select(Interfaces.enumerate(), options.interfaces());
            routes.addAll(TcpRoutes.plan(local, remote, proximity(peer.host()), budget));
        }
        for (Locator locator : peer.of(BY_NAME)) {
            routes.add(TcpRoutes.named(new String(locator.data(), StandardCharsets.UTF_8), budget));
        }
        routes.addAll(unreadable);
        return List.copyOf(routes);
    }

    private static TcpRoutes.Proximity proximity(HostIdentity peer) {
        return HostIdentity.here().sameNetwork(peer)
                ? TcpRoutes.Proximity.SAME_NAMESPACE
                : TcpRoutes.Proximity.ELSEWHERE;
    }

    @Override
    public Channel dial(Route route, Deadline deadline) {
        List<TcpDialer.Attempt> attempts =
                switch ((TcpTarget) route.target()) {
                    case TcpTarget.Address target -> List.of(attempt(target, route.text()));
                    case TcpTarget.Host target -> resolve(target, deadline);
                    case TcpTarget.None _ ->
                            throw new TelpherException.ConnectFailed(
                                    route.text() + " is no way: " + route.rejected(), List.of());
                };
        return new TcpChannel(TcpDialer.dial(route.text(), attempts, deadline));
    }

    private static TcpDialer.Attempt attempt(TcpTarget.Address target, String text) {
        NetAddress local = target.local();
        NetAddress remote = target.remote();
        int scope = local == null ? 0 : local.scope();
        String device = target.device();
        if (device != null && !Interfaces.answersForItself(device, remote.inet6())) {
            device = null;
        }
        return new TcpDialer.Attempt(
                new InetSocketAddress(TcpListener.scoped(remote.ip(), scope), remote.port()),
                local == null
                        ? null
                        : new InetSocketAddress(TcpListener.scoped(local.ip(), scope), 0),
                device,
                text);
    }

    /// Looks a name up without waiting longer than the deadline: the resolver has limits of its
    /// own, which are longer, so it runs on the control executor and may be left behind there.
    private List<TcpDialer.Attempt> resolve(TcpTarget.Host target, Deadline deadline) {
        CompletableFuture<InetAddress[]> lookup =
                CompletableFuture.supplyAsync(() -> lookup(target.host()), context.control());
        InetAddress[] found;
        try {
            found = lookup.get(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new TelpherException.TimedOut(
                    "looking up " + target.host() + " did not end before the deadline");
        } catch (ExecutionException e) {
            throw new TelpherException.ConnectFailed(
                    "cannot look up " + target.host(),
                    List.of(String.valueOf(e.getCause() == null ? e : e.getCause().getMessage())));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled(
                    "looking up " + target.host() + " was interrupted");
        }
        List<TcpDialer.Attempt> attempts = new ArrayList<>();
        for (InetAddress ip : found) {
            InetSocketAddress remote = new InetSocketAddress(ip, target.port());
            attempts.add(
                    new TcpDialer.Attempt(remote, null, null, NetAddress.text(ip, target.port())));
        }
        return attempts;
    }

    private static InetAddress[] lookup(String host) {
        try {
            return InetAddress.getAllByName(host);
        } catch (UnknownHostException e) {
            throw new IllegalArgumentException(
                    "the name is unknown here (" + e.getMessage() + ")", e);
        }
    }

    @Override
    public Link link(Channel channel, Role role, PeerAddress peer, Deadline deadline) {
        if (!(channel instanceof TcpChannel tcp)) {
            throw new IllegalArgumentException(channel.text() + " is not a channel of tcp");
        }
        int fd = tcp.detach();
        TcpSocket.configure(fd, context.options().liveness().toMillis());
        return new Link(new TcpLane(fd), null);
    }

    @Override
    public void opened(LocalRegion region) {
        // Peers reach regions by frames, and those ask the engine.
    }

    @Override
    public @Nullable String revoke(LocalRegion region, Deadline deadline) {
        return null;
    }

    @Override
    public void close() {
        if (closed.compareAndSet(false, true)) {
            Release.all(
                    listeners,
                    listener ->
                            Release.each(
                                    () -> context.unwatch(listener.descriptor()), listener::close));
        }
    }
}
