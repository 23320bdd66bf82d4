package io.telpher.cli.soak;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.Priority;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.cli.Content;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import org.jspecify.annotations.Nullable;

/// Tagged sends and receives of one end of a conversation. A message begins with its number and its
/// length; numbers of a tag only grow, whatever is cancelled or cut off between. Used by the
/// conversation's thread.
final class Messages {
    private static final long[] SIZES = {1 << 10, 32 << 10, 256 << 10};
    private static final int EACH = 2;

    /// Receives that are always open.
    static final int RECEIVES = SIZES.length * EACH;

    private static final int HEADER = 2 * Long.BYTES;
    private static final Duration FOR_EVER = Duration.ofDays(1);

    /// Memory of one message.
    private static final class Buffer {
        final long offset;
        boolean busy;
        @Nullable Transfer prepared;

        Buffer(long offset) {
            this.offset = offset;
        }
    }

    /// A receive, in the order of posting.
    private static final class Receive {
        final Buffer buffer;
        @Nullable Outcome outcome;

        Receive(Buffer buffer) {
            this.buffer = buffer;
        }
    }

    /// What is counted for one tag.
    private static final class Tag {
        final int number;
        final long size;
        final Buffer[] out = new Buffer[EACH];
        final Buffer[] in = new Buffer[EACH];
        final Deque<Receive> open = new ArrayDeque<>();
        long sendsDone;
        long received;
        long receivesFailed;
        long last;

        Tag(int number, long size) {
            this.number = number;
            this.size = size;
        }
    }

    private final Conversation talk;
    private final Tag[] tags = new Tag[SIZES.length];
    private final MemoryRegion region;
    private final MemorySegment memory;
    private long theirSalt;
    private long saltSeen;

    Messages(Conversation talk) {
        this.talk = talk;
        long at = 0;
        for (int i = 0; i < tags.length; i++) {
            Tag tag = new Tag(i, SIZES[i]);
            for (int j = 0; j < EACH; j++) {
                tag.out[j] = new Buffer(at);
                tag.in[j] = new Buffer(at + SIZES[i]);
                at += 2 * SIZES[i];
            }
            tags[i] = tag;
        }
        if (talk.chance(50)) {
            region = talk.side.endpoint().allocate(at, io.telpher.Access.NONE);
            memory = region.segment();
        } else {
            memory = talk.arena.allocate(at, 64);
            region = talk.side.endpoint().register(memory, io.telpher.Access.NONE);
        }
    }

    // --- sends ----------------------------------------------------------------------------------

    /// Sends a message of some tag, if it has room.
    void send() {
        Tag tag = tags[talk.random.nextInt(tags.length)];
        Buffer buffer = free(tag.out);
        if (buffer == null) {
            return;
        }
        long id = talk.nextId();
        boolean again = buffer.prepared != null && talk.chance(50);
        long length = again ? tag.size : talk.length(tag.size);
        length = length == 0 ? 0 : Math.max(HEADER, length);
        Content.fill(memory, buffer.offset, length, Notes.seed(id), 0);
        if (length > 0) {
            memory.set(JAVA_LONG_UNALIGNED, buffer.offset, id);
            memory.set(JAVA_LONG_UNALIGNED, buffer.offset + Long.BYTES, length);
        }
        String text = "send %x of %d, tag %d".formatted(id, length, tag.number);
        buffer.busy = true;
        if (again) {
            Transfer transfer = java.util.Objects.requireNonNull(buffer.prepared);
            transfer.post();
            talk.fly(
                    Flight.Kind.SEND,
                    text + " again",
                    Flight.Limit.SOON,
                    transfer,
                    o -> sent(tag, buffer, o));
        } else if (talk.chance(30)) {
            long token = talk.connection.trySend(tag.number, region, buffer.offset, length);
            buffer.busy =
                    talk.flyToken(
                                    Flight.Kind.SEND,
                                    text,
                                    Flight.Limit.SOON,
                                    token,
                                    o -> sent(tag, buffer, o))
                            && buffer.busy;
        } else {
            boolean late = talk.chance(5);
            TransferOptions options = options(tag);
            options = late ? options.withDeadline(talk.shortDeadline()) : options;
            Transfer transfer =
                    talk.connection.prepareSend(tag.number, slices(buffer.offset, length), options);
            transfer.post();
            buffer.prepared = !late && length == tag.size ? transfer : buffer.prepared;
            talk.fly(
                    Flight.Kind.SEND,
                    text,
                    late ? Flight.Limit.ITS_OWN : Flight.Limit.SOON,
                    transfer,
                    o -> sent(tag, buffer, o));
        }
    }

    /// Messages of a tag have one priority, since they must come in the order of posting.
    private static TransferOptions options(Tag tag) {
        return TransferOptions.DEFAULTS.withPriority(
                tag.number == 1 ? Priority.HIGH : Priority.NORMAL);
    }

    private MemorySlices slices(long offset, long length) {
        if (length < 2 || talk.chance(70)) {
            return MemorySlices.of(region.slice(offset, length));
        }
        long cut = talk.random.nextLong(length + 1);
        return MemorySlices.of(region.slice(offset, cut), region.slice(offset + cut, length - cut));
    }

    private static @Nullable Buffer free(Buffer[] buffers) {
        for (Buffer buffer : buffers) {
            if (!buffer.busy) {
                return buffer;
            }
        }
        return null;
    }

    private void sent(Tag tag, Buffer buffer, Outcome outcome) {
        buffer.busy = false;
        if (outcome.done()) {
            tag.sendsDone++;
            talk.rank.moved(outcome.bytes());
        }
    }

    /// @return whether no send is in flight
    boolean sendsEnded() {
        for (Tag tag : tags) {
            for (Buffer buffer : tag.out) {
                if (buffer.busy) {
                    return false;
                }
            }
        }
        return true;
    }

    // --- receives -------------------------------------------------------------------------------

    /// Numbers of the other end's messages begin with this.
    void from(long salt) {
        theirSalt = salt;
        checkSalt(saltSeen);
    }

    /// Posts receives where some have ended.
    void receive() {
        for (Tag tag : tags) {
            for (Buffer buffer = free(tag.in); buffer != null; buffer = free(tag.in)) {
                if (!receive(tag, buffer)) {
                    return;
                }
            }
        }
    }

    private boolean receive(Tag tag, Buffer buffer) {
        long capacity = talk.chance(4) ? talk.length(tag.size) : tag.size;
        Content.fill(memory, buffer.offset, tag.size, poison(buffer), 0);
        Receive receive = new Receive(buffer);
        String text = "receive of %d, tag %d".formatted(capacity, tag.number);
        buffer.busy = true;
        tag.open.add(receive);
        if (talk.chance(30)) {
            // Its deadline is the endpoint's, which passes where nobody sends.
            long token = talk.connection.tryReceive(tag.number, region, buffer.offset, capacity);
            if (!talk.flyToken(
                    Flight.Kind.RECEIVE,
                    text,
                    Flight.Limit.OPEN,
                    token,
                    outcome -> received(tag, receive, outcome))) {
                tag.open.remove(receive);
                buffer.busy = false;
                return false;
            }
            return true;
        }
        Transfer transfer =
                talk.connection.receive(
                        tag.number,
                        slices(buffer.offset, capacity),
                        options(tag).withDeadline(FOR_EVER));
        talk.fly(
                Flight.Kind.RECEIVE,
                text,
                Flight.Limit.OPEN,
                transfer,
                outcome -> received(tag, receive, outcome));
        return true;
    }

    private static long poison(Buffer buffer) {
        return Content.seed(buffer.offset, 2, 0);
    }

    private void received(Tag tag, Receive receive, Outcome outcome) {
        receive.outcome = outcome;
        while (!tag.open.isEmpty() && tag.open.element().outcome != null) {
            Receive first = tag.open.remove();
            Outcome how = first.outcome;
            if (how != null && how.done()) {
                check(tag, first, how.bytes());
                tag.received++;
            } else {
                tag.receivesFailed++;
            }
            first.buffer.busy = false;
        }
    }

    private void check(Tag tag, Receive receive, long length) {
        long at = receive.buffer.offset;
        long behind =
                Content.firstWrong(
                        memory, at + length, tag.size - length, poison(receive.buffer), length);
        if (behind >= 0) {
            throw talk.wrong(
                    "a message of %d bytes changed byte %d behind its end"
                            .formatted(length, behind));
        }
        if (length == 0) {
            return;
        }
        if (length < HEADER) {
            throw talk.wrong("a message of " + length + " bytes, which nobody has sent");
        }
        long id = memory.get(JAVA_LONG_UNALIGNED, at);
        long said = memory.get(JAVA_LONG_UNALIGNED, at + Long.BYTES);
        checkSalt(id >>> 32);
        if (said != length) {
            throw talk.wrong("message %x of %d bytes came as %d bytes".formatted(id, said, length));
        }
        if (id <= tag.last) {
            throw talk.wrong(
                    "message %x came after message %x of tag %d"
                            .formatted(id, tag.last, tag.number));
        }
        tag.last = id;
        long wrong =
                Content.firstWrong(memory, at + HEADER, length - HEADER, Notes.seed(id), HEADER);
        if (wrong >= 0) {
            throw talk.wrong("byte %d of message %x is wrong".formatted(wrong + HEADER, id));
        }
    }

    private void checkSalt(long salt) {
        saltSeen = salt;
        if (theirSalt != 0 && salt != 0 && salt != theirSalt) {
            throw talk.wrong("a message of another sender: %x".formatted(salt));
        }
    }

    // --- goodbye --------------------------------------------------------------------------------

    /// @return how many sends of each tag were done
    Note bye() {
        return Note.of(Note.Kind.BYE, 0, tags[0].sendsDone, tags[1].sendsDone, tags[2].sendsDone);
    }

    /// @return whether every message that was sent has been received here, or met a receive that
    ///     failed
    boolean agrees(Note bye) {
        for (int i = 0; i < tags.length; i++) {
            if (bye.number(i) > tags[i].received + tags[i].receivesFailed) {
                return false;
            }
        }
        return true;
    }

    void close() {
        region.close();
    }
}
