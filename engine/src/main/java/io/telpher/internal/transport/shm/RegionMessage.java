package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.ffi.linux.FdPassing;
import io.telpher.internal.ffi.linux.Sockets;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// A message about regions, and the descriptors that go along. It has 64 bytes and perhaps a tail,
/// little-endian.
///
/// ```text
/// question  0 type 1   1 wanted paths (bits)   4 number (4)   8 region (4)   12 generation (4)
///           16 key (8)
/// answer    0 type 2   1 status   2 path (bit)   3 access   4 number (4)   8 size (8)
///           16 address (8)   24 bytes of the tail (4), 0 for 128 behind CUMEM and IPC.
///           For MAPPED the region's memfd goes along; for CUMEM and IPC the tail is an
///           ExportRecord, for CUMEM with the descriptors of its parts; for DEVICE it is the
///           reason, UTF-8. With THROUGH only a GPU in between may copy
/// revoked   0 type 3   8 region (4)   12 generation (4)       owner to importer
/// released  0 type 4   8 region (4), -1 for all   12 generation (4)       importer to owner
/// share     0 type 5   4 number (4)   16 size (8); a memfd goes along, where payloads of the
///           sender's lane will lie. Answered as a question; only for peers that `share`
/// ```
///
/// Memory of a GPU that was given out has to be unmapped by the importer before it is free: its
/// owner asks for that (`revoked`), and hears when it is so (`released`), also when it did not
/// ask. Only peers that asked for `CUMEM` or `IPC` get these messages, only those that ask with
/// `KNOWS_GPUS` hear that a region is a device's, and only those that ask with `KNOWS_TAILS` get
/// records of several parts, and reasons: so older ones never do.
final class RegionMessage {
    /// Map the owner's memfd.
    static final int MAPPED = 1;

    /// Copy by `process_vm_writev` and `process_vm_readv`.
    static final int CMA = 2;

    /// Map memory of a GPU by a descriptor of its allocation.
    static final int CUMEM = 4;

    /// Map memory of a GPU by a legacy IPC handle.
    static final int IPC = 8;

    /// In an answer: the owner's options let no GPU copy by that path on its own behalf. Only for
    /// those that ask with `KNOWS_TAILS`.
    static final int THROUGH = 64;

    /// Any of these.
    static final int GPU = CUMEM | IPC;

    /// The asker understands that a region is a device's, whether it can reach it or not.
    static final int KNOWS_GPUS = 16;

    /// The asker takes tails of any length.
    static final int KNOWS_TAILS = 32;

    static final byte QUESTION = 1;
    static final byte ANSWER = 2;
    static final byte REVOKED = 3;
    static final byte RELEASED = 4;
    static final byte SHARE = 5;

    /// What a message has without its tail.
    static final int BYTES = 64;

    /// What a tail has for those who know of no others.
    private static final int OLD_TAIL = 128;

    private static final int NUMBER_AT = 4;
    private static final int REGION_AT = 8;
    private static final int GENERATION_AT = 12;
    private static final int KEY_AT = 16;
    private static final int SHARED_AT = 16;
    private static final int SIZE_AT = 8;
    private static final int ADDRESS_AT = 16;
    private static final int TAIL_AT = 24;

    private static final int MOST_REASON = 512;
    private static final int[] NONE = {};

    private final ByteBuffer bytes;
    private final int[] descriptors;

    /// @param bytes all of it; the message's from now on
    /// @param descriptors that go or came along
    RegionMessage(byte[] bytes, int[] descriptors) {
        this.bytes = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        this.descriptors = descriptors;
    }

    /// How a question ended.
    enum Status {
        /// The region can be used by the path that the answer names.
        OK,
        /// It was closed.
        STALE,
        /// The key is wrong, or peers may do nothing with it.
        DENIED,
        /// None of the wanted paths leads there.
        NO_PATH,
        /// It is memory of a device, and none of the wanted paths leads there.
        DEVICE
    }

    /// An answer.
    ///
    /// @param path [#MAPPED], [#CMA], [#CUMEM] or [#IPC], the last two perhaps with [#THROUGH]
    /// @param descriptors the region's memfd, or those of its allocations; the owner's where it
    ///     is given, and the receiver's to close
    /// @param tail what tells of a GPU's memory, or why there is none; else empty
    record Answer(
            Status status,
            int path,
            Access access,
            long size,
            long address,
            int[] descriptors,
            byte[] tail) {
        /// An answer that gives nothing out.
        static Answer only(Status status) {
            return new Answer(status, 0, Access.NONE, 0, 0, NONE, new byte[0]);
        }

        /// The same with a reason, only for askers that take tails.
        static Answer refusal(Status status, String reason) {
            byte[] text = reason.getBytes(StandardCharsets.UTF_8);
            byte[] tail = Arrays.copyOf(text, Math.min(text.length, MOST_REASON));
            return new Answer(status, 0, Access.NONE, 0, 0, NONE, tail);
        }

        /// @return the memfd, or -1 when it did not arrive
        int descriptor() {
            return descriptors.length == 1 ? descriptors[0] : -1;
        }

        /// @return why not, as the owner says; may be empty
        String reason() {
            String said = path == 0 ? new String(tail, StandardCharsets.UTF_8) : "";
            return said.replaceAll("\\p{Cntrl}", "?");
        }
    }

    // --- what is sent ---------------------------------------------------------------------------

    private static RegionMessage of(byte type, int tail, int[] descriptors) {
        RegionMessage made = new RegionMessage(new byte[BYTES + tail], descriptors);
        made.bytes.put(0, type);
        return made;
    }

    /// @param paths wanted paths, and what the asker knows, bits
    static RegionMessage question(RemoteMemory memory, int paths) {
        RegionMessage made = of(QUESTION, 0, NONE);
        made.bytes
                .put(1, (byte) paths)
                .putInt(REGION_AT, memory.region())
                .putInt(GENERATION_AT, memory.generation())
                .putLong(KEY_AT, memory.key());
        return made;
    }

    /// @param descriptor of the memory's file, the caller's
    static RegionMessage share(int descriptor, long size) {
        RegionMessage made = of(SHARE, 0, new int[] {descriptor});
        made.bytes.putLong(SHARED_AT, size);
        return made;
    }

    /// @param tails whether the asker takes tails of any length
    /// @param number the question's
    static RegionMessage answer(Answer given, boolean tails, int number) {
        byte[] tail = given.tail();
        RegionMessage made = of(ANSWER, tail.length, given.descriptors());
        made.bytes
                .put(1, (byte) given.status().ordinal())
                .put(2, (byte) given.path())
                .put(3, (byte) given.access().ordinal())
                .putLong(SIZE_AT, given.size())
                .putLong(ADDRESS_AT, given.address())
                .putInt(TAIL_AT, tails ? tail.length : 0)
                .put(BYTES, tail);
        made.number(number);
        return made;
    }

    static RegionMessage revoked(int index, int generation) {
        return of(REVOKED, index, generation);
    }

    /// @param index -1 for all regions
    static RegionMessage released(int index, int generation) {
        return of(RELEASED, index, generation);
    }

    private static RegionMessage of(byte type, int index, int generation) {
        RegionMessage made = of(type, 0, NONE);
        made.bytes.putInt(REGION_AT, index).putInt(GENERATION_AT, generation);
        return made;
    }

    /// Gives a question its number.
    void number(int number) {
        bytes.putInt(NUMBER_AT, number);
    }

    /// Sends it; the kernel takes so few bytes all at once or not at all.
    ///
    /// @return how many bytes were sent, or minus errno
    long send(int socket) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocateFrom(JAVA_BYTE, bytes.array());
            return descriptors.length == 0
                    ? Sockets.send(socket, all, all.byteSize(), Sockets.MSG_NOSIGNAL)
                    : FdPassing.send(socket, all, descriptors);
        }
    }

    // --- what has come --------------------------------------------------------------------------

    /// @param start the first [#BYTES] of a message
    /// @return bytes of its tail; less than 0 for nonsense
    static int tail(ByteBuffer start) {
        if (start.get(0) != ANSWER) {
            return 0;
        }
        int said = start.getInt(TAIL_AT);
        if (said > ExportRecord.MAX) {
            return -1;
        }
        return said == 0 && (start.get(2) & GPU) != 0 ? OLD_TAIL : said;
    }

    byte type() {
        return bytes.get(0);
    }

    int paths() {
        return bytes.get(1);
    }

    int number() {
        return bytes.getInt(NUMBER_AT);
    }

    int index() {
        return bytes.getInt(REGION_AT);
    }

    int generation() {
        return bytes.getInt(GENERATION_AT);
    }

    /// @return region and generation in one
    long announcement() {
        return HazardPage.announcement(index(), generation());
    }

    long key() {
        return bytes.getLong(KEY_AT);
    }

    /// @return size of the memory that the peer shares
    long shared() {
        return bytes.getLong(SHARED_AT);
    }

    int[] descriptors() {
        return descriptors;
    }

    /// @return the one that came along, or -1
    int descriptor() {
        return descriptors.length == 1 ? descriptors[0] : -1;
    }

    /// @return what it says as an answer, or null when that makes no sense
    @Nullable Answer answer() {
        int status = bytes.get(1);
        int access = bytes.get(3);
        if (status < 0
                || status >= Status.values().length
                || access < 0
                || access >= Access.values().length) {
            return null;
        }
        return new Answer(
                Status.values()[status],
                bytes.get(2),
                Access.values()[access],
                bytes.getLong(SIZE_AT),
                bytes.getLong(ADDRESS_AT),
                descriptors,
                Arrays.copyOfRange(bytes.array(), BYTES, bytes.capacity()));
    }
}
