package io.telpher.cli.soak;

import io.telpher.Connection;
import io.telpher.Transfer;
import java.time.Duration;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// An operation in flight, of either style. Used by one thread.
final class Flight {
    /// How it must end.
    enum Limit {
        /// Well before the endpoint's deadline: whatever stands still until then is a failure.
        SOON,
        /// A deadline of its own, which it may miss.
        ITS_OWN,
        /// Whenever the other end does its part.
        OPEN
    }

    /// What it is.
    enum Kind {
        ONE_SIDED,
        SEND,
        RECEIVE,
        NOTE
    }

    private final Kind kind;
    private final String text;
    private final Limit limit;
    private final @Nullable Transfer transfer;
    private final Connection connection;
    private final long token;
    private final Consumer<Outcome> end;
    private boolean cancelled;
    private long postedAt;

    private Flight(
            Kind kind,
            String text,
            Limit limit,
            @Nullable Transfer transfer,
            Connection connection,
            long token,
            Consumer<Outcome> end) {
        this.kind = kind;
        this.text = text;
        this.limit = limit;
        this.transfer = transfer;
        this.connection = connection;
        this.token = token;
        this.end = end;
        this.postedAt = System.nanoTime();
    }

    static Flight of(
            Kind kind,
            String text,
            Limit limit,
            Transfer transfer,
            Connection on,
            Consumer<Outcome> end) {
        return new Flight(kind, text, limit, transfer, on, 0, end);
    }

    /// @param token from a `try` method, not a reason
    static Flight of(
            Kind kind, String text, Limit limit, long token, Connection on, Consumer<Outcome> end) {
        return new Flight(kind, text, limit, null, on, token, end);
    }

    /// @return how it has ended, or null
    @Nullable Outcome poll() {
        if (transfer != null) {
            return transfer.poll().isTerminal() ? Outcome.of(transfer) : null;
        }
        int result = connection.poll(token);
        return result == Connection.PENDING
                ? null
                : Outcome.of(
                        result, token == Connection.ALREADY_DONE ? 0 : connection.bytesMoved());
    }

    /// Waits a little while, in the engine.
    void await(Duration atMost) {
        if (transfer == null) {
            connection.poll();
        } else {
            boolean unused = transfer.await(atMost);
        }
    }

    void cancel() {
        if (transfer != null) {
            boolean unused = transfer.cancel();
            cancelled = true;
        }
    }

    void ended(Outcome outcome) {
        end.accept(outcome);
    }

    boolean wasCancelled() {
        return cancelled;
    }

    Kind kind() {
        return kind;
    }

    Limit limit() {
        return limit;
    }

    /// @return nanoseconds since it was posted, without the time that this process stood still
    long age(long now) {
        return now - postedAt;
    }

    /// This process stood still: that does not count.
    void excuse(long nanos) {
        postedAt += nanos;
    }

    @Override
    public String toString() {
        return text;
    }
}
