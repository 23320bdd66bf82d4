package io.telpher.cli.bench;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// Carries [Message]s between the driver and one other rank, beside the connection that is
/// measured. Each side is used by one thread.
interface Control extends AutoCloseable {
    /// Sends a message.
    void send(Message message);

    /// Sends a message to somebody who may be gone or stand still: waits a few seconds at most.
    default void sendLast(Message message) {
        send(message);
    }

    /// @return whether [#receive] would return at once; cheap, makes progress
    boolean ready();

    /// Waits for a message.
    ///
    /// @throws BenchFailure when none came in time, or the other side is gone
    Message receive(Duration atMost);

    /// Takes an answer.
    ///
    /// @throws BenchFailure when it is not what is expected; with its text when it tells a failure
    default Message expect(String verb, Duration atMost) {
        Message message = receive(atMost);
        if (message.verb().equals("failed")) {
            throw new BenchFailure(message.text("error"));
        }
        if (!message.verb().equals(verb)) {
            throw new BenchFailure(
                    "'%s' came where '%s' was expected".formatted(message.verb(), verb));
        }
        return message;
    }

    /// Waits for a message as long as the other side lives, without using the processor.
    ///
    /// @return null when the other side is gone
    @Nullable Message next();

    @Override
    void close();
}
