package io.telpher.internal.engine;

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
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// Dials routes, and introduces this endpoint to who answers. Blocks; used by control threads and
/// by threads that connect. Has no state of its own: a channel belongs to whoever has it dialled.
final class Dialler {
    /// How long either side may take for the handshake.
    static final Duration HANDSHAKE = Duration.ofSeconds(5);

    /// A channel that has waited longer is dialled again: the peer gives one [#HANDSHAKE] from when
    /// it comes, and of that as much as a link may take has to be left.
    private static final Duration FRESH = Duration.ofSeconds(2);

    /// A dialled channel, or why there is none; that does not name the route.
    ///
    /// @param at when it was there, on the platform's clock
    record Dialled(
            TransportEndpoint by, Route route, @Nullable Channel channel, String failure, long at) {
        /// Why there is no channel, for people.
        String why() {
            return route.text() + ": " + failure;
        }
    }

    private final EndpointImpl endpoint;

    Dialler(EndpointImpl endpoint) {
        this.endpoint = endpoint;
    }

    Dialled dial(TransportEndpoint by, Route route, Deadline deadline) {
        try {
            Channel channel = by.dial(route, deadline);
            return new Dialled(by, route, channel, "", endpoint.platform().nanoTime());
        } catch (TelpherException e) {
            return failed(by, route, failure(route, String.valueOf(e.getMessage())));
        } catch (Throwable e) {
            Failures.letThrough(e);
            return failed(by, route, e.toString());
        }
    }

    private Dialled failed(TransportEndpoint by, Route route, String failure) {
        return new Dialled(by, route, null, failure, endpoint.platform().nanoTime());
    }

    /// Whoever tries one channel after another comes to the last ones late.
    ///
    /// @return the same, or one that has been dialled again because the peer has hardly any time
    ///     left for it
    Dialled fresh(Dialled dialled, Deadline deadline) {
        Channel channel = dialled.channel();
        if (channel == null || endpoint.platform().nanoTime() - dialled.at() < FRESH.toNanos()) {
            return dialled;
        }
        channel.close();
        return dial(dialled.by(), dialled.route(), deadline.or(HANDSHAKE));
    }

    /// Most transports put the route in front of what they say.
    private static String failure(Route route, String message) {
        String front = route.text() + ": ";
        return message.startsWith(front) ? message.substring(front.length()) : message;
    }

    /// The initiator's part of the handshake.
    ///
    /// @return who answered
    Handshake.Welcome initiate(
            Handshake.Purpose purpose,
            int lane,
            long id,
            AddressCodec.Address peer,
            Channel channel,
            Deadline deadline)
            throws Handshake.Refused {
        return Handshake.initiate(
                channel,
                new Handshake.Hello(
                        purpose,
                        lane,
                        id,
                        endpoint.incarnation(),
                        peer.incarnation(),
                        Capabilities.of(endpoint.options())),
                peer.secret(),
                endpoint.introduction(),
                endpoint.platform().random(),
                deadline.or(HANDSHAKE));
    }

    /// Turns a channel whose other end has answered into a link. A peer that stalls now costs this
    /// way to it, not the whole time that connecting may take.
    ///
    /// @param found who answered
    Link link(Dialled by, Channel channel, Handshake.Welcome found, Deadline deadline) {
        return checked(
                by.by()
                        .link(
                                channel,
                                Role.INITIATOR,
                                found.address().peer(),
                                deadline.or(HANDSHAKE)),
                found.capabilities());
    }

    /// Lets the frames of a new link carry checksums, if that is what its two ends want.
    ///
    /// @param peers the capabilities that the peer has named
    Link checked(Link link, long peers) {
        return Capabilities.check(Capabilities.of(endpoint.options()), peers)
                ? new Link(new CheckedLane(link.lane()), link.windows(), link.noWindows())
                : link;
    }
}
