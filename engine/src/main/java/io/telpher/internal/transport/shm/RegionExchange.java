package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.FdPassing;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Deadline;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// Asks the peer for regions over the link's socket, and answers the peer's questions. Messages
/// have 64 bytes and perhaps a tail, little-endian; at most one question of each side is under way.
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
///
/// Questions are answered on the progress thread, which never waits: an answer for which the
/// socket has no room is dropped, and the peer's question runs into its deadline.
final class RegionExchange {
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

    private static final int MESSAGE = 64;
    private static final int TAIL_AT = 24;

    /// What a tail has for those who know of no others.
    private static final int OLD_TAIL = 128;

    private static final int MOST_REASON = 512;
    private static final byte QUESTION = 1;
    private static final byte ANSWER = 2;
    private static final byte REVOKED = 3;
    private static final byte RELEASED = 4;
    private static final byte SHARE = 5;

    private static final int[] NONE = {};

    /// Most messages read at once, so that a flood does not keep the progress thread.
    private static final int BATCH = 16;

    private final ShmEndpoint endpoint;
    private final ShmLink link;
    private final int socket;

    /// Held by whoever asks.
    private final ReentrantLock turn = new ReentrantLock(true);

    // The question under way. Guarded by `state`; `changed` tells of an answer or of the peer's
    // end.
    private final ReentrantLock state = new ReentrantLock();
    private final Condition changed = state.newCondition();

    /// Number of the last question: an answer that comes after its deadline must not be taken for
    /// the next one's.
    private int number;

    /// Number of the question that somebody waits for, or 0.
    private int awaited;

    private @Nullable Answer answer;

    /// The region that is asked for, as an announcement, or 0.
    private long asking;

    // Progress thread only: the message that is coming in.
    private final byte[] incoming = new byte[MESSAGE + ExportRecord.MAX];
    private int received;
    private int[] incomingDescriptors = {};

    RegionExchange(ShmEndpoint endpoint, ShmLink link, int socket) {
        this.endpoint = endpoint;
        this.link = link;
        this.socket = socket;
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
    /// @param descriptors the region's memfd, or those of its allocations; the receiver's to close
    /// @param tail what tells of a GPU's memory, or why there is none; else empty
    record Answer(
            Status status,
            int path,
            Access access,
            long size,
            long address,
            int[] descriptors,
            byte[] tail) {
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

    /// Asks for a region. Blocks, at most until the deadline.
    ///
    /// @param paths wanted paths, bits
    Answer ask(RemoteMemory memory, int paths, Deadline deadline) {
        ByteBuffer out = message(QUESTION, paths, 0, 0, 0);
        out.putInt(memory.region()).putInt(memory.generation()).putLong(memory.key());
        long region = HazardPage.announcement(memory.region(), memory.generation());
        return ask(out, -1, region, memory + " was opened", deadline);
    }

    /// Has the peer map memory for payloads. Blocks, at most until the deadline.
    ///
    /// @param descriptor of its file, the caller's
    /// @throws TelpherException when the peer cannot
    void share(int descriptor, long bytes, Deadline deadline) {
        ByteBuffer out = message(SHARE, 0, 0, 0, 0);
        out.putInt(0).putInt(0).putLong(bytes);
        Answer answer = ask(out, descriptor, 0, "memory for payloads was shared", deadline);
        UnixChannel.closeAll(answer.descriptors());
        if (answer.status() != Status.OK) {
            throw new TelpherException.Unsupported(
                    "%s: the peer cannot map %d bytes for payloads".formatted(link.text(), bytes));
        }
    }

    /// @param what was going on, for people
    private Answer ask(
            ByteBuffer out, int descriptor, long region, String what, Deadline deadline) {
        try {
            if (!turn.tryLock(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS)) {
                throw late(what);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while " + what);
        }
        try {
            return send(out, descriptor, region, what, deadline);
        } finally {
            turn.unlock();
        }
    }

    /// Sends the question and waits for its answer, or for the end of the peer.
    private Answer send(
            ByteBuffer out, int descriptor, long region, String what, Deadline deadline) {
        state.lock();
        try {
            number = number == Integer.MAX_VALUE ? 1 : number + 1;
            awaited = number;
            asking = region;
            answer = null;
            out.putInt(4, number);
            while (true) {
                long sent =
                        link.lost() != null
                                ? -Errno.EPIPE
                                : transmit(
                                        out.array(),
                                        descriptor < 0 ? NONE : new int[] {descriptor});
                if (sent == MESSAGE) {
                    break;
                }
                int left = deadline.leftMillis();
                if (sent != -Errno.EAGAIN) {
                    throw new TelpherException.PeerLost(
                            link.text() + ": the peer left while " + what);
                }
                if (left == 0) {
                    throw late(what);
                }
                int unused = Poll.poll(socket, Poll.POLLOUT, Math.min(left, 10));
            }
            while (answer == null) {
                if (link.lost() != null) {
                    throw new TelpherException.PeerLost(link.lost() + ", while " + what);
                }
                long left = deadline.left();
                if (left <= 0) {
                    throw late(what);
                }
                long unused = changed.awaitNanos(left);
            }
            Answer given = answer;
            answer = null;
            return given;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while " + what);
        } finally {
            Answer left = answer; // of a thread that was interrupted as it came
            awaited = 0;
            asking = 0;
            answer = null;
            state.unlock();
            if (left != null) {
                UnixChannel.closeAll(left.descriptors());
            }
        }
    }

    private TelpherException late(String what) {
        return new TelpherException.TimedOut(
                link.text() + ": the peer did not answer in time while " + what);
    }

    /// Wakes whoever waits for an answer, to look whether the peer is still there.
    void wake() {
        state.lock();
        try {
            changed.signalAll();
        } finally {
            state.unlock();
        }
    }

    /// Reads what the socket has. On the progress thread; never waits.
    ///
    /// @return false when the peer has hung up or broke the protocol
    boolean readReady() {
        for (int i = 0; i < BATCH; i++) {
            long bytes = readSome();
            if (bytes == -Errno.EAGAIN) {
                return true;
            }
            if (bytes <= 0 || tail() < 0) {
                close();
                return false;
            }
            if (received == MESSAGE + tail()) {
                int length = received;
                received = 0;
                int[] descriptors = incomingDescriptors;
                incomingDescriptors = NONE;
                if (!handle(incoming(), length, descriptors)) {
                    return false;
                }
            }
        }
        return true;
    }

    /// Nothing more is read: gives back what came with a message that is not complete. Not while
    /// [#readReady] runs.
    void close() {
        UnixChannel.closeAll(incomingDescriptors);
        incomingDescriptors = NONE;
    }

    private ByteBuffer incoming() {
        return ByteBuffer.wrap(incoming).order(ByteOrder.LITTLE_ENDIAN);
    }

    /// @return bytes of the tail of the message that is coming in, as far as is known; less than 0
    ///     for nonsense
    private int tail() {
        if (received < MESSAGE || incoming[0] != ANSWER) {
            return 0;
        }
        int said = incoming().getInt(TAIL_AT);
        if (said > ExportRecord.MAX) {
            return -1;
        }
        return said == 0 && (incoming[2] & GPU) != 0 ? OLD_TAIL : said;
    }

    /// Reads at most to the end of the current message, so that descriptors that arrive are this
    /// message's.
    private long readSome() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment into = arena.allocate(MESSAGE + tail() - received);
            FdPassing.Received got = FdPassing.receive(socket, into, ExportRecord.MOST_PARTS);
            if (got.descriptors().length > 0) {
                UnixChannel.closeAll(incomingDescriptors);
                incomingDescriptors = got.descriptors();
            }
            if (got.bytes() > 0) {
                MemorySegment.copy(into, JAVA_BYTE, 0, incoming, received, (int) got.bytes());
                received += (int) got.bytes();
            }
            return got.bytes();
        }
    }

    /// @return false when the message makes no sense
    private boolean handle(ByteBuffer in, int length, int[] descriptors) {
        byte type = in.get();
        if (type == QUESTION) {
            UnixChannel.closeAll(descriptors);
            int paths = in.get();
            int asked = in.getInt(4);
            reply(paths, asked, in.getInt(8), in.getInt(12), in.getLong(16));
            return true;
        }
        if (type == ANSWER) {
            take(in, length, descriptors);
            return true;
        }
        if (type == SHARE) {
            boolean taken =
                    link.takeShared(descriptors.length == 1 ? descriptors[0] : -1, in.getLong(16));
            UnixChannel.closeAll(descriptors);
            Status status = taken ? Status.OK : Status.NO_PATH;
            ByteBuffer out =
                    message(ANSWER, status.ordinal(), 0, Access.NONE.ordinal(), in.getInt(4));
            long unused = transmit(out.array(), NONE);
            return true;
        }
        UnixChannel.closeAll(descriptors);
        if (type == REVOKED) {
            int index = in.getInt(8);
            int generation = in.getInt(12);
            endpoint.context().control().execute(() -> link.revoked(index, generation));
            return true;
        }
        if (type == RELEASED) {
            if (in.getInt(8) < 0) {
                link.releasedAll();
            } else {
                link.released(HazardPage.announcement(in.getInt(8), in.getInt(12)));
            }
            return true;
        }
        return false;
    }

    /// @return whether somebody asks for that region right now: whoever does finds it closed
    boolean isAsking(int index, int generation) {
        state.lock();
        try {
            return asking == HazardPage.announcement(index, generation);
        } finally {
            state.unlock();
        }
    }

    /// Tells the owner that nothing of a GPU's region is mapped here any more.
    void released(int index, int generation) {
        tell(RELEASED, index, generation);
    }

    /// Tells the owner that nothing of any of its GPUs' regions is mapped here, nor will be: also
    /// answers that came too late for whoever had asked.
    void releasedAll() {
        tell(RELEASED, -1, -1);
    }

    /// Asks the importer to unmap a GPU's region.
    void revoke(int index, int generation) {
        tell(REVOKED, index, generation);
    }

    /// A message that the kernel has no room for is lost: closing the region takes until its
    /// deadline then, and tells it again when it is tried again.
    private void tell(byte type, int index, int generation) {
        ByteBuffer out = message(type, 0, 0, 0, 0);
        out.putInt(index).putInt(generation);
        link.transmit(() -> transmit(out.array(), NONE));
    }

    /// Gives an answer to whoever waits for it; nobody may, when it comes late.
    private void take(ByteBuffer in, int length, int[] descriptors) {
        int status = in.get(1);
        int access = in.get(3);
        boolean used = false;
        state.lock();
        try {
            if (awaited != 0
                    && in.getInt(4) == awaited
                    && answer == null
                    && status >= 0
                    && status < Status.values().length
                    && access >= 0
                    && access < Access.values().length) {
                answer =
                        new Answer(
                                Status.values()[status],
                                in.get(2),
                                Access.values()[access],
                                in.getLong(8),
                                in.getLong(16),
                                descriptors,
                                Arrays.copyOfRange(incoming, MESSAGE, length));
                used = true;
                changed.signalAll();
            }
        } finally {
            state.unlock();
        }
        if (!used) {
            UnixChannel.closeAll(descriptors);
        }
    }

    /// Answers a question. The region cannot be closed in between, so the descriptor that is sent
    /// is the region's.
    private void reply(int paths, int asked, int index, int generation, long key) {
        synchronized (endpoint.exports()) {
            Export export = endpoint.export(index, generation, key, paths, link);
            long sent = answer(export, paths, asked);
            if (sent >= 0 || sent == -Errno.EAGAIN || export.descriptors().length == 0) {
                return;
            }
            // The kernel has not passed the descriptors: nothing was given out.
            boolean device = (export.path() & GPU) != 0;
            if (device) {
                link.released(HazardPage.announcement(index, generation));
            }
            String reason =
                    "its %d descriptors could not be sent: %s (raise ulimit -n of its owner)"
                            .formatted(export.descriptors().length, Errno.describe((int) -sent));
            long unused =
                    answer(
                            device
                                    ? Export.refusal(
                                            Status.DEVICE, (paths & KNOWS_TAILS) != 0 ? reason : "")
                                    : Export.refusal(Status.NO_PATH),
                            paths,
                            asked);
        }
    }

    private long answer(Export export, int paths, int asked) {
        ByteBuffer out =
                message(
                        ANSWER,
                        export.status().ordinal(),
                        export.path(),
                        export.access().ordinal(),
                        asked);
        byte[] tail = export.tail();
        out.putLong(export.size()).putLong(export.address());
        out.putInt((paths & KNOWS_TAILS) != 0 ? tail.length : 0);
        byte[] all = Arrays.copyOf(out.array(), MESSAGE + tail.length);
        System.arraycopy(tail, 0, all, MESSAGE, tail.length);
        return transmit(all, export.descriptors());
    }

    /// What the owner gives out.
    ///
    /// @param descriptors the region's memfd, or those of its allocations
    /// @param tail what tells of a GPU's memory, or why it is not given out; else empty
    record Export(
            Status status,
            int path,
            Access access,
            long size,
            long address,
            int[] descriptors,
            byte[] tail) {
        static Export refusal(Status status) {
            return new Export(status, 0, Access.NONE, 0, 0, NONE, new byte[0]);
        }

        /// Only for askers that take tails.
        static Export refusal(Status status, String reason) {
            byte[] text = reason.getBytes(StandardCharsets.UTF_8);
            byte[] tail = Arrays.copyOf(text, Math.min(text.length, MOST_REASON));
            return new Export(status, 0, Access.NONE, 0, 0, NONE, tail);
        }
    }

    /// @return a message with its first 8 bytes filled in
    private static ByteBuffer message(byte type, int second, int third, int fourth, int number) {
        ByteBuffer out = ByteBuffer.allocate(MESSAGE).order(ByteOrder.LITTLE_ENDIAN);
        out.put(type).put((byte) second).put((byte) third).put((byte) fourth).putInt(number);
        return out;
    }

    /// Sends one message; the kernel takes so few bytes all at once or not at all.
    private long transmit(byte[] bytes, int[] descriptors) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocateFrom(JAVA_BYTE, bytes);
            return descriptors.length == 0
                    ? Sockets.send(socket, all, bytes.length, Sockets.MSG_NOSIGNAL)
                    : FdPassing.send(socket, all, descriptors);
        }
    }
}
