package io.telpher.internal.engine;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.internal.wire.Capabilities;
import io.telpher.internal.wire.Handshake;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.Link;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import io.telpher.spi.Windows;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Makes connections to other endpoints: dials the routes of the transports, by rank ([Dials]), and
/// takes the first channel that authenticates; the others become lanes ([Joining]). Used by the
/// threads that connect, each for itself; what they share is in [Crossing].
final class Connector {
    private final EndpointImpl endpoint;
    private final Crossing crossing;
    private final Dialler dialler;
    private final Joining joining;
    private final Reception reception;

    Connector(EndpointImpl endpoint) {
        this.endpoint = endpoint;
        this.crossing = new Crossing(endpoint);
        this.dialler = new Dialler(endpoint);
        this.joining = new Joining(endpoint, dialler);
        this.reception = new Reception(endpoint, this, crossing, dialler);
    }

    /// Connects, unless the peer has done so already. Blocks.
    ConnectionCore connect(EndpointAddress address, Deadline deadline) {
        AddressCodec.Address peer = AddressCodec.decode(address.toBytes());
        boolean self = peer.incarnation() == endpoint.incarnation();
        Crossing.Pending mine = new Crossing.Pending(self ? 0 : peer.incarnation());
        ConnectionCore made = crossing.enter(mine, deadline);
        if (made != null) {
            return made;
        }
        List<String> failures = new ArrayList<>();
        try {
            return connect(peer, mine, deadline, failures);
        } catch (TelpherException e) {
            ConnectionCore other = crossing.giveUp(mine, deadline);
            if (other == null) {
                throw e;
            }
            return other;
        } finally {
            crossing.leave(mine);
        }
    }

    private ConnectionCore connect(
            AddressCodec.Address peer,
            Crossing.Pending mine,
            Deadline deadline,
            List<String> failures) {
        List<Transports.Opened> left = new ArrayList<>(endpoint.transports().inUse());
        Set<String> tried = new HashSet<>(); // of a transport that is asked once more
        while (!left.isEmpty()) {
            Transports.Opened opened = left.removeFirst();
            TransportEndpoint by = opened.endpoint();
            List<Route> routes = new ArrayList<>();
            for (Route route : by.routes(peer.peer())) {
                if (tried.contains(route.text())) {
                    continue;
                }
                if (route.rejected() == null) {
                    routes.add(route);
                } else if (tried.isEmpty()) {
                    failures.add("%s: rejected, %s".formatted(route.text(), route.rejected()));
                }
            }
            // A transport whose ways are all silent leaves the others their share of the time.
            long others = deadline.left() / (left.size() + 1) * left.size();
            Deadline until = new Deadline(deadline.clock(), deadline.nanos() - others);
            // What comes late for an earlier transport must not be taken for this one's.
            Dials dials = new Dials(endpoint, dialler, by, routes, deadline, until);
            ConnectionCore connection = firstThatWorks(peer, mine, dials, deadline, failures);
            if (connection != null) {
                dials.untried().forEach(connection::note);
                for (Transports.Opened other : left) {
                    connection.note(
                            other.transport().name()
                                    + ": not tried, "
                                    + opened.transport().name()
                                    + " works and comes first");
                }
                endpoint.transports().unavailable().forEach(connection::note);
                return connection;
            }
            if (mine.forsaken && !deadline.passed()) {
                mine.forsaken = false;
                left = new ArrayList<>(endpoint.transports().inUse());
            } else if (tried.isEmpty() && !routes.isEmpty() && !until.passed()) {
                left.addFirst(opened); // it may know others now; the rest needs time, too
                routes.forEach(route -> tried.add(route.text()));
                continue;
            }
            tried.clear();
        }
        failures.addAll(endpoint.transports().unavailable());
        Events.connectFailed(endpoint, name(peer), failures);
        if (deadline.passed()) {
            throw new TelpherException.TimedOut(
                    "no connection with %s in time: %s"
                            .formatted(name(peer), String.join("; ", failures)));
        }
        throw new TelpherException.ConnectFailed("cannot connect to " + name(peer), failures);
    }

    static String name(AddressCodec.Address peer) {
        return peer.incarnation() == 0
                ? peer.locators().toString()
                : "endpoint %016x".formatted(peer.incarnation());
    }

    /// Takes dialled channels as they come until one has become a connection.
    private @Nullable ConnectionCore firstThatWorks(
            AddressCodec.Address peer,
            Crossing.Pending mine,
            Dials dials,
            Deadline deadline,
            List<String> failures) {
        boolean joined = false;
        try {
            while (dials.any()) {
                Dialler.Dialled next = dials.next(mine.result::isDone);
                if (next == null) {
                    failures.add(dials.leftOut());
                    return mine.result.getNow(null);
                }
                next = dialler.fresh(next, deadline);
                Channel channel = next.channel();
                if (channel == null) {
                    failures.add(next.why());
                    continue;
                }
                ConnectionCore connection =
                        tryToEstablish(peer, mine, next, dials, channel, deadline, failures);
                if (connection != null && mine.committed) { // else the peer adds the lanes
                    joined = true;
                    joining.join(peer, connection, next, dials, deadline);
                }
                if (connection != null || mine.forsaken) {
                    return connection;
                }
            }
            return null;
        } finally {
            if (!joined) {
                dials.abandon();
            }
        }
    }

    /// @return null when it does not work by this way, or the peer's own attempt is awaited in vain
    private @Nullable ConnectionCore tryToEstablish(
            AddressCodec.Address peer,
            Crossing.Pending mine,
            Dialler.Dialled next,
            Dials dials,
            Channel channel,
            Deadline deadline,
            List<String> failures) {
        try {
            return establish(peer, mine, next, dials.chosen(), channel, deadline, failures);
        } catch (TelpherException.TimedOut
                | TelpherException.ProtocolViolation
                | TelpherException.Unsupported
                | TelpherException.NativeFailure e) {
            channel.close();
            failures.add(next.route().text() + ": " + e.getMessage());
            return null;
        } catch (TelpherException.PeerLost e) {
            channel.close();
            ConnectionCore other = mine.result.getNow(null);
            if (other == null) {
                failures.add(next.route().text() + ": " + e.getMessage());
            }
            return other;
        } catch (TelpherException.ConnectFailed | TelpherException.AccessDenied e) {
            channel.close();
            if (next.route().later() == null) {
                throw e;
            }
            // Somebody else has that address, where its packets go from here.
            failures.add(next.route().text() + ": " + e.getMessage());
            return null;
        } catch (TelpherException e) {
            channel.close();
            throw e;
        }
    }

    private @Nullable ConnectionCore establish(
            AddressCodec.Address peer,
            Crossing.Pending mine,
            Dialler.Dialled by,
            String how,
            Channel channel,
            Deadline deadline,
            List<String> failures) {
        long id = endpoint.platform().random().nextLong();
        Handshake.Welcome found;
        try {
            found = dialler.initiate(Handshake.Purpose.CONNECT, 0, id, peer, channel, deadline);
        } catch (Handshake.Refused refused) {
            channel.close();
            if (refused.status() == Handshake.Status.YIELD) {
                ConnectionCore made = crossing.await(mine, deadline);
                if (made == null) {
                    failures.add(
                            by.route().text()
                                    + ": the peer connects at the same time, but its attempt has"
                                    + " not arrived");
                }
                return made;
            }
            if (refused.status() == Handshake.Status.OTHER_INCARNATION) {
                throw new TelpherException.ConnectFailed(
                        "%s is gone: endpoint %016x answers at %s; ask for its new address"
                                .formatted(
                                        name(peer),
                                        refused.peer().incarnation(),
                                        by.route().text()),
                        List.of());
            }
            failures.add(by.route().text() + ": the peer answered " + refused.status());
            return null;
        }
        if (!crossing.commit(mine, deadline)) {
            channel.close();
            return mine.result.getNow(null);
        }
        try {
            Handshake.go(channel, deadline);
            Link link = dialler.link(by, channel, found, deadline);
            ConnectionCore connection =
                    create(id, found.address(), found.capabilities(), link, Role.INITIATOR);
            boolean unused = connection.add(link, 0, by.route().text(), how);
            mine.result.complete(connection);
            endpoint.gate().changed();
            for (String failure : failures) {
                connection.note(failure);
            }
            return connection;
        } finally {
            if (!mine.result.isDone()) {
                crossing.takeBack(mine);
            }
        }
    }

    /// Makes a connection of an authenticated link, and lets the endpoint know it.
    ///
    /// @param peers the capabilities that the peer has named
    ConnectionCore create(long id, AddressCodec.Address peer, long peers, Link link, Role role) {
        ConnectionCore connection = new ConnectionCore(endpoint, id, peer);
        if (Capabilities.forget(Capabilities.of(endpoint.options()), peers)) {
            connection.matcher.tags.mayForget(role == Role.INITIATOR);
        }
        if (role == Role.ACCEPTOR) {
            boolean unused = connection.expect(0); // others may join before it is there
        }
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
        endpoint.gate().changed();
        endpoint.remember(connection);
        if (endpoint.isClosed()) {
            connection.close();
        }
        return connection;
    }

    Reception reception() {
        return reception;
    }
}
