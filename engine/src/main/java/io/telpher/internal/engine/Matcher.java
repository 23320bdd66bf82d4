package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;

/// Two-sided messages: per tag, the k-th send that starts meets the k-th receive. [Sends] and
/// [Receives] are the halves; here is what they share. Guarded by the connection's lock.
///
/// A short message travels at once, under credits. A long one waits for the receive's advert: large
/// receives are advertised when they are posted, small ones when the sender asks.
final class Matcher {
    private static final int MOST_FORETOLD = 8 * OperationTable.LIMIT;

    private final ConnectionCore connection;
    final Tags tags;
    final Sends sends;
    final Receives receives;

    /// What the peer said of positions that this side has not come to: adverts, withdrawals, ends.
    int foretold;

    Matcher(ConnectionCore connection, Outbound outbound) {
        this.connection = connection;
        this.tags = new Tags(connection, outbound, this);
        this.sends = new Sends(connection, outbound, this);
        this.receives = new Receives(connection, outbound, this);
    }

    /// A channel can be used again: starts what was posted meanwhile.
    void goOn(TagChannel channel) {
        if (!sends.startWaiting(channel)) {
            sends.starve(channel);
        }
        Operation op;
        while ((op = channel.posted.pollFirst()) != null) {
            if (op.isPending()) {
                receives.place(channel, op);
            }
        }
    }

    /// Whether a device may store the bytes where they belong: then they do not travel as a
    /// message, which two copies with a host's help would be.
    boolean goesDirect(Operation op) {
        return op.isOnDevice() && connection.oneSided.links.areThere();
    }

    /// Counts one more of what the peer foretells: no more than a patient program ever has.
    boolean mayForetell() {
        if (foretold >= MOST_FORETOLD) {
            connection.violated("too much about messages that nobody has come to");
            return false;
        }
        foretold++;
        return true;
    }

    /// Gives a frame tag and position of an operation. Until it is confirmed the tag is in use.
    static ControlFrame naming(Operation op, ControlFrame frame) {
        TagChannel channel = op.channel;
        if (channel == null) {
            throw new IllegalStateException("a message without a channel");
        }
        return channel.enter(frame).with(Frame.A, op.tag).with(Frame.B, op.position);
    }
}
