package io.telpher.cli.bench;

import java.util.Locale;

/// One uninterrupted loop of a measurement, between filling the buffers and checking them.
///
/// @param op the operation
/// @param bytes the whole operation
/// @param pieces how many pieces it is cut into
/// @param depth operations in flight per target
/// @param shape which loop
/// @param place whether operations share one buffer
/// @param style how operations are posted
/// @param count operations of each initiator, or [Long#MAX_VALUE] when the time decides
/// @param seconds how long initiators post, when the time decides
/// @param group operations that are timed together, so that reading the clock does not distort
///     short ones
/// @param mask which operations are timed when many are in flight: those whose number has none of
///     its bits
/// @param round what the contents depend on
record Phase(
        Op op,
        long bytes,
        int pieces,
        int depth,
        Shape shape,
        Place place,
        Style style,
        long count,
        double seconds,
        int group,
        int mask,
        long round) {
    /// The loop.
    enum Shape {
        /// One at a time; messages are answered.
        PING_PONG,
        /// As many in flight as the depth allows.
        STREAM
    }

    /// Where operations put their bytes.
    enum Place {
        /// All use the same buffer, as other benchmarks do: it stays in the caches when it fits.
        SHARED,
        /// Every operation in flight has a buffer of its own, so that each is checked.
        APART
    }

    /// How operations are posted.
    enum Style {
        /// `try` methods and tokens.
        TOKEN,
        /// Prepared transfers, posted again and again.
        PREPARED,
        /// The same, all that may be in flight as one list, the next list when all have ended.
        LIST
    }

    boolean timed() {
        return count == Long.MAX_VALUE;
    }

    /// @return whether operations go through [io.telpher.Transfer]: the token methods know neither
    ///     pieces nor counters
    boolean prepared() {
        return style != Style.TOKEN || pieces > 1 || op == Op.COUNTER;
    }

    /// @return how many buffers of their own a rank's operations have
    int spread() {
        return place == Place.SHARED ? 1 : depth;
    }

    /// @return bytes from one operation's buffer to the next
    long spacing() {
        return place == Place.SHARED ? 0 : (bytes + 7) & -8L;
    }

    Message encode() {
        return Message.of("prepare")
                .with("op", op.word())
                .with("bytes", bytes)
                .with("pieces", pieces)
                .with("depth", depth)
                .with("shape", shape)
                .with("place", place)
                .with("style", style)
                .with("count", count)
                .with("seconds", seconds)
                .with("group", group)
                .with("mask", mask)
                .with("round", round);
    }

    static Phase decode(Message message) {
        return new Phase(
                Op.parse(message.text("op")),
                message.number("bytes"),
                (int) message.number("pieces"),
                (int) message.number("depth"),
                Shape.valueOf(message.text("shape")),
                Place.valueOf(message.text("place")),
                Style.valueOf(message.text("style")),
                message.number("count"),
                message.decimal("seconds"),
                (int) message.number("group"),
                (int) message.number("mask"),
                message.number("round"));
    }

    @Override
    public String toString() {
        return "%s of %s, %s"
                .formatted(op.word(), Sizes.format(bytes), shape.name().toLowerCase(Locale.ROOT));
    }
}
