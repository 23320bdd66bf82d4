package io.telpher.internal.engine;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.internal.wire.Handshake;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.Link;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import io.telpher.spi.Windows;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// Makes connections, in both directions.
///
/// When two endpoints connect to each other at the same time, the attempt of the lower incarnation
/// counts: it tells the other one to yield, and both callers get the one connection. A connection
/// that the peer has made and nobody has accepted yet serves a `connect` to that peer too.
final class Connector {
    private static final System.Logger LOG = System.getLogger("io.telpher");
    private static final SecureRandom RANDOM = new SecureRandom();

    /// How long a stranger may take for the handshake.
    private static final Duration HANDSHAKE = Duration.ofSeconds(5);

    /// How long `connect` waits for the lanes beside the first.
    private static final Duration JOIN_GRACE = Duration.ofMillis(500);

    /// Strangers that are looked at at a time, each by one control thread.
    private static final int STRANGERS = 64;

    /// Strangers that may wait for that; more are turned away.
    private static final int WAITING_STRANGERS = 512;

    private record Stranger(TransportEndpoint from, Channel channel, Deadline deadline) {}

    private final EndpointImpl endpoint;

    /// Strangers that nobody looks at yet; guards itself and `welcoming`.
    private final ArrayDeque<Stranger> strangers = new ArrayDeque<>();

    private int welcoming;

    /// Connects that are under way, guarded by `this`.
    private final List<Pending> pending = new ArrayList<>();

    /// Incarnations whose connections are being set up from the other side, guarded by `this`.
    private final List<Long> arriving = new ArrayList<>();

    private static final class Pending {
        final long peer;
        final CompletableFuture<ConnectionCore> result = new CompletableFuture<>();

        /// How many connections of the peer are being set up that would serve this one. Guarded by
        /// the connector, like the next.
        int claims;

        /// Its own attempt has succeeded.
        boolean committed;

        Pending(long peer) {
            this.peer = peer;
        }
    }

    /// A dialled channel, or why there is none.
    private record Dialled(
            TransportEndpoint by, Route route, @Nullable Channel channel, String failure) {}

    Connector(EndpointImpl endpoint) {
        this.endpoint = endpoint;
    }

    // --- connecting -----------------------------------------------------------------------------

    ConnectionCore connect(EndpointAddress address, Deadline deadline) {
        AddressCodec.Address peer = AddressCodec.decode(address.toBytes());
        boolean self = peer.incarnation() == endpoint.incarnation();
        Pending mine = new Pending(self ? 0 : peer.incarnation());
        synchronized (this) {
            if (mine.peer != 0) {
                awaitArrival(mine.peer, deadline);
                for (ConnectionCore waiting : endpoint.acceptQueue()) {
                    if (waiting.peerAddress().incarnation() == mine.peer
                            && !waiting.isOver()
                            && endpoint.acceptQueue().remove(waiting)) {
                        return waiting;
                    }
                }
            }
            pending.add(mine);
        }
        List<String> failures = new ArrayList<>();
        try {
            return connect(peer, mine, deadline, failures);
        } finally {
            synchronized (this) {
                pending.remove(mine);
            }
        }
    }

    private ConnectionCore connect(
            AddressCodec.Address peer, Pending mine, Deadline deadline, List<String> failures) {
        LinkedBlockingQueue<Dialled> dialled = new LinkedBlockingQueue<>();
        List<EndpointImpl.Opened> left = new ArrayList<>(endpoint.transports());
        while (!left.isEmpty()) {
            EndpointImpl.Opened opened = left.removeFirst();
            TransportEndpoint by = opened.endpoint();
            List<Route> routes = new ArrayList<>();
            for (Route route : by.routes(peer.peer())) {
                if (route.rejected() == null) {
                    routes.add(route);
                } else {
                    failures.add("%s: rejected, %s".formatted(route.text(), route.rejected()));
                }
            }
            for (Route route : routes) {
                endpoint.control().execute(() -> dialled.add(dial(by, route, deadline)));
            }
            ConnectionCore connection =
                    firstThatWorks(peer, mine, routes.size(), dialled, deadline, failures);
            if (connection != null) {
                for (EndpointImpl.Opened other : left) {
                    connection.note(
                            "%s: not tried, %s works and comes first"
                                    .formatted(
                                            other.transport().name(), opened.transport().name()));
                }
                endpoint.unavailable().forEach(connection::note);
                return connection;
            }
        }
        failures.addAll(endpoint.unavailable());
        if (deadline.passed()) {
            throw new TelpherException.TimedOut(
                    "no connection with %s in time: %s"
                            .formatted(name(peer), String.join("; ", failures)));
        }
        throw new TelpherException.ConnectFailed("cannot connect to " + name(peer), failures);
    }

    /// A connection from that peer that is being set up is about to be in the accept queue. Under
    /// `this`.
    private void awaitArrival(long peer, Deadline deadline) {
        try {
            while (arriving.contains(peer) && !deadline.passed()) {
                wait(Math.max(1, deadline.leftMillis()));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while connecting");
        }
    }

    private static String name(AddressCodec.Address peer) {
        return peer.incarnation() == 0
                ? peer.locators().toString()
                : "endpoint %016x".formatted(peer.incarnation());
    }

    private Dialled dial(TransportEndpoint by, Route route, Deadline deadline) {
        try {
            return new Dialled(by, route, by.dial(route, deadline), "");
        } catch (TelpherException e) {
            return new Dialled(by, route, null, String.valueOf(e.getMessage()));
        } catch (RuntimeException e) {
            return new Dialled(by, route, null, e.toString());
        }
    }

    /// Takes dialled channels as they come until one has become a connection.
    private @Nullable ConnectionCore firstThatWorks(
            AddressCodec.Address peer,
            Pending mine,
            int dials,
            LinkedBlockingQueue<Dialled> dialled,
            Deadline deadline,
            List<String> failures) {
        int left = dials;
        while (left > 0) {
            Dialled next = next(dialled, mine, deadline);
            if (next == null) {
                abandon(dialled, left);
                return mine.result.getNow(null);
            }
            left--;
            Channel channel = next.channel;
            if (channel == null) {
                failures.add(next.route.text() + ": " + next.failure);
                continue;
            }
            try {
                ConnectionCore connection =
                        establish(peer, mine, next, channel, deadline, failures);
                if (connection != null) {
                    if (mine.committed) {
                        join(peer, connection, next, left, dialled, deadline);
                    } else {
                        abandon(dialled, left); // the peer made it, and adds the lanes
                    }
                    return connection;
                }
            } catch (TelpherException.TimedOut
                    | TelpherException.ProtocolViolation
                    | TelpherException.Unsupported
                    | TelpherException.NativeFailure e) {
                channel.close();
                failures.add(next.route.text() + ": " + e.getMessage());
            } catch (TelpherException.PeerLost e) {
                channel.close();
                ConnectionCore other = mine.result.getNow(null);
                if (other != null) {
                    abandon(dialled, left);
                    return other;
                }
                failures.add(next.route.text() + ": " + e.getMessage());
            } catch (TelpherException e) {
                channel.close();
                abandon(dialled, left);
                throw e;
            }
        }
        return null;
    }

    /// Waits for the next dial's outcome, or for the peer's own attempt to succeed.
    private @Nullable Dialled next(
            LinkedBlockingQueue<Dialled> dialled, Pending mine, Deadline deadline) {
        try {
            while (!deadline.passed() && !mine.result.isDone()) {
                Dialled next =
                        dialled.poll(Math.min(deadline.left(), 20_000_000), TimeUnit.NANOSECONDS);
                if (next != null) {
                    return next;
                }
            }
            return mine.result.isDone() ? null : dialled.poll();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while connecting");
        }
    }

    /// Closes what may still come.
    private void abandon(LinkedBlockingQueue<Dialled> dialled, int left) {
        if (left == 0) {
            return;
        }
        endpoint.control()
                .execute(
                        () -> {
                            for (int i = 0; i < left; i++) {
                                try {
                                    Dialled late = dialled.poll(60, TimeUnit.SECONDS);
                                    if (late != null && late.channel != null) {
                                        late.channel.close();
                                    }
                                } catch (InterruptedException e) {
                                    return;
                                }
                            }
                        });
    }

    private @Nullable ConnectionCore establish(
            AddressCodec.Address peer,
            Pending mine,
            Dialled by,
            Channel channel,
            Deadline deadline,
            List<String> failures) {
        long id = RANDOM.nextLong();
        AddressCodec.Address found;
        try {
            found = initiate(Handshake.Purpose.CONNECT, 0, id, peer, channel, deadline);
        } catch (Handshake.Refused refused) {
            channel.close();
            if (refused.status() == Handshake.Status.YIELD) {
                return await(mine, deadline);
            }
            if (refused.status() == Handshake.Status.OTHER_INCARNATION) {
                throw new TelpherException.ConnectFailed(
                        "%s is gone: endpoint %016x answers at %s; ask for its new address"
                                .formatted(
                                        name(peer), refused.peer().incarnation(), by.route.text()),
                        List.of());
            }
            failures.add(by.route.text() + ": the peer answered " + refused.status());
            return null;
        }
        if (!commit(mine, deadline)) {
            channel.close();
            return mine.result.getNow(null);
        }
        Handshake.go(channel, deadline);
        Link link = by.by.link(channel, Role.INITIATOR, found.peer(), deadline);
        ConnectionCore connection = create(id, found, link, Role.INITIATOR);
        connection.add(link, 0, by.route.text() + ": chosen");
        mine.result.complete(connection);
        for (String failure : failures) {
            connection.note(failure);
        }
        return connection;
    }

    /// Both sides may get here at the same time, when the peer's attempt has come through and this
    /// one was under way: the peer's counts.
    ///
    /// @return false when there is a connection already
    private synchronized boolean commit(Pending mine, Deadline deadline) {
        try {
            while (mine.claims > 0 && !mine.result.isDone() && !deadline.passed()) {
                wait(Math.max(1, deadline.leftMillis()));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while connecting");
        }
        mine.committed = !mine.result.isDone();
        return mine.committed;
    }

    private AddressCodec.Address initiate(
            Handshake.Purpose purpose,
            int lane,
            long id,
            AddressCodec.Address peer,
            Channel channel,
            Deadline deadline)
            throws Handshake.Refused {
        return Handshake.initiate(
                channel,
                new Handshake.Hello(purpose, lane, id, endpoint.incarnation(), peer.incarnation()),
                peer.secret(),
                ownAddress(),
                deadline.or(HANDSHAKE));
    }

    private byte[] ownAddress() {
        return AddressCodec.encode(new AddressCodec.Address(new byte[0], endpoint.self()));
    }

    private ConnectionCore create(long id, AddressCodec.Address peer, Link link, Role role) {
        ConnectionCore connection =
                new ConnectionCore(
                        endpoint, id, EndpointAddress.ofBytes(AddressCodec.encode(peer)));
        // The initiator chooses the id, and may be this endpoint itself.
        if (role == Role.ACCEPTOR && endpoint.joinable().putIfAbsent(id, connection) != null) {
            link.lane().close();
            Windows windows = link.windows();
            if (windows != null) {
                windows.close();
            }
            throw new TelpherException.ProtocolViolation(
                    name(peer) + " uses the id of another connection");
        }
        endpoint.connections().add(connection);
        if (endpoint.isClosed()) {
            connection.close();
        }
        return connection;
    }

    private ConnectionCore await(Pending mine, Deadline deadline) {
        try {
            return mine.result.get(Math.max(deadline.left(), 0), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new TelpherException.TimedOut(
                    "the peer connects at the same time, but its attempt did not arrive in time");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while connecting");
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    // --- more lanes -----------------------------------------------------------------------------

    /// Lets every other route that leads to the peer become lanes. Waits for them for a moment;
    /// late ones join in the background.
    private void join(
            AddressCodec.Address peer,
            ConnectionCore connection,
            Dialled first,
            int left,
            LinkedBlockingQueue<Dialled> dialled,
            Deadline deadline) {
        AddressCodec.Address target =
                new AddressCodec.Address(
                        peer.secret(),
                        new PeerAddress(
                                connection.peerAddress().incarnation(),
                                peer.peer().host(),
                                peer.locators()));
        AtomicInteger nextLane = new AtomicInteger(1);
        int sockets = endpoint.options().maxSockets() - 1;
        int own = Math.min(first.route.lanes(), sockets);
        CountDownLatch done = new CountDownLatch(own + left);
        for (int i = 0; i < own; i++) {
            endpoint.control()
                    .execute(
                            () -> {
                                try {
                                    joinOne(
                                            target,
                                            connection,
                                            dial(first.by, first.route, deadline),
                                            nextLane.getAndIncrement(),
                                            deadline);
                                } finally {
                                    done.countDown();
                                }
                            });
        }
        for (int i = 0; i < left; i++) {
            endpoint.control()
                    .execute(
                            () -> {
                                try {
                                    joinRoute(
                                            target,
                                            connection,
                                            dialled,
                                            nextLane,
                                            sockets,
                                            deadline);
                                } finally {
                                    done.countDown();
                                }
                            });
        }
        try {
            boolean all =
                    done.await(Math.max(0, deadline.or(JOIN_GRACE).left()), TimeUnit.NANOSECONDS);
            if (!all) {
                connection.note("more lanes are still joining");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void joinRoute(
            AddressCodec.Address target,
            ConnectionCore connection,
            LinkedBlockingQueue<Dialled> dialled,
            AtomicInteger nextLane,
            int sockets,
            Deadline deadline) {
        Dialled next;
        try {
            next = dialled.poll(Math.max(0, deadline.left()) + 100_000_000, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            return;
        }
        if (next == null) {
            return;
        }
        Channel channel = next.channel;
        int lanes = next.route.lanes();
        if (channel == null || lanes == 0) {
            if (channel != null) {
                channel.close();
            }
            connection.note(
                    next.route.text()
                            + (channel == null ? ": " + next.failure : ": works, not needed"));
            return;
        }
        for (int i = 0; i < lanes; i++) {
            int lane = nextLane.getAndIncrement();
            if (lane > sockets) {
                if (i == 0) {
                    channel.close();
                }
                connection.note(next.route.text() + ": not used, maxSockets is reached");
                return;
            }
            joinOne(
                    target,
                    connection,
                    i == 0 ? next : dial(next.by, next.route, deadline),
                    lane,
                    deadline);
        }
    }

    private void joinOne(
            AddressCodec.Address target,
            ConnectionCore connection,
            Dialled by,
            int lane,
            Deadline deadline) {
        Channel channel = by.channel;
        if (channel == null) {
            connection.note(by.route.text() + ": " + by.failure);
            return;
        }
        try {
            AddressCodec.Address found =
                    initiate(
                            Handshake.Purpose.JOIN,
                            lane,
                            connection.id(),
                            target,
                            channel,
                            deadline);
            connection.add(
                    by.by.link(channel, Role.INITIATOR, found.peer(), deadline),
                    lane,
                    by.route.text() + ": joined as lane " + lane);
        } catch (Handshake.Refused e) {
            channel.close();
            connection.note(by.route.text() + ": the peer answered " + e.status());
        } catch (TelpherException e) {
            channel.close();
            connection.note(by.route.text() + ": " + e.getMessage());
        }
    }

    // --- being connected to ---------------------------------------------------------------------

    /// Takes over an incoming channel. Does not block: the progress thread calls it. However many
    /// strangers come, they keep no more than [#STRANGERS] control threads busy.
    void accepted(TransportEndpoint from, Channel channel) {
        boolean full;
        boolean another = false;
        synchronized (strangers) {
            full = strangers.size() >= WAITING_STRANGERS;
            if (!full) {
                strangers.addLast(new Stranger(from, channel, Deadline.in(HANDSHAKE)));
                another = welcoming < STRANGERS;
                welcoming += another ? 1 : 0;
            }
        }
        if (full) {
            channel.close();
        } else if (another) {
            endpoint.control().execute(this::welcomeStrangers);
        }
    }

    private void welcomeStrangers() {
        while (true) {
            Stranger next;
            synchronized (strangers) {
                next = strangers.pollFirst();
                if (next == null) {
                    welcoming--;
                    return;
                }
            }
            try {
                if (next.deadline.passed()) {
                    next.channel.close();
                } else {
                    welcome(next.from, next.channel, Deadline.in(HANDSHAKE));
                }
            } catch (RuntimeException e) {
                next.channel.close();
                LOG.log(System.Logger.Level.DEBUG, () -> "turned away: " + e);
            }
        }
    }

    /// Turns away who still waits.
    void close() {
        List<Stranger> rest;
        synchronized (strangers) {
            rest = List.copyOf(strangers);
            strangers.clear();
        }
        for (Stranger one : rest) {
            one.channel.close();
        }
    }

    private void welcome(TransportEndpoint from, Channel channel, Deadline deadline) {
        Handshake.Accepted who = Handshake.accept(channel, endpoint.secret(), deadline);
        Handshake.Hello hello = who.hello;
        if (hello.to() != 0 && hello.to() != endpoint.incarnation()) {
            who.answer(Handshake.Status.OTHER_INCARNATION, ownAddress(), deadline);
            channel.close();
            return;
        }
        if (endpoint.isClosed()) {
            who.answer(Handshake.Status.CLOSING, ownAddress(), deadline);
            channel.close();
            return;
        }
        if (hello.purpose() == Handshake.Purpose.JOIN) {
            welcomeLane(from, channel, who, deadline);
        } else {
            welcomeConnection(from, channel, who, deadline);
        }
    }

    private void welcomeLane(
            TransportEndpoint from, Channel channel, Handshake.Accepted who, Deadline deadline) {
        ConnectionCore connection = awaitConnection(who.hello.connection(), deadline);
        if (connection == null
                || connection.peerAddress().incarnation() != who.hello.from()
                || connection.lane(who.hello.lane()) != null) {
            who.answer(Handshake.Status.UNKNOWN_CONNECTION, ownAddress(), deadline);
            channel.close();
            return;
        }
        who.answer(Handshake.Status.OK, ownAddress(), deadline);
        connection.add(
                from.link(channel, Role.ACCEPTOR, who.address.peer(), deadline),
                who.hello.lane(),
                channel.text() + ": joined as lane " + who.hello.lane());
    }

    /// A lane may come before the connection's own thread has put it into the table.
    private @Nullable ConnectionCore awaitConnection(long id, Deadline deadline) {
        Deadline soon = deadline.or(Duration.ofSeconds(1));
        ConnectionCore connection;
        int round = 0;
        while ((connection = endpoint.joinable().get(id)) == null && !soon.passed()) {
            Waiting.pause(round++);
        }
        return connection;
    }

    private void welcomeConnection(
            TransportEndpoint from, Channel channel, Handshake.Accepted who, Deadline deadline) {
        long peer = who.hello.from();
        Pending served = null;
        boolean yield;
        synchronized (this) {
            for (Pending one : pending) {
                if (one.peer == peer && peer != 0 && !one.result.isDone() && !one.committed) {
                    served = one;
                    break;
                }
            }
            yield = served != null && Long.compareUnsigned(endpoint.incarnation(), peer) < 0;
            if (!yield) {
                arriving.add(peer);
                if (served != null) {
                    served.claims++;
                }
            }
        }
        if (yield) {
            who.answer(Handshake.Status.YIELD, ownAddress(), deadline);
            channel.close();
            return;
        }
        try {
            who.answer(Handshake.Status.OK, ownAddress(), deadline);
            who.awaitGo(deadline);
            Link link = from.link(channel, Role.ACCEPTOR, who.address.peer(), deadline);
            ConnectionCore connection =
                    create(who.hello.connection(), who.address, link, Role.ACCEPTOR);
            connection.add(link, 0, channel.text() + ": accepted");
            synchronized (this) {
                if (served == null
                        || !pending.contains(served)
                        || !served.result.complete(connection)) {
                    endpoint.acceptQueue().add(connection);
                }
            }
        } finally {
            synchronized (this) {
                arriving.remove(peer);
                if (served != null) {
                    served.claims--;
                }
                notifyAll();
            }
        }
    }
}
