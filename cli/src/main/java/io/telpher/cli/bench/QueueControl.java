package io.telpher.cli.bench;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/// A control between two threads of one process, for the path `self`.
final class QueueControl implements Control {
    private static final Message END = Message.of("end-of-control");

    private final BlockingQueue<Message> in;
    private final BlockingQueue<Message> out;

    private QueueControl(BlockingQueue<Message> in, BlockingQueue<Message> out) {
        this.in = in;
        this.out = out;
    }

    /// @return both ends
    static Control[] pair() {
        BlockingQueue<Message> one = new LinkedBlockingQueue<>();
        BlockingQueue<Message> other = new LinkedBlockingQueue<>();
        return new Control[] {new QueueControl(one, other), new QueueControl(other, one)};
    }

    @Override
    public void send(Message message) {
        out.add(message);
    }

    @Override
    public boolean ready() {
        return !in.isEmpty();
    }

    @Override
    public Message receive(Duration atMost) {
        try {
            Message message = in.poll(atMost.toNanos(), TimeUnit.NANOSECONDS);
            if (message == null) {
                throw new BenchFailure(
                        "another thread of this run has not answered for "
                                + atMost.toSeconds()
                                + " s");
            }
            if (message == END) {
                throw new BenchFailure("another thread of this run has ended");
            }
            return message;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new BenchFailure("interrupted", e);
        }
    }

    @Override
    public @Nullable Message next() {
        try {
            Message message = in.take();
            return message == END ? null : message;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    @Override
    public void close() {
        out.add(END);
    }
}
