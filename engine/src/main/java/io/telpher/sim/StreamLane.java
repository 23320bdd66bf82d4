package io.telpher.sim;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A lane over a stream: frames in pieces, as TCP carries them. What of a payload the stream has no
/// room for stays in its owner's memory until a flush takes it.
final class StreamLane implements Lane {
    private final StreamEnd end;
    private final SimProcess process;
    private final int maxPayload;
    private final Faulty faulty;

    // The frame that is going out.
    private final MemorySegment outHeader = MemorySegment.ofArray(new byte[HEADER]);
    private int headerSent = HEADER;
    private MemorySegment outPayload = MemorySegment.NULL;
    private long outAt;
    private int outLeft;
    private @Nullable Object outOwner;

    // The frame that is coming in.
    private final MemorySegment inHeader = MemorySegment.ofArray(new byte[HEADER]);
    private int headerRead;
    private final Placement placement = new Placement();
    private MemorySegment buffer = MemorySegment.NULL;
    private boolean inside;
    private int length;
    private int done;
    private @Nullable String failure;

    StreamLane(StreamEnd end) {
        this.end = end;
        this.process = end.process();
        this.maxPayload = end.stream().link().options().maxPayload();
        this.faulty = new Faulty(process.simulation());
    }

    @Override
    public String path() {
        return "sim";
    }

    @Override
    public String text() {
        return end.stream().name();
    }

    @Override
    public int maxPayload() {
        return maxPayload;
    }

    @Override
    public int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int bytes,
            @Nullable Object owner) {
        process.scheduler().preempt();
        if (failure() != null) {
            return DEAD;
        }
        if (isLeftOver() && flush() != OK) {
            return failure() != null ? DEAD : FULL;
        }
        if (bytes > 0) {
            // Throws when the payload's arena is closed.
            payload.get(java.lang.foreign.ValueLayout.JAVA_BYTE, offset);
        }
        SimTransport.log(process, "sends", header, at, end.stream());
        if (faulty.loses()) {
            return OK;
        }
        int copies = faulty.doubles() ? 2 : 1;
        for (int i = 0; i < copies; i++) {
            faulty.copyHeader(header, at, outHeader);
            headerSent = 0;
            outPayload = payload;
            outAt = offset;
            outLeft = bytes;
            outOwner = owner;
            push();
            if (i + 1 < copies && isLeftOver()) {
                break;
            }
        }
        return OK;
    }

    private boolean isLeftOver() {
        return headerSent < HEADER || outLeft > 0;
    }

    private void push() {
        Pipe pipe = end.out();
        if (headerSent < HEADER) {
            headerSent += pipe.write(outHeader, headerSent, HEADER - headerSent);
        }
        if (headerSent == HEADER && outLeft > 0) {
            int n = pipe.write(faulty.flipped(outPayload, outAt, outLeft), outAt, outLeft);
            outAt += n;
            outLeft -= n;
        }
        if (outLeft == 0) {
            outPayload = MemorySegment.NULL;
            outOwner = null;
        }
    }

    @Override
    public int flush() {
        process.scheduler().preempt();
        if (failure() != null) {
            return DEAD;
        }
        if (isLeftOver()) {
            try {
                push();
            } catch (IllegalStateException e) {
                failure = "the payload's memory was closed in the middle of a frame";
                return DEAD;
            }
        }
        return isLeftOver() ? FULL : OK;
    }

    @Override
    public void releaseOutbound(Object owner) {
        if (outLeft > 0 && outOwner == owner) {
            MemorySegment copy = MemorySegment.ofArray(new byte[outLeft]);
            MemorySegment.copy(outPayload, outAt, copy, 0, outLeft);
            outPayload = copy;
            outAt = 0;
            outOwner = null;
        }
    }

    @Override
    public int poll(Receiver receiver, int limit) {
        process.scheduler().preempt();
        if (failure != null) {
            return DEAD;
        }
        int frames = 0;
        Pipe pipe = end.in();
        while (frames < limit) {
            if (!inside) {
                if (!takeHeader(pipe)) {
                    break;
                }
                length = Frame.length(inHeader, 0);
                done = 0;
                placement.discard();
                if (!receiver.begin(inHeader, 0, placement)) {
                    failure = "the peer sent a frame header that makes no sense";
                    return DEAD;
                }
                inside = true;
            }
            if (!takePayload(pipe)) {
                break;
            }
            process.scheduler().preempt();
            inside = false;
            headerRead = 0;
            SimTransport.log(process, "takes", inHeader, 0, end.stream());
            receiver.end(inHeader, 0, buffer, 0, placement);
            faulty.scribble(placement);
            frames++;
        }
        if (frames == 0 && failure() != null) {
            return DEAD;
        }
        if (frames == 0 && pipe.isAtEnd()) {
            failure = "the peer closed it";
            return DEAD;
        }
        return frames;
    }

    private boolean takeHeader(Pipe pipe) {
        while (headerRead < HEADER) {
            int n = pipe.read(inHeader, headerRead, HEADER - headerRead);
            if (n == 0) {
                return false;
            }
            headerRead += n;
        }
        return true;
    }

    /// @return whether all of it is there
    private boolean takePayload(Pipe pipe) {
        while (done < length) {
            @Nullable MemorySegment to; // null: thrown away
            long at;
            switch (placement.mode()) {
                case INTO -> {
                    to = placement.segment();
                    at = placement.offset() + done;
                }
                case BUFFER -> {
                    if (buffer.byteSize() < length) {
                        buffer = MemorySegment.ofArray(new byte[maxPayload]);
                    }
                    to = buffer;
                    at = done;
                }
                default -> {
                    to = null;
                    at = 0;
                }
            }
            int n;
            try {
                n = pipe.read(to, at, length - done);
            } catch (IllegalStateException e) {
                Object owner = placement.owner();
                if (owner == null || !placement.revoke(owner)) {
                    throw e;
                }
                continue;
            }
            if (n == 0) {
                return false;
            }
            done += n;
        }
        return true;
    }

    @Override
    public void discardInbound(Object owner) {
        if (inside) {
            boolean unused = placement.revoke(owner);
        }
    }

    @Override
    public int descriptor() {
        return end.descriptor();
    }

    @Override
    public boolean wantsWrite() {
        return isLeftOver();
    }

    @Override
    public boolean park() {
        process.scheduler().preempt();
        return failure() == null && end.in().available() == 0 && !end.in().isAtEnd();
    }

    @Override
    public void unpark() {
        // The descriptor is level-triggered: there is nothing to take back.
    }

    @Override
    public long silence() {
        return end.out().silence();
    }

    @Override
    public @Nullable String failure() {
        return failure != null ? failure : end.failure();
    }

    @Override
    public void close() {
        if (failure == null) {
            failure = "closed";
        }
        end.close();
    }
}
