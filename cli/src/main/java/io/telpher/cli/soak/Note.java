package io.telpher.cli.soak;

import io.telpher.RemoteMemory;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/// What the two ends of a conversation tell each other by notifications.
///
/// @param kind what it says
/// @param id number of the operation, round, or what the kind says
/// @param body the rest
record Note(Kind kind, long id, byte[] body) {
    /// Kinds of notes.
    enum Kind {
        /// First of the dialling end: its side's name.
        HELLO,
        /// Memory for the other end: an [Offer], of round `id`.
        INBOX,
        /// Please close round `id` and offer new memory.
        RECYCLE,
        /// Nothing but content.
        PLAIN,
        /// Comes with a write: range and CRC32C of what it has made of the slot.
        WROTE,
        /// A plain or written one has been taken.
        ACK,
        /// All is posted and has ended; how many messages of each tag were done.
        BYE
    }

    private static final int HEADER = 9;

    byte[] bytes() {
        return ByteBuffer.allocate(HEADER + body.length)
                .put((byte) kind.ordinal())
                .putLong(id)
                .put(body)
                .array();
    }

    MemorySegment segment() {
        return MemorySegment.ofArray(bytes());
    }

    /// @throws IllegalArgumentException when no end of a conversation says that
    static Note of(byte[] bytes) {
        if (bytes.length < HEADER || bytes[0] < 0 || bytes[0] >= Kind.values().length) {
            throw new IllegalArgumentException(
                    "a notification of %d bytes that nobody has sent".formatted(bytes.length));
        }
        ByteBuffer in = ByteBuffer.wrap(bytes);
        Kind kind = Kind.values()[in.get()];
        long id = in.getLong();
        byte[] body = new byte[in.remaining()];
        in.get(body);
        return new Note(kind, id, body);
    }

    static Note of(Kind kind, long id, long... numbers) {
        ByteBuffer body = ByteBuffer.allocate(Long.BYTES * numbers.length);
        for (long number : numbers) {
            body.putLong(number);
        }
        return new Note(kind, id, body.array());
    }

    static Note of(Kind kind, long id, String text) {
        return new Note(kind, id, text.getBytes(StandardCharsets.UTF_8));
    }

    String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    long number(int index) {
        return ByteBuffer.wrap(body).getLong(Long.BYTES * index);
    }

    @Override
    public boolean equals(Object other) {
        return this == other;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(id);
    }

    /// Memory that one end offers to the other for one round.
    ///
    /// @param round counts up
    /// @param pid the owner's process
    /// @param address of the inbox, in the owner
    /// @param salt what numbers of the owner's operations begin with
    /// @param seed of the content that the inbox is filled with
    /// @param inbox what may be written, and read back
    /// @param library what may be read; its content has the same seed
    record Offer(
            long round,
            long pid,
            long address,
            long salt,
            long seed,
            RemoteMemory inbox,
            RemoteMemory library) {
        Note note() {
            byte[] body =
                    ByteBuffer.allocate(4 * Long.BYTES + 2 * RemoteMemory.SIZE)
                            .putLong(pid)
                            .putLong(address)
                            .putLong(salt)
                            .putLong(seed)
                            .put(inbox.toBytes())
                            .put(library.toBytes())
                            .array();
            return new Note(Kind.INBOX, round, body);
        }

        static Offer of(Note note) {
            ByteBuffer in = ByteBuffer.wrap(note.body);
            long pid = in.getLong();
            long address = in.getLong();
            long salt = in.getLong();
            long seed = in.getLong();
            byte[] inbox = new byte[RemoteMemory.SIZE];
            byte[] library = new byte[RemoteMemory.SIZE];
            in.get(inbox).get(library);
            return new Offer(
                    note.id,
                    pid,
                    address,
                    salt,
                    seed,
                    RemoteMemory.ofBytes(inbox),
                    RemoteMemory.ofBytes(library));
        }
    }
}
