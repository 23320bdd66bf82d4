package io.telpher.sim;

import org.jspecify.annotations.Nullable;

/// One process's end of a stream: what a socket is.
final class StreamEnd implements SimProcess.Pollable {
    private final Stream stream;
    private final SimProcess process;
    private final int side;
    private final int descriptor;

    /// What its side says of receives.
    final SimAdverts.Said said = new SimAdverts.Said();

    private @Nullable Pipe in;
    private @Nullable Pipe out;
    private @Nullable String failure;
    private boolean closed;
    private boolean vanished;
    private long vanishedSince = Long.MAX_VALUE;
    private @Nullable Thread waiter;
    private @Nullable RingLane lane;

    /// @param side 0 for the one that dialled
    StreamEnd(Stream stream, SimProcess process, int side) {
        this.stream = stream;
        this.process = process;
        this.side = side;
        this.descriptor = process.open(this);
        process.add(this);
    }

    void connect(Pipe inbound, Pipe outbound) {
        in = inbound;
        out = outbound;
    }

    Pipe in() {
        return java.util.Objects.requireNonNull(in);
    }

    Pipe out() {
        return java.util.Objects.requireNonNull(out);
    }

    Stream stream() {
        return stream;
    }

    SimProcess process() {
        return process;
    }

    int side() {
        return side;
    }

    int descriptor() {
        return descriptor;
    }

    boolean isClosed() {
        return closed;
    }

    /// Its host is gone: it neither hears nor speaks.
    boolean isVanished() {
        return vanished;
    }

    @Nullable String failure() {
        return process.isOver() ? "its process is gone" : failure;
    }

    @Override
    public boolean isReadable() {
        return failure() != null || in().available() > 0 || in().isAtEnd();
    }

    @Override
    public boolean isWritable() {
        return failure() != null || out().room() > 0;
    }

    void lane(RingLane ring) {
        lane = ring;
    }

    void ringLane() {
        RingLane ring = lane;
        if (ring != null && !closed) {
            ring.ring();
        }
    }

    void changed() {
        if (closed) {
            return;
        }
        ringLane(); // the end of the stream is told by the doorbell, too
        Thread thread = waiter;
        if (thread != null) {
            process.unpark(thread);
        }
        process.changed(descriptor);
    }

    /// Waits until something changes or a moment.
    void await(long nanos) {
        waiter = Thread.currentThread();
        try {
            process.scheduler().park(nanos);
        } finally {
            waiter = null;
        }
    }

    /// The stream broke: this side learns it now.
    void fail(String why) {
        if (failure == null && !closed && !vanished) {
            failure = why;
            process.scheduler().log(process.name(), stream.name() + " ended: " + why);
            changed();
        }
    }

    /// Closes this end; the peer learns it after the bytes that were written.
    void close() {
        if (closed) {
            return;
        }
        closed = true;
        process.scheduler().log(process.name(), "closes " + stream.name());
        process.remove(this);
        process.close(descriptor);
        if (!vanished) {
            out().end();
        }
        stream.closed();
    }

    void vanish() {
        vanished = true;
        vanishedSince = process.scheduler().now();
    }

    /// @return when it vanished, the end of time when it has not
    long vanishedSince() {
        return vanishedSince;
    }
}
