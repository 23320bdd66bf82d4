package io.telpher.cli.soak;

import io.telpher.TransferOptions;
import io.telpher.cli.Content;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/// Notifications of one end of a conversation, and those that come: each is taken exactly once,
/// after the bytes that it belongs to, and acknowledged. Used by the conversation's thread.
final class Notes {
    private static final int MOST_UNACKNOWLEDGED = 8;
    private static final long PATIENCE = 60_000_000_000L;
    private static final int REMEMBERED = 4096;

    /// A note that the other end has not acknowledged.
    private static final class Waiting {
        final @Nullable Slot slot;
        final long round;
        long doneAt;

        Waiting(@Nullable Slot slot, long round) {
            this.slot = slot;
            this.round = round;
        }
    }

    private final Conversation talk;
    private final Map<Long, Waiting> waiting = new HashMap<>();
    private final Map<Long, Boolean> written =
            new LinkedHashMap<>() {
                private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<Long, Boolean> eldest) {
                    return size() > REMEMBERED;
                }
            };
    private long lastPlain;

    Notes(Conversation talk) {
        this.talk = talk;
    }

    static long seed(long id) {
        return Content.seed(id, 1, 0);
    }

    // --- own ones -------------------------------------------------------------------------------

    /// Sends a note with nothing but content, unless too many are unacknowledged.
    void send() {
        if (waiting.size() >= MOST_UNACKNOWLEDGED) {
            return;
        }
        long id = talk.nextId();
        byte[] body = new byte[(int) talk.length(talk.chance(3) ? 300_000 : 4_000)];
        Content.fill(MemorySegment.ofArray(body), 0, body.length, seed(id), 0);
        MemorySegment payload = new Note(Note.Kind.PLAIN, id, body).segment();
        String text = "note " + Long.toHexString(id) + " of " + body.length;
        waiting.put(id, new Waiting(null, 0));
        if (talk.chance(30)) {
            long token = talk.connection.tryNotify(payload, 0, (int) payload.byteSize());
            if (!talk.flyToken(
                    Flight.Kind.NOTE,
                    text,
                    Flight.Limit.SOON,
                    token,
                    outcome -> ended(id, outcome))) {
                waiting.remove(id);
            }
            return;
        }
        boolean late = talk.chance(8);
        // Of one priority, since they must come in the order of posting.
        TransferOptions options = TransferOptions.DEFAULTS;
        talk.fly(
                Flight.Kind.NOTE,
                text,
                late ? Flight.Limit.ITS_OWN : Flight.Limit.SOON,
                talk.connection.notifyPeer(
                        payload, late ? options.withDeadline(talk.shortDeadline()) : options),
                outcome -> ended(id, outcome));
    }

    /// A note that goes with a write.
    ///
    /// @param image what the slot holds after the write
    /// @return its bytes
    MemorySegment with(long id, Slot slot, long round, MemorySegment image, long low, long high) {
        waiting.put(id, new Waiting(slot, round));
        slot.watched = true;
        return Note.of(
                        Note.Kind.WROTE,
                        id,
                        round,
                        slot.base + low,
                        high - low,
                        crc(image.asSlice(low, high - low)))
                .segment();
    }

    static long crc(MemorySegment bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes.asByteBuffer());
        return crc.getValue();
    }

    /// A note, or the write that it goes with, has ended.
    void ended(long id, Outcome outcome) {
        Waiting note = waiting.get(id);
        if (note == null) {
            return; // acknowledged already
        }
        if (outcome.done()) {
            note.doneAt = System.nanoTime();
        } else {
            waiting.remove(id); // it may have come or not
        }
    }

    /// @throws SoakFailure when one was done, but never acknowledged
    void check(long now) {
        waiting.forEach(
                (id, note) -> {
                    if (note.doneAt != 0 && now - note.doneAt > PATIENCE) {
                        throw talk.wrong(
                                "note %x was done, but the other end has not got it".formatted(id));
                    }
                });
    }

    void excuse(long nanos) {
        waiting.values().forEach(note -> note.doneAt += note.doneAt == 0 ? 0 : nanos);
    }

    /// @return whether everything was acknowledged
    boolean settled() {
        return waiting.isEmpty();
    }

    // --- the other end's ------------------------------------------------------------------------

    void take(byte[] bytes) {
        Note note;
        try {
            note = Note.of(bytes);
        } catch (IllegalArgumentException e) {
            throw talk.wrong(String.valueOf(e.getMessage()));
        }
        switch (note.kind()) {
            case PLAIN -> {
                if (note.id() <= lastPlain) {
                    throw talk.wrong("note %x came after note %x".formatted(note.id(), lastPlain));
                }
                lastPlain = note.id();
                MemorySegment body = MemorySegment.ofArray(note.body());
                long wrong = Content.firstWrong(body, 0, body.byteSize(), seed(note.id()), 0);
                if (wrong >= 0) {
                    throw talk.wrong("byte %d of note %x is wrong".formatted(wrong, note.id()));
                }
                talk.acknowledge(note.id());
            }
            case WROTE -> {
                if (written.put(note.id(), true) != null) {
                    throw talk.wrong("note %x of a write came twice".formatted(note.id()));
                }
                look(note);
                talk.acknowledge(note.id());
            }
            case ACK -> {
                Waiting own = waiting.remove(note.id());
                if (own != null && own.slot != null && talk.isRound(own.round)) {
                    own.slot.watched = false;
                }
            }
            case HELLO, INBOX, RECYCLE, BYE -> talk.heard(note);
        }
    }

    /// The bytes of a write are there when its notification is.
    private void look(Note note) {
        Inbox inbox = talk.inbox();
        if (note.number(0) != inbox.offer().round() || talk.isRecycling()) {
            return;
        }
        if (crc(inbox.slot(note.number(1), note.number(2))) != note.number(3)) {
            throw talk.wrong(
                    "note %x of a write came before its bytes: %d bytes at %d"
                            .formatted(note.id(), note.number(2), note.number(1)));
        }
    }
}
