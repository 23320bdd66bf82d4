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
        int own = Math.min(first.route().lanes(), sockets);
        int left = dials.underWay();
        AtomicInteger undone = new AtomicInteger(own + left);
        for (int i = 0; i < own; i++) {
            endpoint.control()
                    .execute(
                            () -> {
                                try {
                                    joinAndNote(
                                            target,
                                            connection,
                                            dialler.dial(first.by(), first.route(), deadline),
                                            nextLane.getAndIncrement(),
                                            deadline);
                                } finally {
                                    undone.decrementAndGet();
                                    endpoint.gate().changed();
                                }
                            });
        }
        for (int i = 0; i < left; i++) {
            endpoint.control()
                    .execute(
                            () -> {
                                try {
                                    joinRoute(
                                            target, connection, dials, nextLane, sockets, deadline);
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

    private void joinRoute(
            AddressCodec.Address target,
            ConnectionCore connection,
            Dials dials,
            AtomicInteger nextLane,
            int sockets,
            Deadline deadline) {
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
            connection.note(
                    channel == null ? next.why() : next.route().text() + ": works, not needed");
            return;
        }
        for (int i = 0; i < lanes; i++) {
            int lane = nextLane.getAndIncrement();
            if (lane > sockets) {
                if (i == 0) {
                    channel.close();
                }
                connection.note(next.route().text() + ": not used, maxSockets is reached");
                return;
            }
            joinAndNote(
                    target,
                    connection,
                    i == 0 ? next : dialler.dial(next.by(), next.route(), deadline),
                    lane,
                    deadline);
        }
    }

    private void joinAndNote(
            AddressCodec.Address target,
            ConnectionCore connection,
            Dialler.Dialled by,
            int lane,
            Deadline deadline) {
        String why = joinOne(target, connection, by, lane, deadline);
        if (why != null) {
            connection.note(by.route().text() + ": " + why);
        }
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
            return "the peer answered " + e.status();
        } catch (TelpherException e) {
            channel.close();
            return String.valueOf(e.getMessage());
        }
    }
}
