package io.telpher.internal.engine;

import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.Deadline;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.time.Duration;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// Brings the lanes of a connection back: dials the ways to the peer again when lanes have died,
/// until there are as many as there were. The side that has made the connection does it, for as
/// long as another lane keeps that alive.
///
/// ```
/// WHOLE --a lane dies--> WAITING --the pause is over--> DIALLING --all are back--> WHOLE
///                           ^------twice the pause--------/
/// ```
///
/// What comes back is a new lane with an index of its own; the one that died stays dead. The ways
/// are asked for anew each time, since ports and their addresses change when a link comes back.
final class Rejoining {
    private static final Duration FIRST_PAUSE = Duration.ofSeconds(1);
    private static final Duration LONGEST_PAUSE = Duration.ofSeconds(60);

    private final EndpointImpl endpoint;
    private final Joining joining;
    private final ConnectionCore connection;
    private final AddressCodec.Address peer;
    private final TransportEndpoint by;
    private final String first;
    private final AtomicInteger nextLane;

    // Of the thread that ticks.

    private long pause;
    private long due;
    private boolean waiting;

    /// A control thread dials.
    private volatile boolean dialling;

    /// Why the last try has brought nothing back.
    private volatile @Nullable String failure;

    /// @param peer as it was authenticated
    /// @param first the way of the first lane, which has one more than others
    /// @param nextLane the index of the next lane; shared with those that still join
    Rejoining(
            EndpointImpl endpoint,
            Joining joining,
            ConnectionCore connection,
            AddressCodec.Address peer,
            Dialler.Dialled first,
            AtomicInteger nextLane) {
        this.endpoint = endpoint;
        this.joining = joining;
        this.connection = connection;
        this.peer = peer;
        this.by = first.by();
        this.first = first.route().text();
        this.nextLane = nextLane;
    }

    /// Called by the progress thread now and then, without lock and tokens.
    void tick(long now) {
        int most = connection.lanes.most();
        if (dialling || connection.isOver() || endpoint.isClosed()) {
            return;
        }
        if (connection.lanes.live() == most) {
            waiting = false;
            failure = null;
            return;
        }
        if (!waiting) {
            // One that is back, and dies again soon, does not begin from the start.
            if (pause == 0 || now - due > 4 * pause) {
                pause = FIRST_PAUSE.toNanos();
            }
            waiting = true;
            due = now + pause;
        } else if (now - due >= 0) {
            pause = Math.min(2 * pause, LONGEST_PAUSE.toNanos());
            due = now + pause;
            dialling = true;
            int wanted = most;
            try {
                endpoint.control().execute(() -> dialAgain(wanted));
            } catch (RejectedExecutionException e) {
                dialling = false; // the endpoint closes
            }
        }
    }

    private void dialAgain(int wanted) {
        try {
            for (Route route : by.routes(peer.peer())) {
                if (route.rejected() == null) {
                    fill(route, wanted);
                } else {
                    failure = route.text() + ": " + route.rejected();
                }
            }
        } catch (RuntimeException e) {
            failure = e.toString();
            Log.debug("lanes to " + connection.peerText() + " could not be dialled", e);
        } finally {
            dialling = false;
        }
    }

    /// Dials one way until it has as many lanes as it is to have, or does not work.
    private void fill(Route route, int wanted) {
        int all = route.lanes() + (route.text().equals(first) ? 1 : 0);
        while (connection.lanes.live(route.text()) < all
                && connection.lanes.live() < wanted
                && !connection.isOver()
                && nextLane.get() < Lanes.MOST) {
            Deadline deadline = endpoint.platform().in(Dialler.HANDSHAKE.multipliedBy(2));
            int lane = nextLane.getAndIncrement();
            String why = joining.joinOne(peer, connection, by, route, lane, deadline);
            if (why != null) {
                failure = route.text() + ": " + why;
                giveBack(lane);
                return;
            }
        }
    }

    /// There are not many indices, and a link may be down for long: the next dial gets that of one
    /// that was in vain. Not if the lane has joined at the peer alone, which has given it up since;
    /// until then the peer refuses another one with that index.
    private void giveBack(int lane) {
        connection.lock.lock();
        try {
            if (!connection.lanes.isSpent(lane)) {
                boolean unused = nextLane.compareAndSet(lane + 1, lane);
            }
        } finally {
            connection.lock.unlock();
        }
    }

    /// @return a line about what is missing; empty where nothing is
    String explain() {
        int live = connection.lanes.live();
        int most = connection.lanes.most();
        String why = failure;
        if (live >= most) {
            return "";
        }
        return "  %d lanes of %d; the others are dialled again%s\n"
                .formatted(
                        live,
                        most,
                        nextLane.get() >= Lanes.MOST
                                ? " no more: all indices are spent"
                                : why == null ? "" : ", in vain: " + why);
    }
}
