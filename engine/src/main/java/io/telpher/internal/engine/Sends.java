package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/// The sending half of a [Matcher]: gives sends their positions as they start, which takes a credit
/// or an advert, and meets them with adverts. Guarded by the connection's lock.
final class Sends {
    /// A receive that the peer has ready.
    record Advert(long token, long capacity, @Nullable RemoteMemory memory) {}

    private final ConnectionCore connection;
    private final Outbound outbound;
    private final Credits credits;
    private final Matcher matcher;
    private final Tags tags;

    /// Tags of which a send waits for credit.
    final ArrayDeque<TagChannel> starved = new ArrayDeque<>();

    Sends(ConnectionCore connection, Outbound outbound, Matcher matcher) {
        this.connection = connection;
        this.outbound = outbound;
        this.credits = outbound.credits;
        this.matcher = matcher;
        this.tags = matcher.tags;
    }

    void post(Operation op) {
        TagChannel channel = tags.find(op.tag);
        channel.enter(op);
        if (channel.use != TagChannel.Use.OPEN) {
            channel.waiting.addLast(op);
        } else if (!channel.waiting.isEmpty() || !start(channel, op)) {
            channel.waiting.addLast(op);
            starve(channel);
        }
    }

    /// A tag's sends wait for credit.
    void starve(TagChannel channel) {
        if (!channel.starving) {
            channel.starving = true;
            starved.addLast(channel);
        }
    }

    /// @return false when there is no credit
    private boolean start(TagChannel channel, Operation op) {
        long k = channel.sendNext;
        while (channel.withdrawn.remove(k) != null) {
            matcher.foretold--;
            k++;
        }
        channel.sendNext = k;
        op.position = k;
        Advert advert = channel.adverts.get(k);
        if (advert != null) {
            channel.adverts.remove(k);
            matcher.foretold--;
            channel.sendNext = k + 1;
            matched(channel, op, advert);
            return true;
        }
        if (credits.messages == 0) {
            return false;
        }
        credits.messages--;
        channel.sendNext = k + 1;
        if (op.length <= connection.eagerLimit() && !matcher.goesDirect(op)) {
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

    boolean startWaiting(TagChannel channel) {
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
        if (channel.adverts.get(k) != null || !matcher.mayForetell()) {
            return;
        }
        channel.adverts.put(k, advert);
        startWaiting(channel);
    }

    /// A send has ended, in whatever way.
    void ended(Operation op) {
        TagChannel channel = op.channel;
        if (channel != null && channel.started.get(op.position) == op) {
            channel.started.remove(op.position);
        }
        if (op.withdrawing) {
            say(op, outbound.control(Frame.WITHDRAWN, 0, 0, op.peerToken));
        }
    }

    /// A send is being revoked: if it had started, its receive must not wait for the rest.
    void revoked(Operation op) {
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
        say(op, Matcher.naming(op, outbound.control(Frame.ABORT, 0, -op.reason, op.peerToken)));
    }

    /// Tells the peer that a send is over: not before its bytes have stopped arriving.
    private void say(Operation op, ControlFrame frame) {
        connection.oneSided.queued.unfenced.say(op, frame);
    }

    /// The peer wants to withdraw its receive.
    void withdraw(long tag, long k, long token) {
        TagChannel channel = tags.named(tag);
        if (channel.adverts.remove(k) != null) {
            matcher.foretold--;
        }
        if (k >= channel.sendNext) {
            if (channel.withdrawn.get(k) == null && matcher.mayForetell()) {
                channel.withdrawn.put(k, Boolean.TRUE);
            }
            while (channel.withdrawn.remove(channel.sendNext) != null) {
                matcher.foretold--;
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
}
