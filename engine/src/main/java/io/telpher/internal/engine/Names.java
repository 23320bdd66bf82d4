package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.time.Duration;

/// Names between the two endpoints of a connection: asks the peer for its published memory, and
/// answers what the peer asks for out of the endpoint's names. A question is an operation of the
/// table, so that it has a deadline and ends with the connection.
///
/// Guarded by the connection's lock, which lanes hold when they bring a frame and which callers
/// must not hold.
final class Names {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final OperationTable table;
    private final Outbound outbound;

    Names(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.table = connection.table;
        this.outbound = connection.outbound;
    }

    /// Asks the peer for what it has published, or will have in time; blocks.
    ///
    /// @param name what is asked for, in bytes, and as a text for messages
    RemoteMemory lookup(byte[] name, String text, Duration atMost) {
        Operation op = null;
        lock.lock();
        try {
            TelpherException over = connection.failure();
            if (over != null) {
                throw over;
            }
            op = table.take();
            if (op == null) {
                throw new IllegalStateException("too many operations are in flight");
            }
            op.kind = Operation.Kind.LOOKUP;
            op.allow(Math.max(0, atMost.toNanos()));
            op.setState(Operation.PENDING);
            ControlFrame frame = outbound.control(Frame.LOOKUP, 0, 0, op.token());
            frame.payload(name);
            outbound.enqueue(frame);
        } finally {
            lock.unlock();
        }
        Operation posted = op;
        connection.afterwards();
        connection.endpoint().progress().keepTime(connection);
        try {
            connection.waiters.waitFor(() -> posted.state() == Operation.ENDED, Long.MAX_VALUE);
        } catch (TelpherException interrupted) {
            lock.lock();
            try {
                if (posted.state() == Operation.ENDED) {
                    table.release(posted);
                } else {
                    posted.orphaned = true;
                    connection.endings.revokeLater(posted, Connection.CANCELLED, "");
                }
            } finally {
                lock.unlock();
            }
            connection.afterwards();
            throw interrupted;
        }
        lock.lock();
        try {
            RemoteMemory found = posted.found;
            TelpherException error = posted.error;
            int reason = posted.reason;
            table.release(posted);
            if (found != null) {
                return found;
            }
            if (reason == Connection.TIMED_OUT || error == null) {
                throw new TelpherException.TimedOut(
                        "%s did not publish '%s' within %s"
                                .formatted(connection.peerText(), text, Failures.seconds(atMost)));
            }
            throw error;
        } finally {
            lock.unlock();
        }
    }

    /// The peer asks for a name. Under the lock.
    void asked(long token, String name) {
        RemoteMemory memory = connection.endpoint().directory().find(name, connection, token);
        if (memory != null) {
            answer(token, memory);
        }
    }

    /// What the peer has asked for was published: the answer waits for the next turn. Without the
    /// lock.
    void published(long token, RemoteMemory memory) {
        lock.lock();
        try {
            answer(token, memory);
        } finally {
            lock.unlock();
        }
    }

    private void answer(long token, RemoteMemory memory) {
        ControlFrame frame = outbound.control(Frame.FOUND, 0, 0, token);
        frame.payload(memory.toBytes());
        outbound.enqueue(frame);
    }

    /// The peer has answered. Under the lock.
    void found(long token, RemoteMemory memory) {
        Operation op = table.find(token);
        if (op != null && op.kind == Operation.Kind.LOOKUP && op.isPending()) {
            op.found = memory;
            connection.endings.finish(op, Connection.DONE);
        }
    }
}
