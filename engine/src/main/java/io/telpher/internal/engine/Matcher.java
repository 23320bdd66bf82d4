package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/// Two-sided messages: per tag, the k-th send that starts meets the k-th receive. Guarded by the
/// connection's lock.
///
/// A short message travels at once, under credits. A long one waits for the receive's advert: large
/// receives are advertised when they are posted, small ones when the sender asks.
final class Matcher {
    /// A receive that the peer has ready.
    record Advert(long token, long capacity, @Nullable RemoteMemory memory) {}

    /// What came before its receive: a message (`bytes`), a request (`bytes` null), or the word
    /// that nothing will come.
    record Arrival(byte @Nullable [] bytes, long length, long token, boolean aborted) {}

    private static final int MOST_FORETOLD = 8 * OperationTable.LIMIT;

    private final ConnectionCore connection;
    private final Outbound outbound;
    private final Credits credits;
    final Tags tags;
    final ArrayDeque<TagChannel> starved = new ArrayDeque<>();
    int creditsOwed;

    /// Messages and requests of all tags that have come before their receives.
    int arrived;

    /// What the peer said of positions that this side has not come to: adverts, withdrawals, ends.
    int foretold;

    /// Capacity of the receive that the last refused message met.
    long lastCapacity;

    Matcher(ConnectionCore connection, Outbound outbound) {
        this.connection = connection;
        this.outbound = outbound;
        this.credits = outbound.credits;
        this.tags = new Tags(connection, outbound, this);
    }

    // --- sends ----------------------------------------------------------------------------------

    void postSend(Operation op) {
        TagChannel channel = tags.find(op.tag);
        channel.enter(op);
        if (channel.use != TagChannel.Use.OPEN) {
            channel.waiting.addLast(op);
        } else if (!channel.waiting.isEmpty() || !start(channel, op)) {
            channel.waiting.addLast(op);
            starve(channel);
        }
    }

    private void starve(TagChannel channel) {
        if (!channel.starving) {
            channel.starving = true;
            starved.addLast(channel);
        }
    }

    /// A channel can be used again: starts what was posted meanwhile.
    void goOn(TagChannel channel) {
        if (!startWaiting(channel)) {
            starve(channel);
        }
        Operation op;
        while ((op = channel.posted.pollFirst()) != null) {
            if (op.isPending()) {
                place(channel, op);
            }
        }
    }

    /// @return false when there is no credit
    private boolean start(TagChannel channel, Operation op) {
        long k = channel.sendNext;
        while (channel.withdrawn.remove(k) != null) {
            foretold--;
            k++;
        }
        channel.sendNext = k;
        op.position = k;
        Advert advert = channel.adverts.get(k);
        if (advert != null) {
            channel.adverts.remove(k);
            foretold--;
            channel.sendNext = k + 1;
            matched(channel, op, advert);
            return true;
        }
        if (credits.messages == 0) {
            return false;
        }
        credits.messages--;
        channel.sendNext = k + 1;
        if (op.length <= connection.eagerLimit() && !goesDirect(op)) {
            op.stage = Operation.Stage.MESSAGE;
        } else {
            op.stage = Operation.Stage.REQUEST;
            channel.started.put(k, op);
        }
        outbound.enqueue(op);
        return true;
    }

    private void matched(TagChannel channel, Operation op, Advert advert) {
        op.peerToken = advert.token;
        if (op.stage == Operation.Stage.REQUEST) {
            // The advert came before the request went out: it is not needed any more.
            outbound.unqueue(op);
            op.stage = Operation.Stage.WAIT;
            credits.messages++;
        }
        if (advert.capacity < op.length) {
            outbound.enqueue(
                    outbound.control(Frame.TRUNCATED, 0, 0, advert.token)
                            .with(Frame.C, op.length)
                            .with(Frame.D, advert.capacity));
            op.error = new TelpherException.Truncated(op.length, advert.capacity);
            connection.endings.revokeLater(op, Connection.TRUNCATED, "");
            return;
        }
        channel.started.put(op.position, op);
        RemoteMemory memory = advert.memory;
        if (memory != null && connection.oneSided.storeLater(op, memory)) {
            return;
        }
        op.stage = Operation.Stage.DATA;
        outbound.enqueue(op);
    }

    /// The data went into the receive's memory by a window.
    void stored(Operation op) {
        op.stage = Operation.Stage.STORED;
        op.direct = true;
        outbound.enqueue(op);
    }

    /// The window did not work out: the data goes by frames.
    void notStored(Operation op) {
        op.stage = Operation.Stage.DATA;
        outbound.enqueue(op);
    }

    /// Credits came back.
    void resume() {
        int rounds = starved.size();
        for (int i = 0; i < rounds; i++) {
            TagChannel channel = starved.pollFirst();
            if (channel == null) {
                return;
            }
            channel.starving = false;
            if (startWaiting(channel)) {
                tags.dropBlank(channel);
            } else {
                if (!channel.starving) {
                    channel.starving = true;
                    starved.addFirst(channel);
                }
                return;
            }
        }
    }

    private boolean startWaiting(TagChannel channel) {
        if (channel.use != TagChannel.Use.OPEN) {
            return true; // it goes on by itself
        }
        Operation op;
        // Taken out first: what starts may end at once, and would take itself out.
        while ((op = channel.waiting.pollFirst()) != null) {
            if (op.isPending() && !start(channel, op)) {
                channel.waiting.addFirst(op);
                return false;
            }
        }
        return true;
    }

    void advert(long tag, long k, long capacity, long token, @Nullable RemoteMemory memory) {
        TagChannel channel = tags.named(tag);
        Advert advert = new Advert(token, capacity, memory);
        if (k < channel.sendNext) {
            Operation op = channel.started.get(k);
            if (op != null && op.isPending() && op.peerToken == 0) {
                matched(channel, op, advert);
                resume();
            }
            return;
        }
        if (channel.withdrawn.get(k) != null) {
            return; // its withdrawal has come before it, over another lane
        }
        if (channel.adverts.get(k) != null || !mayForetell()) {
            return;
        }
        channel.adverts.put(k, advert);
        startWaiting(channel);
    }

    /// A send has ended, in whatever way.
    void sendEnded(Operation op) {
        TagChannel channel = op.channel;
        if (channel != null && channel.started.get(op.position) == op) {
            channel.started.remove(op.position);
        }
        if (op.withdrawing) {
            say(op, outbound.control(Frame.WITHDRAWN, 0, 0, op.peerToken));
        }
    }

    /// A send is being revoked: if it had started, its receive must not wait for the rest.
    void sendRevoked(Operation op) {
        TagChannel channel = op.channel;
        if (channel == null || channel.waiting.remove(op)) {
            return;
        }
        boolean message = op.stage == Operation.Stage.MESSAGE;
        if (op.reason != Connection.TRUNCATED
                && !op.withdrawing
                && (message || op.peerToken != 0 || channel.started.get(op.position) == op)) {
            if (op.copying) {
                op.abortOwed = true; // the receive must not end while its memory is written
            } else {
                abort(op);
            }
        }
        if (message || op.stage == Operation.Stage.REQUEST) {
            op.stage = Operation.Stage.WAIT;
            credits.messages++;
            resume();
        }
    }

    /// The frame that was to start a send, and that was cut already, does not go out after all: its
    /// credit comes back. That nothing will come, the peer has been told of a request; of a message
    /// it hears it now.
    void unsent(Operation op, LaneState.Sent kind) {
        if (kind == LaneState.Sent.MESSAGE) {
            abort(op);
        }
        credits.messages++;
        resume();
    }

    /// A send that was revoked while its bytes were stored has stopped storing.
    void stoppedStoring(Operation op) {
        if (op.abortOwed) {
            op.abortOwed = false;
            abort(op);
        }
    }

    private void abort(Operation op) {
        say(op, naming(op, outbound.control(Frame.ABORT, 0, -op.reason, op.peerToken)));
    }

    /// Tells the peer that a send is over: not before its bytes have stopped arriving.
    private void say(Operation op, ControlFrame frame) {
        connection.oneSided.queued.unfenced.say(op, frame);
    }

    /// The peer wants to withdraw its receive.
    void withdraw(long tag, long k, long token) {
        TagChannel channel = tags.named(tag);
        if (channel.adverts.remove(k) != null) {
            foretold--;
        }
        if (k >= channel.sendNext) {
            if (channel.withdrawn.get(k) == null && mayForetell()) {
                channel.withdrawn.put(k, Boolean.TRUE);
            }
            while (channel.withdrawn.remove(channel.sendNext) != null) {
                foretold--;
                channel.sendNext++;
            }
            startWaiting(channel);
        } else {
            Operation op = channel.started.get(k);
            if (op != null) {
                op.withdrawing = true;
                op.peerToken = token;
                connection.endings.revokeLater(
                        op, Connection.CANCELLED, "the peer cancelled the receive");
                return;
            }
        }
        ControlFrame consent = outbound.control(Frame.WITHDRAWN, 0, 0, token);
        connection.oneSided.queued.unfenced.sayOfEnded(tag, k, consent);
        tags.prune();
    }

    // --- receives
    // ---------------------------------------------------------------------------------

    void postReceive(Operation op) {
        TagChannel channel = tags.find(op.tag);
        channel.enter(op);
        if (channel.use == TagChannel.Use.OPEN) {
            place(channel, op);
        } else {
            channel.posted.addLast(op);
        }
    }

    private void place(TagChannel channel, Operation op) {
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
            foretold--;
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
                naming(op, outbound.control(Frame.ADVERT, 0, 0, op.token()))
                        .with(Frame.C, op.length);
        RegionImpl region = op.region;
        if (region != null && region.access().canWrite() && connection.oneSided.links.areThere()) {
            op.exposed = true;
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
        connection.endings.finish(op, Connection.DONE);
        return 0;
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

    /// Whether a device may store the bytes where they belong: then they do not travel as a
    /// message, which two copies with a host's help would be.
    private boolean goesDirect(Operation op) {
        return op.isOnDevice() && connection.oneSided.links.areThere();
    }

    /// Whether a receive is advertised when it is posted, without being asked for.
    private boolean advertisesAtOnce(Operation op) {
        return op.length > connection.eagerLimit() || goesDirect(op);
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
            if ((arrival != null && arrival.aborted) || mayForetell()) {
                channel.arrivals.put(k, new Arrival(null, 0, 0, true));
            }
        }
    }

    /// Counts one more of what the peer foretells: no more than a patient program ever has.
    private boolean mayForetell() {
        if (foretold >= MOST_FORETOLD) {
            connection.violated("too much about messages that nobody has come to");
            return false;
        }
        foretold++;
        return true;
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
        outbound.enqueue(naming(op, outbound.control(Frame.WITHDRAW, 0, 0, op.token())));
        return true;
    }

    void receiveEnded(Operation op) {
        TagChannel channel = op.channel;
        if (channel != null && channel.receives.get(op.position) == op) {
            channel.receives.remove(op.position);
        }
    }

    /// Gives a frame tag and position of an operation. Until it is confirmed the tag is in use.
    private static ControlFrame naming(Operation op, ControlFrame frame) {
        TagChannel channel = op.channel;
        if (channel == null) {
            throw new IllegalStateException("a message without a channel");
        }
        return channel.enter(frame).with(Frame.A, op.tag).with(Frame.B, op.position);
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
