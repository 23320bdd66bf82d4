package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/// The receiving half of a [Matcher]: gives receives their positions as they are posted, advertises
/// them, and meets them with what comes, or keeps that until they are posted. Guarded by the
/// connection's lock.
final class Receives {
    /// What came before its receive: a message (`bytes`), a request (`bytes` null), or the word
    /// that nothing will come.
    record Arrival(byte @Nullable [] bytes, long length, long token, boolean aborted) {}

    private final ConnectionCore connection;
    private final Outbound outbound;
    private final Matcher matcher;
    private final Tags tags;
    int creditsOwed;

    /// Messages and requests of all tags that have come before their receives.
    int arrived;

    /// Capacity of the receive that the last refused message met.
    long lastCapacity;

    Receives(ConnectionCore connection, Outbound outbound, Matcher matcher) {
        this.connection = connection;
        this.outbound = outbound;
        this.matcher = matcher;
        this.tags = matcher.tags;
    }

    void post(Operation op) {
        TagChannel channel = tags.find(op.tag);
        channel.enter(op);
        if (channel.use == TagChannel.Use.OPEN) {
            place(channel, op);
        } else {
            channel.posted.addLast(op);
        }
    }

    /// Gives a receive its position, and what has come for that.
    void place(TagChannel channel, Operation op) {
        long k = channel.receiveNext++;
        op.position = k;
        Arrival arrival = channel.arrivals.size() == 0 ? null : channel.arrivals.remove(k);
        if (arrival == null) {
            channel.receives.put(k, op);
            if (advertisesAtOnce(op)) {
                advertise(op);
            }
            return;
        }
        if (arrival.aborted) {
            matcher.foretold--;
            op.peerEnded = true;
            connection.endings.revokeLater(op, Connection.CANCELLED, "the peer cancelled the send");
            return;
        }
        arrived--;
        owe(1);
        byte[] bytes = arrival.bytes;
        if (arrival.length > op.length) {
            truncated(op, arrival.length, arrival.token, true);
        } else if (bytes != null) {
            deliver(op, MemorySegment.ofArray(bytes), 0, arrival.length);
        } else {
            channel.receives.put(k, op);
            advertise(op);
        }
    }

    private void advertise(Operation op) {
        op.advertised = true;
        ControlFrame frame =
                Matcher.naming(op, outbound.control(Frame.ADVERT, 0, 0, op.token()))
                        .with(Frame.C, op.length);
        RegionImpl region = op.region;
        if (region != null && region.access().canWrite() && connection.oneSided.links.areThere()) {
            op.exposed = true;
            op.revocable = connection.oneSided.links.admit(op.token());
            frame.payload(region.remote().slice(op.localOffset, op.length).toBytes());
        }
        outbound.enqueue(frame);
    }

    private int deliver(Operation op, MemorySegment from, long at, long length) {
        try {
            op.scatter(0, from, at, length);
        } catch (IllegalStateException | TelpherException e) {
            op.peerEnded = true;
            connection.endings.revokeLater(op, Failures.ofMemory(e), Failures.memoryDetail(e));
            return Connection.CANCELLED;
        }
        op.received = length;
        return connection.endings.finish(op, Connection.DONE) ? 0 : Connection.CANCELLED;
    }

    private void truncated(Operation op, long sent, long sendToken, boolean tell) {
        if (tell) {
            outbound.enqueue(
                    outbound.control(Frame.TRUNCATED, 0, 0, sendToken)
                            .with(Frame.C, sent)
                            .with(Frame.D, op.length));
        }
        op.error = new TelpherException.Truncated(sent, op.length);
        op.peerEnded = true;
        connection.endings.revokeLater(op, Connection.TRUNCATED, "");
    }

    /// A short message has arrived.
    ///
    /// @return 0, or why it is refused
    int message(long tag, long k, long token, MemorySegment payload, long at, int length) {
        TagChannel channel = tags.named(tag);
        if (k >= channel.receiveNext) {
            if (!mayArrive(channel, k)) {
                return Connection.CANCELLED;
            }
            byte[] bytes = new byte[length];
            MemorySegment.copy(payload, ValueLayout.JAVA_BYTE, at, bytes, 0, length);
            channel.arrivals.put(k, new Arrival(bytes, length, token, false));
            return 0;
        }
        owe(1);
        Operation op = channel.receives.remove(k);
        if (op == null) {
            return Connection.CANCELLED;
        }
        if (!op.isPending()) {
            connection.reports.receiveWithdrawn(op);
            return Connection.CANCELLED;
        }
        if (length > op.length) {
            lastCapacity = op.length;
            truncated(op, length, token, false);
            return Connection.TRUNCATED;
        }
        return deliver(op, payload, at, length);
    }

    /// A long message wants its receive.
    void request(long tag, long k, long token, long length) {
        TagChannel channel = tags.named(tag);
        if (k >= channel.receiveNext) {
            if (mayArrive(channel, k)) {
                channel.arrivals.put(k, new Arrival(null, length, token, false));
            }
            return;
        }
        owe(1);
        Operation op = channel.receives.get(k);
        if (op == null || !op.isPending()) {
            // Either the data overtook the request on another lane, or the receive was
            // withdrawn: then the sender has been told so already.
            return;
        }
        if (length > op.length) {
            channel.receives.remove(k);
            truncated(op, length, token, true);
        } else if (!op.advertised) {
            advertise(op);
        }
    }

    /// Whether a receive is advertised when it is posted, without being asked for.
    private boolean advertisesAtOnce(Operation op) {
        return op.length > connection.eagerLimit() || matcher.goesDirect(op);
    }

    /// The peer's send ended before all its bytes came.
    void aborted(long tag, long k, int reason) {
        TagChannel channel = tags.named(tag);
        Operation op = channel.receives.get(k);
        if (op != null) {
            connection.reports.aborted(op, reason, "the peer's send ended early");
        } else if (k >= channel.receiveNext) {
            Arrival arrival = channel.arrivals.remove(k);
            if (arrival != null && !arrival.aborted) {
                arrived--;
                owe(1);
            }
            if ((arrival != null && arrival.aborted) || matcher.mayForetell()) {
                channel.arrivals.put(k, new Arrival(null, 0, 0, true));
            }
        }
    }

    /// Counts a message or request in that comes before its receive.
    ///
    /// @return false when its end has come before it, over another lane
    private boolean mayArrive(TagChannel channel, long k) {
        Arrival before = channel.arrivals.size() == 0 ? null : channel.arrivals.get(k);
        if (before != null) {
            if (before.aborted) {
                owe(1);
            } else {
                connection.violated("two messages of tag " + channel.tag + " and number " + k);
            }
            return false;
        }
        if (arrived > 2 * Credits.MESSAGES) {
            connection.violated("more messages than there are credits");
            return false;
        }
        arrived++;
        return true;
    }

    /// A receive is being revoked: asks the sender whether it has begun.
    ///
    /// @return false when the peer cannot know of it
    boolean askToWithdraw(Operation op) {
        TagChannel channel = op.channel;
        if (channel == null || channel.posted.remove(op)) {
            return false;
        }
        outbound.enqueue(Matcher.naming(op, outbound.control(Frame.WITHDRAW, 0, 0, op.token())));
        return true;
    }

    void ended(Operation op) {
        TagChannel channel = op.channel;
        if (channel != null && channel.receives.get(op.position) == op) {
            channel.receives.remove(op.position);
        }
    }

    /// The peer may send so many messages more; told with the next message or, when there is none
    /// for long, alone.
    void owe(int credits) {
        creditsOwed += credits;
        if (creditsOwed >= Credits.MESSAGES / 4) {
            outbound.enqueue(outbound.control(Frame.CREDIT, 0, 0, 0).with(Frame.A, creditsOwed));
            creditsOwed = 0;
        }
    }

    /// @return what is owed, which the caller sends
    int takeCredits() {
        int credits = creditsOwed;
        creditsOwed = 0;
        return credits;
    }
}
