package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Lane;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A lane over one queue pair, with a stream beside it that tells of the peer's end. The send token
/// guards [RingOutput], the poll token [RingInput] and the stream.
final class VerbsLane implements Lane {
    /// The stream is looked at once in so many polls, a power of two: it costs a system call.
    private static final int LOOK = 1024;

    static final String PATH = "verbs-ring";

    private final String text;
    private final RingPair rings;
    private final QueuePair queuePair;
    private final ControlStream control;

    /// One-sided transfers, or null where one of the sides does not make them.
    private final @Nullable VerbsWindows windows;

    private final RingOutput output;
    private final RingInput input;

    /// Readable when the completion channel or the stream is, or the device has failed.
    private final int epoll;

    private int polls;

    /// A notification was asked for, and its event not taken yet. Under the poll token.
    private boolean asked;

    /// How the stream ended; what the peer had written before is taken in first. Under the poll
    /// token.
    private @Nullable String ended;

    /// @param rings connected; belongs to the lane from now on, also when this fails
    /// @param control the stream; as `rings`
    /// @param windows as `rings`, or null
    VerbsLane(RingPair rings, Offer peer, ControlStream control, @Nullable VerbsWindows windows) {
        this.rings = rings;
        this.queuePair = rings.queuePair();
        this.control = control;
        this.windows = windows;
        this.text = queuePair.rail() + " - " + Rail.text(peer.gid());
        this.epoll = Epoll.create();
        boolean made = false;
        try {
            watch(epoll, queuePair.descriptor());
            watch(epoll, queuePair.alarm());
            watch(epoll, control.descriptor());
            this.output = rings.output(peer);
            this.input = rings.input(output);
            if (windows != null) {
                windows.watch(descriptor -> watch(epoll, descriptor));
            }
            made = true;
        } finally {
            if (!made) {
                free();
            }
        }
    }

    private static void watch(int epoll, int descriptor) {
        if (epoll < 0) {
            throw Errno.failure(epoll, "epoll_create1");
        }
        int result = Epoll.add(epoll, descriptor, Epoll.EPOLLIN | Epoll.EPOLLRDHUP, 0);
        if (result < 0) {
            throw Errno.failure(result, "epoll_ctl", "ADD", descriptor);
        }
    }

    @Override
    public String path() {
        return PATH;
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
        VerbsWindows own = windows;
        if (own != null) {
            own.poll();
        }
        int frames = input.poll(receiver, limit);
        if (frames > 0 && own != null) {
            own.heard();
        }
        if ((++polls & LOOK - 1) == 0 || control.isBehind()) {
            look();
        }
        String why = ended;
        if (frames == 0 && why != null) {
            queuePair.fail(why);
            return DEAD;
        }
        return frames;
    }

    /// Looks what the stream brings, and whether it is still there.
    private void look() {
        if (ended == null && !control.look()) {
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
                && (windows == null || windows.park())
                && control.park();
    }

    @Override
    public void unpark() {
        takeEvents();
        VerbsWindows own = windows;
        if (own != null) {
            own.unpark();
        }
        look();
    }

    private void takeEvents() {
        asked = false;
        queuePair.takeEvents();
    }

    /// The longest of three: the rings', the one-sided transfers', and the stream's.
    @Override
    public long silence() {
        VerbsWindows own = windows;
        long posted = Math.max(output.silence(), own == null ? 0 : own.silence());
        return Math.max(posted, control.silence());
    }

    @Override
    public long patience() {
        return queuePair.repeatNanos();
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
            VerbsWindows own = windows;
            if (own != null) {
                own.close();
            }
        } finally {
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
    }
}
