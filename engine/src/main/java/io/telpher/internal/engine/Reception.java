package io.telpher.internal.engine;

import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Capabilities;
import io.telpher.internal.wire.Handshake;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.Link;
import io.telpher.spi.Role;
import io.telpher.spi.TransportEndpoint;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Receives those who connect to this endpoint: strangers first, who are looked at on control
/// threads, a limited number at a time; those that authenticate become connections, or lanes of
/// one. Until then a stranger costs one descriptor.
final class Reception {

    /// Strangers that are looked at at a time, each by one control thread.
    private static final int STRANGERS = 64;

    /// Strangers that may wait for that; more are turned away.
    private static final int WAITING_STRANGERS = 512;

    private record Stranger(TransportEndpoint from, Channel channel, Deadline deadline) {}

    /// Strangers that nobody looks at yet; guards itself and `welcoming`.
    private final ArrayDeque<Stranger> strangers = new ArrayDeque<>();

    private int welcoming;

    private final EndpointImpl endpoint;
    private final Connector connector;
    private final Crossing crossing;
    private final Dialler dialler;

    Reception(EndpointImpl endpoint, Connector connector, Crossing crossing, Dialler dialler) {
        this.endpoint = endpoint;
        this.connector = connector;
        this.crossing = crossing;
        this.dialler = dialler;
    }

    /// Takes over an incoming channel. Does not block: the progress thread calls it. However many
    /// strangers come, they keep no more than [#STRANGERS] control threads busy.
    void accepted(TransportEndpoint from, Channel channel) {
        boolean full;
        boolean another = false;
        synchronized (strangers) {
            full = strangers.size() >= WAITING_STRANGERS;
            if (!full) {
                strangers.addLast(
                        new Stranger(from, channel, endpoint.platform().in(Dialler.HANDSHAKE)));
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
                    welcome(next.from, next.channel, endpoint.platform().in(Dialler.HANDSHAKE));
                }
            } catch (Throwable e) {
                Failures.letThrough(e);
                next.channel.close();
                Log.debug("turned away: " + e, null);
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
        Handshake.Accepted who =
                Handshake.accept(
                        channel,
                        endpoint.secret(),
                        Capabilities.of(endpoint.options()),
                        endpoint.platform().random(),
                        deadline);
        Handshake.Hello hello = who.hello;
        if (hello.to() != 0 && hello.to() != endpoint.incarnation()) {
            who.answer(Handshake.Status.OTHER_INCARNATION, endpoint.introduction(), deadline);
            channel.close();
            return;
        }
        if (endpoint.isClosed()) {
            who.answer(Handshake.Status.CLOSING, endpoint.introduction(), deadline);
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
        int lane = who.hello.lane();
        ConnectionCore connection = awaitConnection(who.hello.connection(), deadline);
        if (connection == null
                || connection.peerIncarnation() != who.hello.from()
                || connection.lane(lane) != null) {
            who.answer(Handshake.Status.UNKNOWN_CONNECTION, endpoint.introduction(), deadline);
            channel.close();
            return;
        }
        if (!connection.expect(lane)) {
            who.answer(Handshake.Status.ENOUGH, endpoint.introduction(), deadline);
            channel.close();
            return;
        }
        try {
            who.answer(Handshake.Status.OK, endpoint.introduction(), deadline);
            boolean unused =
                    connection.add(
                            dialler.checked(
                                    from.link(channel, Role.ACCEPTOR, who.address.peer(), deadline),
                                    who.hello.capabilities()),
                            lane,
                            channel.text(),
                            "joined as lane " + lane);
        } finally {
            connection.expectNoMore(lane);
        }
    }

    /// A lane may come before the connection's own thread has put it into the table.
    private @Nullable ConnectionCore awaitConnection(long id, Deadline deadline) {
        boolean there =
                endpoint.gate()
                        .await(
                                () -> endpoint.joinable().containsKey(id),
                                deadline.or(Duration.ofSeconds(1)),
                                "waiting for a connection");
        return there ? endpoint.joinable().get(id) : null;
    }

    private void welcomeConnection(
            TransportEndpoint from, Channel channel, Handshake.Accepted who, Deadline deadline) {
        Crossing.Arrival arrival = crossing.begin(who.hello.from());
        if (arrival == null) {
            who.answer(Handshake.Status.YIELD, endpoint.introduction(), deadline);
            channel.close();
            return;
        }
        try {
            who.answer(Handshake.Status.OK, endpoint.introduction(), deadline);
            who.awaitGo(deadline);
            Link link =
                    dialler.checked(
                            from.link(channel, Role.ACCEPTOR, who.address.peer(), deadline),
                            who.hello.capabilities());
            ConnectionCore connection =
                    connector.create(
                            who.hello.connection(),
                            who.address,
                            who.hello.capabilities(),
                            link,
                            Role.ACCEPTOR);
            boolean unused = connection.add(link, 0, channel.text(), "accepted");
            crossing.handOver(arrival, connection);
        } finally {
            crossing.end(arrival);
        }
    }
}
