package io.telpher.cli.bench;

import io.telpher.Connection;
import io.telpher.Notification;
import io.telpher.TelpherException;
import io.telpher.TransferOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// A control over notifications of a Telpher connection of its own, for processes on two machines.
final class ConnectionControl implements Control {
    private static final Duration PATIENCE = Duration.ofHours(1);
    private static final Duration LAST = Duration.ofSeconds(3);

    private final Connection connection;
    private @Nullable Notification waiting;

    ConnectionControl(Connection connection) {
        this.connection = connection;
    }

    @Override
    public void send(Message message) {
        send(message, TransferOptions.DEFAULTS);
    }

    @Override
    public void sendLast(Message message) {
        send(message, TransferOptions.DEFAULTS.withDeadline(LAST));
    }

    private void send(Message message, TransferOptions options) {
        byte[] bytes = message.encode();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment payload = arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes);
            connection.notifyPeer(payload, options).await();
        }
    }

    @Override
    public boolean ready() {
        if (waiting == null) {
            waiting = connection.pollNotification();
        }
        return waiting != null || !connection.isOpen();
    }

    @Override
    public Message receive(Duration atMost) {
        try {
            return Message.decode(take(atMost).payload());
        } catch (TelpherException.TimedOut e) {
            throw new BenchFailure(
                    "the other machine has not answered for " + atMost.toSeconds() + " s", e);
        } catch (TelpherException e) {
            throw new BenchFailure("the control connection ended: " + e.getMessage(), e);
        }
    }

    @Override
    public @Nullable Message next() {
        try {
            return Message.decode(take(PATIENCE).payload());
        } catch (TelpherException.PeerLost | TelpherException.Closed e) {
            return null;
        }
    }

    private Notification take(Duration atMost) {
        Notification first = waiting;
        waiting = null;
        return first != null ? first : connection.awaitNotification(atMost);
    }

    @Override
    public void close() {
        connection.close();
    }
}
