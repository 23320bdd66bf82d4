package io.telpher.internal.transport.verbs;

import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import org.jspecify.annotations.Nullable;

/// A stream of the control transport that is to become a lane over a pair of rails.
///
/// @param stream the stream
/// @param pair the rails, as the side that dialled wants them; null at the other side
record VerbsChannel(Channel stream, Rails.@Nullable Pair pair) implements Channel {
    @Override
    public void send(byte[] bytes, Deadline deadline) {
        stream.send(bytes, deadline);
    }

    @Override
    public byte[] receive(int length, Deadline deadline) {
        return stream.receive(length, deadline);
    }

    @Override
    public String text() {
        return pair == null ? "verbs by " + stream.text() : pair.text();
    }

    @Override
    public void close() {
        stream.close();
    }
}
