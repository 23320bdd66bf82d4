package io.telpher.cli.bench;

import org.jspecify.annotations.Nullable;

/// What a rank found in its memory after a [Phase], and what the phase cost it.
///
/// @param wrong bytes that are not what they should be
/// @param first says where the first of them is, or null
/// @param cpuNanos processor time of the rank's process from the phase's start to its end
record Verdict(long wrong, @Nullable String first, long cpuNanos) {
    Message encode() {
        Message message = Message.of("verdict").with("wrong", wrong).with("cpu", cpuNanos);
        return first == null ? message : message.with("first", first);
    }

    static Verdict decode(Message message) {
        return new Verdict(
                message.number("wrong"),
                message.has("first") ? message.text("first") : null,
                message.number("cpu"));
    }
}
