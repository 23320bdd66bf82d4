package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.internal.wire.Handshake;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// Adds lanes to a connection that this side has made: whatever other routes lead to the peer. Used
/// by the thread that connects; each lane joins on a control thread.
final class Joining {
    /// How long `connect` waits for the lanes beside the first.
    private static final Duration JOIN_GRACE = Duration.ofMillis(500);

    /// How much later than its deadline a dial may come to its end.
    private static final Duration OVERRUN = Duration.ofMillis(100);

    /// Why the peer takes no more lanes.
    private static final String ENOUGH = "the peer has as many lanes as it wants";

    /// What the lanes of a connection join.
    ///
    /// @param peer as it was authenticated
    /// @param next index of the next lane
    /// @param last index of the last one at first; -1 as soon as the peer has enough
    private record Wanted(
            AddressCodec.Address peer,
            ConnectionCore connection,
            AtomicInteger next,
            AtomicInteger last) {
        /// @return the index of one more lane; 0, which is the first one's, when there are enough
        int index() {
            int index = next.getAndUpdate(i -> i > last.get() ? i : i + 1);
            return index > last.get() ? 0 : index;
        }
    }

    private final EndpointImpl endpoint;
    private final Dialler dialler;

    Joining(EndpointImpl endpoint, Dialler dialler) {
        this.endpoint = endpoint;
        this.dialler = dialler;
    }

    /// Lets every other route that leads to the peer become lanes. Waits for them for a moment;
    /// late ones join in the background.
    void join(
            AddressCodec.Address peer,
            ConnectionCore connection,
            Dialler.Dialled first,
            Dials dials,
            Deadline deadline) {
        AddressCodec.Address target =
                new AddressCodec.Address(
                        peer.secret(),
                        new PeerAddress(
                                connection.peerIncarnation(), peer.peer().host(), peer.locators()));
        AtomicInteger nextLane = new AtomicInteger(1);
        connection.rejoinBy(new Rejoining(endpoint, this, connection, target, first, nextLane));
        int sockets = endpoint.options().maxSockets() - 1;
        Wanted wanted = new Wanted(target, connection, nextLane, new AtomicInteger(sockets));
        int own = Math.min(first.route().lanes(), sockets);
        int left = dials.underWay();
        AtomicInteger undone = new AtomicInteger(own + left);
        // These first: where the peer wants few lanes, each way should have one.
        for (int i = 0; i < left; i++) {
            endpoint.control()
                    .execute(
                            () -> {
                                try {
                                    joinRoute(wanted, dials, deadline);
                                } finally {
                                    undone.decrementAndGet();
                                    endpoint.gate().changed();
                                }
                            });
        }
        for (int i = 0; i < own; i++) {
            endpoint.control()
                    .execute(
                            () -> {
                                try {
                                    boolean unused =
                                            joinOneMore(
                                                    wanted,
                                                    first.by(),
                                                    first.route(),
                                                    null,
                                                    deadline);
                                } finally {
                                    undone.decrementAndGet();
                                    endpoint.gate().changed();
                                }
                            });
        }
        try {
            boolean all =
                    endpoint.gate()
                            .await(() -> undone.get() == 0, deadline.or(JOIN_GRACE), "connecting");
            if (!all) {
                connection.note("more lanes are still joining");
            }
        } catch (TelpherException.Cancelled interrupted) {
            connection.note("interrupted; more lanes may still join");
        }
    }

    private void joinRoute(Wanted wanted, Dials dials, Deadline deadline) {
        Dialler.Dialled next =
                dials.take(new Deadline(deadline.clock(), deadline.nanos() + OVERRUN.toNanos()));
        if (next == null) {
            return;
        }
        next = dialler.fresh(next, deadline);
        Channel channel = next.channel();
        int lanes = next.route().lanes();
        if (channel == null || lanes == 0) {
            if (channel != null) {
                channel.close();
            }
            wanted.connection.note(
                    channel == null ? next.why() : next.route().text() + ": works, not needed");
            return;
        }
        boolean more = joinOneMore(wanted, next.by(), next.route(), next, deadline);
        for (int i = 1; more && i < lanes; i++) {
            more = joinOneMore(wanted, next.by(), next.route(), null, deadline);
        }
    }

    /// Makes one more lane, unless there are enough.
    ///
    /// @param dialled its channel, or null where it has yet to be dialled
    /// @return whether there may be more
    private boolean joinOneMore(
            Wanted wanted,
            TransportEndpoint by,
            Route route,
            Dialler.@Nullable Dialled dialled,
            Deadline deadline) {
        int lane = wanted.index();
        if (lane == 0) {
            if (dialled != null && dialled.channel() != null) {
                dialled.channel().close();
            }
            String why = wanted.last.get() < 0 ? ENOUGH : "maxSockets is reached";
            wanted.connection.note(route.text() + ": not used, " + why);
            return false;
        }
        Dialler.Dialled there = dialled != null ? dialled : dialler.dial(by, route, deadline);
        String why = joinOne(wanted.peer, wanted.connection, there, lane, deadline);
        if (why != null) {
            wanted.connection.note(route.text() + ": " + why);
        }
        if (ENOUGH.equals(why)) {
            wanted.last.set(-1);
            return false;
        }
        return true;
    }

    /// Dials, and makes a lane of what answers.
    ///
    /// @return why there is none, or null
    @Nullable String joinOne(
            AddressCodec.Address target,
            ConnectionCore connection,
            TransportEndpoint by,
            Route route,
            int lane,
            Deadline deadline) {
        return joinOne(target, connection, dialler.dial(by, route, deadline), lane, deadline);
    }

    private @Nullable String joinOne(
            AddressCodec.Address target,
            ConnectionCore connection,
            Dialler.Dialled by,
            int lane,
            Deadline deadline) {
        Channel channel = by.channel();
        if (channel == null) {
            return by.failure();
        }
        try {
            Handshake.Welcome found =
                    dialler.initiate(
                            Handshake.Purpose.JOIN,
                            lane,
                            connection.id(),
                            target,
                            channel,
                            deadline);
            return connection.add(
                            dialler.link(by, channel, found, deadline),
                            lane,
                            by.route().text(),
                            "joined as lane " + lane)
                    ? null
                    : "too late";
        } catch (Handshake.Refused e) {
            channel.close();
            return e.status() == Handshake.Status.ENOUGH
                    ? ENOUGH
                    : "the peer answered " + e.status();
        } catch (TelpherException e) {
            channel.close();
            return String.valueOf(e.getMessage());
        }
    }
}
