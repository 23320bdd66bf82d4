package io.telpher.sim;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.lang.foreign.MemorySegment;

/// A stream before it becomes a lane.
final class SimChannel implements Channel {
    private final StreamEnd end;
    private boolean detached;

    SimChannel(StreamEnd end) {
        this.end = end;
    }

    @Override
    public void send(byte[] bytes, Deadline deadline) {
        MemorySegment from = MemorySegment.ofArray(bytes);
        int sent = 0;
        while (true) {
            checkUsable();
            sent += end.out().write(from, sent, bytes.length - sent);
            if (sent == bytes.length) {
                return;
            }
            await(deadline, "sending");
        }
    }

    @Override
    public byte[] receive(int length, Deadline deadline) {
        byte[] bytes = new byte[length];
        MemorySegment to = MemorySegment.ofArray(bytes);
        int received = 0;
        while (true) {
            checkUsable();
            int n;
            do {
                n = end.in().read(to, received, length - received);
                received += n;
            } while (n > 0);
            if (received == length) {
                return bytes;
            }
            if (end.in().isAtEnd()) {
                throw new TelpherException.PeerLost(
                        "%s: the peer closed it after %d of %d bytes"
                                .formatted(text(), received, length));
            }
            await(deadline, "receiving");
        }
    }

    private void checkUsable() {
        if (detached || end.isClosed()) {
            throw new TelpherException.Closed(text() + " is closed");
        }
        String failure = end.failure();
        if (failure != null) {
            throw new TelpherException.PeerLost(text() + ": " + failure);
        }
    }

    private void await(Deadline deadline, String verb) {
        if (deadline.passed()) {
            throw new TelpherException.TimedOut(text() + ": the deadline passed while " + verb);
        }
        end.await(deadline.left());
    }

    SimLink link() {
        return end.stream().link();
    }

    /// Takes the stream out: closing the channel does nothing from here on.
    StreamEnd detach() {
        checkUsable();
        detached = true;
        return end;
    }

    @Override
    public String text() {
        return end.stream().name();
    }

    @Override
    public void close() {
        if (!detached) {
            end.close();
        }
    }
}
