package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.internal.wire.Handshake;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.time.Duration;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/// Dials routes, and introduces this endpoint to who answers. Blocks; used by control threads and
/// by threads that connect. Has no state of its own: a channel belongs to whoever has it dialled.
final class Dialler {
    /// How long either side may take for the handshake.
    static final Duration HANDSHAKE = Duration.ofSeconds(5);

    /// A dialled channel, or why there is none.
    record Dialled(TransportEndpoint by, Route route, @Nullable Channel channel, String failure) {}

    private final EndpointImpl endpoint;

    Dialler(EndpointImpl endpoint) {
        this.endpoint = endpoint;
    }

    Dialled dial(TransportEndpoint by, Route route, Deadline deadline) {
        try {
            return new Dialled(by, route, by.dial(route, deadline), "");
        } catch (TelpherException e) {
            return new Dialled(by, route, null, String.valueOf(e.getMessage()));
        } catch (RuntimeException e) {
            return new Dialled(by, route, null, e.toString());
        }
    }

    /// Closes what may still come.
    void abandon(LinkedBlockingQueue<Dialled> dialled, int left) {
        if (left == 0) {
            return;
        }
        endpoint.control()
                .execute(
                        () -> {
                            for (int i = 0; i < left; i++) {
                                try {
                                    Dialled late = dialled.poll(60, TimeUnit.SECONDS);
                                    if (late != null && late.channel() != null) {
                                        late.channel().close();
                                    }
                                } catch (InterruptedException e) {
                                    return;
                                }
                            }
                        });
    }

    /// The initiator's part of the handshake.
    ///
    /// @return who answered
    AddressCodec.Address initiate(
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

    /// What peers are told of this endpoint: everything but its secret.
    byte[] ownAddress() {
        return AddressCodec.encode(new AddressCodec.Address(new byte[0], endpoint.self()));
    }
}
