package io.telpher.sim;

import io.telpher.spi.Lane;
import java.time.Duration;
import java.util.Objects;

/// What a link between two hosts is like.
///
/// @param style what its lanes are modelled after
/// @param latency how long bytes travel
/// @param jitter how much longer at most, drawn anew for each piece
/// @param bytesPerSecond what the link carries in each direction, shared by its lanes
/// @param lanes lanes beside the first, for bulk data
/// @param buffer bytes of one direction of one lane that may be under way or unread
/// @param maxPayload largest payload of one frame, at least 32 KiB
/// @param windows whether the peer's memory can be reached directly, as through mapped memory
public record LinkOptions(
        Style style,
        Duration latency,
        Duration jitter,
        long bytesPerSecond,
        int lanes,
        int buffer,
        int maxPayload,
        boolean windows) {
    /// What lanes are modelled after.
    public enum Style {
        /// A TCP connection: bytes in pieces, confirmation by frames.
        STREAM,
        /// A ring in shared memory: whole frames, confirmation by a word, a doorbell.
        RING
    }

    /// A stream like a good local network: 20 us, 1 GB/s, one lane.
    public static final LinkOptions DEFAULTS =
            new LinkOptions(
                    Style.STREAM,
                    Duration.ofNanos(20_000),
                    Duration.ofNanos(5_000),
                    1_000_000_000,
                    0,
                    256 << 10,
                    64 << 10,
                    false);

    /// Checks every value.
    public LinkOptions {
        Objects.requireNonNull(style, "style");
        checkNotNegative("latency", latency);
        checkNotNegative("jitter", jitter);
        check("bytesPerSecond", bytesPerSecond, 1, Long.MAX_VALUE);
        check("lanes", lanes, 0, 64);
        check("maxPayload", maxPayload, Lane.LEAST_PAYLOAD, 1 << 20);
        check("buffer", buffer, style == Style.RING ? 2L * maxPayload : 128, 1 << 30);
    }

    private static void check(String name, long value, long least, long most) {
        if (value < least || value > most) {
            throw new IllegalArgumentException(
                    "%s is %d; it must lie between %d and %d".formatted(name, value, least, most));
        }
    }

    private static void checkNotNegative(String name, Duration value) {
        if (value.isNegative()) {
            throw new IllegalArgumentException(name + " is " + value + "; it must not be negative");
        }
    }

    /// @return the same with another style
    public LinkOptions withStyle(Style value) {
        return new LinkOptions(
                value, latency, jitter, bytesPerSecond, lanes, buffer, maxPayload, windows);
    }

    /// @return the same with another latency
    public LinkOptions withLatency(Duration value) {
        return new LinkOptions(
                style, value, jitter, bytesPerSecond, lanes, buffer, maxPayload, windows);
    }

    /// @return the same with another jitter
    public LinkOptions withJitter(Duration value) {
        return new LinkOptions(
                style, latency, value, bytesPerSecond, lanes, buffer, maxPayload, windows);
    }

    /// @return the same with another rate
    public LinkOptions withBytesPerSecond(long value) {
        return new LinkOptions(style, latency, jitter, value, lanes, buffer, maxPayload, windows);
    }

    /// @return the same with another number of bulk lanes
    public LinkOptions withLanes(int value) {
        return new LinkOptions(
                style, latency, jitter, bytesPerSecond, value, buffer, maxPayload, windows);
    }

    /// @return the same with another buffer
    public LinkOptions withBuffer(int value) {
        return new LinkOptions(
                style, latency, jitter, bytesPerSecond, lanes, value, maxPayload, windows);
    }

    /// @return the same with another largest payload
    public LinkOptions withMaxPayload(int value) {
        return new LinkOptions(
                style, latency, jitter, bytesPerSecond, lanes, buffer, value, windows);
    }

    /// @return the same with or without windows
    public LinkOptions withWindows(boolean value) {
        return new LinkOptions(
                style, latency, jitter, bytesPerSecond, lanes, buffer, maxPayload, value);
    }
}
