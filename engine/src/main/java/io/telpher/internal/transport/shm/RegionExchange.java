package io.telpher.internal.transport.shm;

import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.transport.shm.RegionMessage.Answer;
import io.telpher.internal.transport.shm.RegionMessage.Status;
import io.telpher.spi.Deadline;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// Asks the peer for regions over the link's socket, and answers the peer's questions
/// ([RegionMessage]). At most one question of each side is under way.
///
/// Questions are answered on the progress thread, which never waits: an answer for which the
/// socket has no room is dropped, and the peer's question runs into its deadline.
final class RegionExchange {
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

    /// The progress thread's own.
    private final RegionInput input;

    RegionExchange(ShmEndpoint endpoint, ShmLink link, int socket) {
        this.endpoint = endpoint;
        this.link = link;
        this.socket = socket;
        this.input = new RegionInput(socket);
    }

    /// Asks for a region. Blocks, at most until the deadline.
    ///
    /// @param paths wanted paths, bits
    Answer ask(RemoteMemory memory, int paths, Deadline deadline) {
        RegionMessage out = RegionMessage.question(memory, paths);
        return ask(out, out.announcement(), memory + " was opened", deadline);
    }

    /// Has the peer map memory for payloads. Blocks, at most until the deadline.
    ///
    /// @param descriptor of its file, the caller's
    /// @throws TelpherException when the peer cannot
    void share(int descriptor, long bytes, Deadline deadline) {
        RegionMessage out = RegionMessage.share(descriptor, bytes);
        Answer answer = ask(out, 0, "memory for payloads was shared", deadline);
        UnixChannel.closeAll(answer.descriptors());
        if (answer.status() != Status.OK) {
            throw new TelpherException.Unsupported(
                    "%s: the peer cannot map %d bytes for payloads".formatted(link.text(), bytes));
        }
    }

    /// @param region that is asked for, as an announcement, or 0
    /// @param what was going on, for people
    private Answer ask(RegionMessage out, long region, String what, Deadline deadline) {
        try {
            if (!turn.tryLock(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS)) {
                throw late(what);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while " + what);
        }
        try {
            return send(out, region, what, deadline);
        } finally {
            turn.unlock();
        }
    }

    /// Sends the question and waits for its answer, or for the end of the peer.
    private Answer send(RegionMessage out, long region, String what, Deadline deadline) {
        state.lock();
        try {
            number = number == Integer.MAX_VALUE ? 1 : number + 1;
            awaited = number;
            asking = region;
            answer = null;
            out.number(number);
            while (true) {
                long sent = link.lost() != null ? -Errno.EPIPE : out.send(socket);
                if (sent == RegionMessage.BYTES) {
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
            long bytes = input.read();
            if (bytes == -Errno.EAGAIN) {
                return true;
            }
            if (bytes <= 0 || input.isNonsense()) {
                close();
                return false;
            }
            RegionMessage message = input.take();
            if (message != null && !handle(message)) {
                return false;
            }
        }
        return true;
    }

    /// Nothing more is read: gives back what came with a message that is not complete. Not while
    /// [#readReady] runs.
    void close() {
        input.close();
    }

    /// @return false when the message makes no sense
    private boolean handle(RegionMessage in) {
        if (in.type() == RegionMessage.ANSWER) {
            take(in);
            return true;
        }
        try {
            switch (in.type()) {
                case RegionMessage.QUESTION -> reply(in);
                case RegionMessage.SHARE -> {
                    boolean taken = link.takeShared(in.descriptor(), in.shared());
                    Answer said = Answer.only(taken ? Status.OK : Status.NO_PATH);
                    long unused = RegionMessage.answer(said, false, in.number()).send(socket);
                }
                case RegionMessage.REVOKED -> {
                    int index = in.index();
                    int generation = in.generation();
                    endpoint.context().control().execute(() -> link.revoked(index, generation));
                }
                case RegionMessage.RELEASED -> {
                    if (in.index() < 0) {
                        link.releasedAll();
                    } else {
                        link.released(in.announcement());
                    }
                }
                default -> {
                    return false;
                }
            }
            return true;
        } finally {
            UnixChannel.closeAll(in.descriptors());
        }
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
        tell(RegionMessage.released(index, generation));
    }

    /// Tells the owner that nothing of any of its GPUs' regions is mapped here, nor will be: also
    /// answers that came too late for whoever had asked.
    void releasedAll() {
        tell(RegionMessage.released(-1, -1));
    }

    /// Asks the importer to unmap a GPU's region.
    void revoke(int index, int generation) {
        tell(RegionMessage.revoked(index, generation));
    }

    /// A message that the kernel has no room for is lost: closing the region takes until its
    /// deadline then, and tells it again when it is tried again.
    private void tell(RegionMessage out) {
        link.transmit(() -> out.send(socket));
    }

    /// Gives an answer to whoever waits for it; nobody may, when it comes late.
    private void take(RegionMessage in) {
        Answer given = in.answer();
        boolean used = false;
        state.lock();
        try {
            if (awaited != 0 && in.number() == awaited && answer == null && given != null) {
                answer = given;
                used = true;
                changed.signalAll();
            }
        } finally {
            state.unlock();
        }
        if (!used) {
            UnixChannel.closeAll(in.descriptors());
        }
    }

    /// Answers a question. The region cannot be closed in between, so the descriptor that is sent
    /// is the region's.
    private void reply(RegionMessage in) {
        int paths = in.paths();
        boolean tails = (paths & RegionMessage.KNOWS_TAILS) != 0;
        synchronized (endpoint.exports()) {
            Answer given = endpoint.export(in.index(), in.generation(), in.key(), paths, link);
            long sent = RegionMessage.answer(given, tails, in.number()).send(socket);
            if (sent >= 0 || sent == -Errno.EAGAIN || given.descriptors().length == 0) {
                return;
            }
            // The kernel has not passed the descriptors: nothing was given out.
            boolean device = (given.path() & RegionMessage.GPU) != 0;
            if (device) {
                link.released(in.announcement());
            }
            String reason = notSent(given.descriptors().length, (int) -sent);
            Answer refusal =
                    device
                            ? Answer.refusal(Status.DEVICE, tails ? reason : "")
                            : Answer.only(Status.NO_PATH);
            long unused = RegionMessage.answer(refusal, tails, in.number()).send(socket);
        }
    }

    /// @return why descriptors were not sent, for people at the other side
    static String notSent(int descriptors, int errno) {
        return "its owner could not send its %d descriptors: %s"
                .formatted(descriptors, Mapping.describe(errno));
    }
}
