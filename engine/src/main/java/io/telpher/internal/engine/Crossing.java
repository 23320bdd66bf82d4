package io.telpher.internal.engine;

import io.telpher.spi.Deadline;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// Connects that cross. When two endpoints connect to each other at the same time, the attempt of
/// the lower incarnation counts: as long as its connect is under way it tells the other one to
/// yield, and both callers get the one connection. A connection that the peer has made and nobody
/// has accepted yet serves a `connect` to that peer too. Who waits for whom is in
/// `docs/architecture.md`, "Connects that cross".
///
/// Everything is guarded by `this`; threads that connect wait at the endpoint's [Gate] while a
/// connection of the same peer is being set up from the other side.
final class Crossing {
    /// A connect that is under way.
    static final class Pending {
        final long peer;
        final CompletableFuture<ConnectionCore> result = new CompletableFuture<>();

        /// How many connections of the peer are being set up that would serve this one. Guarded by
        /// its `Crossing`, like the next.
        int claims;

        /// Its own attempt has said `GO`: it becomes the connection unless it fails, and nothing
        /// that the peer makes is given to this one before that is known.
        boolean committed;

        /// The peer has told it to yield, and then did not connect: whoever connects tries again.
        /// Only for the thread that connects.
        boolean forsaken;

        Pending(long peer) {
            this.peer = peer;
        }
    }

    /// A connection that is being set up from the other side.
    ///
    /// @param served the connect that it serves too
    record Arrival(long peer, @Nullable Pending served) {}

    private final EndpointImpl endpoint;
    private final Gate gate;
    private final List<Pending> pending = new ArrayList<>();

    /// Incarnations whose connections are being set up from the other side.
    private final List<Long> arriving = new ArrayList<>();

    Crossing(EndpointImpl endpoint) {
        this.endpoint = endpoint;
        this.gate = endpoint.gate();
    }

    // --- for who connects -----------------------------------------------------------------------

    /// Begins a connect; [#leave] must follow, unless there is a connection already.
    ///
    /// @return one that the peer has made and nobody has accepted
    @Nullable ConnectionCore enter(Pending mine, Deadline deadline) {
        while (true) {
            synchronized (this) {
                if (!arriving.contains(mine.peer) || mine.peer == 0 || deadline.passed()) {
                    ConnectionCore waiting = mine.peer == 0 ? null : takeAccepted(mine.peer);
                    if (waiting == null) {
                        pending.add(mine);
                    }
                    return waiting;
                }
            }
            // It is about to be in the accept queue.
            boolean ignored = gate.await(() -> !isArriving(mine.peer), deadline, "connecting");
            assert ignored || deadline.passed();
        }
    }

    private synchronized boolean isArriving(long peer) {
        return arriving.contains(peer);
    }

    private @Nullable ConnectionCore takeAccepted(long peer) {
        for (ConnectionCore waiting : endpoint.acceptQueue()) {
            if (waiting.peerIncarnation() == peer
                    && !waiting.isOver()
                    && endpoint.acceptQueue().remove(waiting)) {
                return waiting;
            }
        }
        return null;
    }

    synchronized void leave(Pending mine) {
        pending.remove(mine);
    }

    /// Both sides may get here at the same time, when the peer's attempt has come through and this
    /// one was under way: the peer's counts.
    ///
    /// @return false when there is a connection already
    boolean commit(Pending mine, Deadline deadline) {
        while (true) {
            synchronized (this) {
                if (isDecided(mine) || deadline.passed()) {
                    mine.committed = !mine.result.isDone();
                    return mine.committed;
                }
            }
            awaitClaims(mine, deadline);
        }
    }

    /// The attempt that was committed has failed: what the peer makes counts again.
    void takeBack(Pending mine) {
        synchronized (this) {
            mine.committed = false;
        }
        gate.changed();
    }

    private synchronized boolean isInTheAir(Pending mine) {
        return mine.committed && !mine.result.isDone();
    }

    /// Ends a connect that has failed, unless the peer's own attempt has served it or is about to:
    /// nobody else would ever get that connection.
    ///
    /// @return the connection that the peer has made
    @Nullable ConnectionCore giveUp(Pending mine, Deadline deadline) {
        while (true) {
            synchronized (this) {
                if (isDecided(mine)
                        || deadline.passed()
                        || Thread.currentThread().isInterrupted()) {
                    pending.remove(mine);
                    return mine.result.getNow(null);
                }
            }
            awaitClaims(mine, deadline);
        }
    }

    /// Waits until the peer's own attempts have served this one or have failed.
    private void awaitClaims(Pending mine, Deadline deadline) {
        boolean ignored = gate.await(() -> isDecided(mine), deadline, "connecting");
        assert ignored || deadline.passed();
    }

    private synchronized boolean isDecided(Pending mine) {
        return mine.claims == 0 || mine.result.isDone();
    }

    /// Waits for the connection that the peer makes, as long as its handshake may take.
    ///
    /// @return null when it has not come: the peer's attempt may have failed
    @Nullable ConnectionCore await(Pending mine, Deadline deadline) {
        boolean ignored =
                gate.await(mine.result::isDone, deadline.or(Dialler.HANDSHAKE), "connecting");
        assert ignored || !mine.result.isDone();
        ConnectionCore made = mine.result.getNow(null);
        mine.forsaken = made == null;
        return made;
    }

    // --- for who is connected to ----------------------------------------------------------------

    /// A peer wants to connect. [#handOver] may follow, [#end] must.
    ///
    /// @return null when it has to yield to this side's own attempt
    synchronized @Nullable Arrival begin(long peer) {
        Pending served = null;
        for (Pending one : pending) {
            if (one.peer == peer && peer != 0 && !one.result.isDone()) {
                served = one;
                break;
            }
        }
        if (served != null && Long.compareUnsigned(endpoint.incarnation(), peer) < 0) {
            return null;
        }
        arriving.add(peer);
        if (served != null) {
            served.claims++;
        }
        return new Arrival(peer, served);
    }

    /// Gives the connection to the connect that it serves, or to whoever accepts. An attempt of
    /// that connect which this one has overtaken comes to its end first: the peer has given it up.
    void handOver(Arrival arrival, ConnectionCore connection) {
        Pending served = arrival.served;
        if (served != null) {
            boolean unused =
                    gate.await(
                            () -> !isInTheAir(served),
                            endpoint.platform().in(Dialler.HANDSHAKE),
                            "connecting");
        }
        synchronized (this) {
            if (served == null
                    || !pending.contains(served)
                    || served.committed
                    || !served.result.complete(connection)) {
                endpoint.acceptQueue().add(connection);
            }
        }
        gate.changed();
    }

    void end(Arrival arrival) {
        synchronized (this) {
            arriving.remove(arrival.peer);
            if (arrival.served != null) {
                arrival.served.claims--;
            }
        }
        gate.changed();
    }
}
