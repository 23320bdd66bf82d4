package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A lane over one queue pair, with a stream beside it that tells of the peer's end. The send token
/// guards [RingOutput], the poll token [RingInput] and the stream.
final class VerbsLane implements Lane {
    /// The stream is looked at once in so many polls that bring nothing: it costs a system call.
    private static final int LOOK = 1024;

    private final String text;
    private final RingPair rings;
    private final QueuePair queuePair;
    private final Lane control;
    private final RingOutput output;
    private final RingInput input;
    private final Nothing nothing = new Nothing();

    /// Readable when the completion channel or the stream is, or the device has failed.
    private final int epoll;

    private int idlePolls;

    /// A notification was asked for, and its event not taken yet. Under the poll token.
    private boolean asked;

    /// How the stream ended; what the peer had written before is taken in first. Under the poll
    /// token.
    private @Nullable String ended;

    /// @param rings connected; belongs to the lane from now on, also when this fails
    /// @param control the stream; as `rings`
    VerbsLane(RingPair rings, Offer peer, Lane control) {
        this.rings = rings;
        this.queuePair = rings.queuePair();
        this.control = control;
        this.text = queuePair.rail() + " - " + Rail.text(peer.gid());
        this.epoll = Epoll.create();
        boolean made = false;
        try {
            watch(epoll, queuePair.descriptor());
            watch(epoll, queuePair.alarm());
            watch(epoll, control.descriptor());
            this.output = rings.output(peer);
            this.input = rings.input(output);
            made = true;
        } finally {
            if (!made) {
                free();
            }
        }
    }

    private static void watch(int epoll, int descriptor) {
        int result =
                epoll < 0
                        ? epoll
                        : Epoll.add(epoll, descriptor, Epoll.EPOLLIN | Epoll.EPOLLRDHUP, 0);
        if (result < 0) {
            throw new TelpherException.NativeFailure(
                    "epoll of a verbs lane", -result, Errno.describe(result));
        }
    }

    @Override
    public String path() {
        return "verbs";
    }

    @Override
    public String text() {
        return text;
    }

    @Override
    public int maxPayload() {
        return Ring.MAX_PAYLOAD;
    }

    @Override
    public int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            @Nullable Object owner) {
        return output.send(header, at, payload, offset, length);
    }

    @Override
    public int flush() {
        return output.flush();
    }

    @Override
    public boolean isDrained() {
        return !output.isOwed() || queuePair.failure() != null;
    }

    @Override
    public void releaseOutbound(Object owner) {
        // send() copies the payload at once.
    }

    @Override
    public int poll(Receiver receiver, int limit) {
        int frames = input.poll(receiver, limit);
        if (frames != 0) {
            idlePolls = 0;
            return frames;
        }
        String why = ended;
        if (why != null) {
            queuePair.fail(why);
            return DEAD;
        }
        if (++idlePolls % LOOK == 0) {
            look();
        }
        return 0;
    }

    /// Looks whether the stream is still there. Nothing travels on it.
    private void look() {
        if (ended == null && control.poll(nothing, 1) == DEAD) {
            String why = control.failure();
            ended = "the control stream ended" + (why == null ? "" : ": " + why);
        }
    }

    @Override
    public void discardInbound(Object owner) {
        // A frame begins and ends within one call of poll().
    }

    @Override
    public int descriptor() {
        return epoll;
    }

    /// Room in the peer's ring is announced by a completion.
    @Override
    public boolean wantsWrite() {
        return false;
    }

    /// Asks for a notification, then looks once more: a completion is either found by the look or
    /// makes the descriptor readable.
    @Override
    public boolean park() {
        if (asked) {
            takeEvents(); // of a time when the look found something: they would pile up
        }
        asked = true;
        return queuePair.failure() == null
                && ended == null
                && queuePair.requestNotification()
                && !input.fill()
                && queuePair.failure() == null
                && !output.hasRoomSince()
                && control.park();
    }

    @Override
    public void unpark() {
        takeEvents();
        look();
    }

    private void takeEvents() {
        asked = false;
        queuePair.takeEvents();
    }

    /// The longer of two: the device's or the network's, and the stream's.
    @Override
    public long silence() {
        return Math.max(output.silence(), control.silence());
    }

    @Override
    public @Nullable String failure() {
        return queuePair.failure();
    }

    @Override
    public void close() {
        free();
    }

    /// The stream last: a peer that sees it end knows that nothing here touches its memory any
    /// more.
    private void free() {
        try {
            rings.close();
        } finally {
            try {
                control.close();
            } finally {
                if (epoll >= 0) {
                    Descriptors.close(epoll);
                }
            }
        }
    }

    /// The stream carries no frames.
    private static final class Nothing implements Receiver {
        @Override
        public boolean begin(MemorySegment header, long at, Placement placement) {
            return false;
        }

        @Override
        public void end(
                MemorySegment header,
                long at,
                MemorySegment payload,
                long payloadAt,
                Placement placement) {
            throw new IllegalStateException("a frame that was turned away has ended");
        }
    }
}
