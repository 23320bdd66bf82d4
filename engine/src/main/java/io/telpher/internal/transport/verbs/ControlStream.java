package io.telpher.internal.transport.verbs;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// The stream beside a link's queue pairs: tells of the peer's end, and carries [ControlMessage]s.
///
/// Messages are sent on any thread; what does not fit into the stream waits for the next look.
/// Everything else belongs to the holder of the lane's poll token.
final class ControlStream implements Receiver {
    /// Who gets the peer's messages, on the thread that looks; must not block.
    interface Handler {
        /// @return false when it makes no sense: the stream ends
        boolean take(ControlMessage message);
    }

    /// Messages taken in at a time: a flood must not keep the thread.
    private static final int BATCH = 64;

    /// What a peer that keeps to its limits has asked for at a time: each side asks for so many
    /// regions, and offers a queue pair for each index, before it has an answer.
    static final int MOST_OWED = RegionQuestions.MOST + ActivePairs.COUNT;

    private final Lane stream;
    private volatile Handler handler = message -> false;

    /// Messages that did not fit; guarded by this, as sending is.
    private final ArrayDeque<ControlMessage> left = new ArrayDeque<>();

    private boolean closed;

    /// Answers that the peer waits for. One that the stream takes is counted no more before: the
    /// peer may ask anew as soon as it has it.
    private final AtomicInteger owed = new AtomicInteger();

    /// Whether something waits; read without the monitor.
    private volatile boolean owing;

    /// Why what came made no sense. Under the poll token.
    private @Nullable String violation;

    /// The last look may have left something behind. Under the poll token.
    private boolean more;

    /// @param stream a lane of the transport of streams; belongs to this from now on
    ControlStream(Lane stream) {
        this.stream = stream;
    }

    /// Messages are taken from here on; before that any is a violation.
    void handle(Handler by) {
        handler = by;
    }

    int descriptor() {
        return stream.descriptor();
    }

    /// Sends a message, in the order of the calls; thrown away when the stream is over.
    synchronized void send(ControlMessage message) {
        left.addLast(message);
        push();
    }

    /// The peer asks for something: [#send] gets the answer, whatever it is.
    ///
    /// @return false when the peer has asked for more than it may before it has answers
    boolean owe() {
        return owed.incrementAndGet() <= MOST_OWED;
    }

    private static boolean isAnswer(ControlMessage message) {
        return message instanceof ControlMessage.Resolved
                || message instanceof ControlMessage.Accepted;
    }

    private synchronized void push() {
        ControlMessage next;
        while (!closed && (next = left.peekFirst()) != null) {
            byte[] bytes = next.encode();
            MemorySegment frame = MemorySegment.ofArray(bytes);
            int payload = bytes.length - Lane.HEADER;
            boolean answer = isAnswer(next);
            if (answer) {
                owed.decrementAndGet();
            }
            int result = stream.send(frame, 0, frame, Lane.HEADER, payload, null);
            if (answer && result != Lane.OK) {
                owed.incrementAndGet();
            }
            if (result == Lane.FULL && stream.flush() == Lane.OK) {
                continue;
            }
            if (result != Lane.OK) {
                break; // full, or dead: then nothing has to be sent any more
            }
            left.removeFirst();
        }
        owing = !closed && stream.flush() == Lane.FULL;
    }

    /// Takes in what the peer has sent.
    ///
    /// @return whether the stream is still there
    boolean look() {
        if (owing) {
            push();
        }
        int frames = stream.poll(this, BATCH);
        more = frames == BATCH;
        return frames != Lane.DEAD && violation == null;
    }

    /// @return whether [#look] has to come again without anything that tells of it
    boolean isBehind() {
        return more;
    }

    @Nullable String failure() {
        return violation != null ? violation : stream.failure();
    }

    /// @return false when there is something to do first
    boolean park() {
        return !owing && !more && stream.park();
    }

    long silence() {
        return stream.silence();
    }

    synchronized void close() {
        closed = true;
        left.clear();
        stream.close();
    }

    @Override
    public boolean begin(MemorySegment header, long at, Placement placement) {
        if (Frame.length(header, at) > ControlMessage.MOST_REASON) {
            return false;
        }
        placement.buffer();
        return violation == null;
    }

    @Override
    public void end(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long payloadAt,
            Placement placement) {
        int length = Frame.length(header, at);
        byte[] frame = new byte[Lane.HEADER + length];
        MemorySegment.copy(header, ValueLayout.JAVA_BYTE, at, frame, 0, Lane.HEADER);
        MemorySegment.copy(payload, ValueLayout.JAVA_BYTE, payloadAt, frame, Lane.HEADER, length);
        ControlMessage message = ControlMessage.decode(frame);
        if (message == null || !handler.take(message)) {
            violation =
                    "protocol: the peer sent a control message that makes no sense, or too many";
        }
    }
}
