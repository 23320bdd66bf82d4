package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.Sge;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.transport.verbs.FakeObjects.FakePort;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What carries out the requests of [FakeLibrary]: RDMA writes, with an immediate value or without,
/// and RDMA reads, in order for each queue pair. Bytes arrive at once, on the thread that posts;
/// the acknowledgement comes with a later poll, or a millisecond later from a thread of its own.
/// Until then the memory of a write must stay as it was, since a device may send it again.
///
/// Allocates nothing for each request, once it has seen one as large. Everything happens under the
/// lock of the [FakeLibrary].
final class FakeNic {
    /// A request that was posted.
    private static final class Work {
        FakeObjects.Qp qp;
        long id;
        int opcode;
        int flags;
        int immediate;
        long remote;
        int rkey;
        long local;
        int bytes;
        int lkey;

        /// On its way; see [FakePort#losesFirst].
        boolean lost;

        /// What it carries itself, or what was sent.
        MemorySegment copy = MemorySegment.ofArray(new byte[256]);

        boolean isInline() {
            return (flags & SendRequest.IBV_SEND_INLINE) != 0;
        }

        boolean isRead() {
            return opcode == SendRequest.IBV_WR_RDMA_READ;
        }

        boolean hasImmediate() {
            return opcode == SendRequest.IBV_WR_RDMA_WRITE_WITH_IMM;
        }

        /// What its sender must be allowed to do with its own memory.
        int localAccess() {
            return isRead() ? VerbsMemory.IBV_ACCESS_LOCAL_WRITE : 0;
        }

        int remoteAccess() {
            return isRead()
                    ? VerbsMemory.IBV_ACCESS_REMOTE_READ
                    : VerbsMemory.IBV_ACCESS_REMOTE_WRITE;
        }

        void take() {
            if (copy.byteSize() < bytes) {
                copy = MemorySegment.ofArray(new byte[bytes]);
            }
            MemorySegment.copy(Raw.ALL, local, copy, 0, bytes);
        }
    }

    /// What has come to a device and is not in memory yet.
    @SuppressWarnings("ArrayRecordComponent") // a buffer
    private record Kept(String device, long address, byte[] bytes) {}

    /// A write whose queue pair is gone, and which may still arrive as long as the peer's is there:
    /// who writes there again must wait for its end.
    private record Late(int peer, long remote, int bytes) {
        boolean overlaps(Work work) {
            return work.remote < remote + bytes && remote < work.remote + work.bytes;
        }
    }

    private final FakeLibrary verbs;
    private final ArrayDeque<Late> late = new ArrayDeque<>();
    private final ArrayDeque<Work> free = new ArrayDeque<>();
    private final ArrayDeque<Work> posted = new ArrayDeque<>();
    private final ArrayDeque<Work> arrived = new ArrayDeque<>();

    private final ArrayDeque<Kept> kept = new ArrayDeque<>();

    /// What the next requests of that opcode end with.
    private final ArrayDeque<Integer> failingStatuses = new ArrayDeque<>();

    private int failingOpcode;

    /// Those whose completions are withheld.
    private final List<FakeObjects.Qp> withholding = new ArrayList<>();

    /// Looks at what was posted, counted.
    private long pass;

    /// Whether acknowledgements are due; the one thing that is read without the lock.
    volatile boolean isOwing;

    FakeNic(FakeLibrary verbs) {
        this.verbs = verbs;
        Thread.ofPlatform().daemon().name("fake-nic").start(this::acknowledgeLate);
    }

    void add(FakeObjects.Qp qp, long wr) {
        Work work = free.isEmpty() ? new Work() : free.removeLast();
        long sge = SendRequest.sge(wr);
        boolean any = SendRequest.sges(wr) > 0;
        work.qp = qp;
        work.id = SendRequest.id(wr);
        work.opcode = SendRequest.opcode(wr);
        work.flags = SendRequest.flags(wr);
        work.immediate = SendRequest.immediate(wr);
        work.remote = SendRequest.remoteAddress(wr);
        work.rkey = SendRequest.rkey(wr);
        work.local = any ? Sge.address(sge) : 0;
        work.bytes = any ? Sge.length(sge) : 0;
        work.lkey = any ? Sge.lkey(sge) : 0;
        if (SendRequest.sges(wr) > qp.capacity.sendPieces()) {
            verbs.misuse("a request of " + SendRequest.sges(wr) + " pieces");
        }
        if (work.isInline()) {
            if (work.bytes > qp.capacity.inline()) {
                verbs.misuse(work.bytes + " bytes inline");
            }
            work.take();
        }
        posted.addLast(work);
        if (work.opcode == SendRequest.IBV_WR_RDMA_WRITE && !late.isEmpty()) {
            late.removeIf(each -> !receives(verbs.byNumber(each.peer)));
            if (late.stream().anyMatch(each -> each.overlaps(work))) {
                verbs.misuse("written again before the peer had ended the queue pair of before");
            }
        }
        FakePort port = verbs.portOf(qp);
        work.lost = port != null && port.losesFirst && !qp.used;
        qp.used = true;
        if (port != null && port.carried == 0 && !work.hasImmediate()) {
            port.ahead += work.bytes;
        }
    }

    /// Lets the next requests of an opcode complete with errors.
    void failNext(int opcode, int... statuses) {
        failingOpcode = opcode;
        failingStatuses.clear();
        for (int status : statuses) {
            failingStatuses.addLast(status);
        }
    }

    /// Carries out what can be.
    void deliver() {
        pass++;
        for (int left = posted.size(); left > 0; left--) {
            Work work = posted.pollFirst();
            if (work == null) {
                return; // one has failed, and those behind it with it
            }
            FakeObjects.Qp qp = work.qp;
            FakeObjects.Qp peer = qp.peer == null ? null : verbs.byNumber(qp.peer.peer());
            if (qp.state == VerbsQueuePairs.IBV_QPS_ERR) {
                finish(work, WorkCompletion.IBV_WC_WR_FLUSH_ERR);
            } else if (!receives(peer)
                    || !isWay(qp, peer)
                    || (verbs.isHolding() && !work.hasImmediate())
                    || verbs.isSilent(qp)
                    || verbs.isSilent(peer)
                    || isLost(work)
                    || hasToWait(work)) {
                posted.addLast(work); // sent again and again: longer than a test lasts
            } else {
                deliver(work, peer);
            }
        }
    }

    private boolean isLost(Work work) {
        FakePort port = verbs.portOf(work.qp);
        return (work.lost && posted.stream().noneMatch(other -> other.qp == work.qp))
                || (port != null && work.bytes > port.narrow);
    }

    /// Whether packets of a queue pair are taken by another one: devices drop those that come from
    /// elsewhere, have other numbers, or are too long.
    private boolean isWay(FakeObjects.Qp from, FakeObjects.Qp to) {
        VerbsQueuePairs.Receiving there = from.peer;
        VerbsQueuePairs.Receiving back = to.peer;
        FakePort source = verbs.portOf(from);
        FakePort target = verbs.portOf(to);
        if (there == null
                || back == null
                || from.sending == null
                || source == null
                || target == null) {
            return false;
        }
        return back.peer() == from.number
                && back.firstPacket() == from.sending.firstPacket()
                && there.mtu() == back.mtu()
                && there.mtu() <= Math.min(source.mtu, target.mtu)
                && from.pkey == to.pkey
                && source.ethernet == target.ethernet
                && isAddress(there.path(), target)
                && isAddress(back.path(), source);
    }

    private static boolean isAddress(VerbsQueuePairs.Path path, FakePort port) {
        if (!path.global()) {
            return !port.ethernet && !port.global && path.lid() == port.lid;
        }
        for (int i = 0; i < port.gids.size(); i++) {
            if (Arrays.equals(port.gids.get(i).gid(), path.gid())) {
                return port.ethernet || path.lid() == port.lid;
            }
        }
        return false;
    }

    private static boolean receives(FakeObjects.@Nullable Qp qp) {
        return qp != null
                && qp.state >= VerbsQueuePairs.IBV_QPS_RTR
                && qp.state <= VerbsQueuePairs.IBV_QPS_RTS;
    }

    /// Whether what has a pace is not that far yet: this or what was posted before it.
    private boolean hasToWait(Work work) {
        FakePort port = verbs.portOf(work.qp);
        if (port == null || port.bytesEachTick == 0 || work.hasImmediate()) {
            return false;
        }
        if (work.qp.waited == pass || port.allowed <= 0) {
            work.qp.waited = pass;
            return true;
        }
        port.allowed -= work.bytes;
        port.carried += work.bytes;
        return false;
    }

    /// Whether a port has carried everything of one-sided transfers that was posted to it.
    boolean isIdle(FakePort port) {
        return posted.stream()
                .noneMatch(work -> !work.hasImmediate() && verbs.portOf(work.qp) == port);
    }

    /// A millisecond has passed. What was not used is lost, as on a wire.
    private void tick() {
        if (!withholding.isEmpty()) {
            withholding.removeIf(this::isOver);
        }
        boolean any = false;
        for (FakePort port : verbs.ports.values()) {
            if (port.bytesEachTick > 0) {
                port.allowed = Math.min(port.allowed, 0) + port.bytesEachTick;
                any = true;
            }
        }
        if (any) {
            deliver();
        }
    }

    void withhold(FakeObjects.Qp qp) {
        withholding.add(qp);
    }

    /// @return whether the completions of a queue pair were withheld long enough, and have come
    private boolean isOver(FakeObjects.Qp qp) {
        List<long[]> due = qp.withheld;
        if (due == null || --qp.withheldFor > 0) {
            return due == null;
        }
        qp.withheld = null;
        if (verbs.byNumber(qp.number) == qp) {
            for (long[] each : due) {
                verbs.complete(
                        qp, each[0], (int) each[1], (int) each[2], (int) each[3], (int) each[4]);
            }
        }
        return true;
    }

    private void deliver(Work work, FakeObjects.Qp peer) {
        if (!work.hasImmediate()
                && work.opcode != SendRequest.IBV_WR_RDMA_WRITE
                && !work.isRead()) {
            verbs.misuse("opcode " + work.opcode);
        }
        int refused = refusal(work, peer);
        if (refused != WorkCompletion.IBV_WC_SUCCESS) {
            acknowledge(); // those before it are done
            finish(work, refused);
            if (refused == WorkCompletion.IBV_WC_REM_ACCESS_ERR
                    || refused == WorkCompletion.IBV_WC_RETRY_EXC_ERR) { // whose word was lost
                fail(peer, WorkCompletion.IBV_WC_WR_FLUSH_ERR);
            }
            return;
        }
        boolean keeps =
                verbs.isLazy() && work.opcode == SendRequest.IBV_WR_RDMA_WRITE && work.bytes > 0;
        if (!keeps && !kept.isEmpty()) {
            writeKept(verbs.deviceOf(peer));
        }
        if (work.isRead()) {
            MemorySegment.copy(Raw.ALL, work.remote, Raw.ALL, work.local, work.bytes);
        } else {
            if (!work.isInline()) {
                work.take();
            }
            if (keeps) {
                byte[] bytes = work.copy.asSlice(0, work.bytes).toArray(JAVA_BYTE);
                kept.addLast(new Kept(verbs.deviceOf(peer), work.remote, bytes));
            } else {
                MemorySegment.copy(work.copy, 0, Raw.ALL, work.remote, work.bytes);
            }
        }
        if (work.hasImmediate()) {
            peer.receives--;
            verbs.complete(
                    peer,
                    0,
                    WorkCompletion.IBV_WC_SUCCESS,
                    WorkCompletion.IBV_WC_RECV_RDMA_WITH_IMM,
                    work.bytes,
                    work.immediate);
        }
        arrived.addLast(work);
        isOwing = true;
    }

    /// Puts into memory what a device has taken and kept, in order.
    private void writeKept(String device) {
        kept.removeIf(
                each -> {
                    if (each.device.equals(device)) {
                        MemorySegment.copy(
                                MemorySegment.ofArray(each.bytes),
                                0,
                                Raw.ALL,
                                each.address,
                                each.bytes.length);
                    }
                    return each.device.equals(device);
                });
    }

    void forgetKept() {
        kept.clear();
        late.clear();
    }

    /// @return the status that a request which may not be carried out ends with
    private int refusal(Work work, FakeObjects.Qp peer) {
        FakeObjects.Qp qp = work.qp;
        if (failingOpcode == work.opcode && !failingStatuses.isEmpty()) {
            return failingStatuses.removeFirst();
        }
        if (work.isRead() && qp.reads == 0) {
            return WorkCompletion.IBV_WC_LOC_QP_OP_ERR;
        }
        if (!work.isInline()
                && work.bytes > 0
                && !verbs.allows(work.lkey, qp.pd, work.local, work.bytes, work.localAccess())) {
            return WorkCompletion.IBV_WC_LOC_PROT_ERR;
        }
        if (work.bytes > 0
                && ((peer.access & work.remoteAccess()) == 0
                        || !verbs.allows(
                                work.rkey,
                                peer.pd,
                                work.remote,
                                work.bytes,
                                work.remoteAccess()))) {
            return WorkCompletion.IBV_WC_REM_ACCESS_ERR;
        }
        if (work.hasImmediate() && peer.receives == 0) {
            verbs.misuse("the receiver was not ready");
            return WorkCompletion.IBV_WC_RNR_RETRY_EXC_ERR;
        }
        return WorkCompletion.IBV_WC_SUCCESS;
    }

    void acknowledge() {
        while (!arrived.isEmpty()) {
            Work work = arrived.removeFirst();
            if (!work.isInline()
                    && !work.isRead()
                    && MemorySegment.mismatch(
                                    work.copy,
                                    0,
                                    work.bytes,
                                    Raw.ALL,
                                    work.local,
                                    work.local + work.bytes)
                            >= 0) {
                verbs.misuse("memory was written to that a request still reads");
            }
            finish(work, WorkCompletion.IBV_WC_SUCCESS);
        }
        isOwing = false;
    }

    private void acknowledgeLate() {
        while (true) {
            synchronized (verbs) {
                acknowledge();
                tick();
                try {
                    verbs.wait(1);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
    }

    private void finish(Work work, int status) {
        FakeObjects.Qp qp = work.qp;
        qp.sends--;
        boolean failed = status != WorkCompletion.IBV_WC_SUCCESS;
        if (WorkCompletion.isOfRequest(status)) {
            verbs.announce(qp);
        }
        if (failed || (work.flags & SendRequest.IBV_SEND_SIGNALED) != 0) {
            verbs.complete(qp, work.id, status, WorkCompletion.IBV_WC_RDMA_WRITE, 0, 0);
        }
        free.addLast(work);
        if (failed) {
            fail(qp, WorkCompletion.IBV_WC_WR_FLUSH_ERR);
        }
    }

    /// Moves a queue pair to the error state: what was posted completes, the first request with the
    /// status that is given.
    void fail(FakeObjects.Qp qp, int first) {
        if (qp.state == VerbsQueuePairs.IBV_QPS_ERR) {
            return;
        }
        qp.state = VerbsQueuePairs.IBV_QPS_ERR;
        int status = flush(qp, arrived, first);
        int unused = flush(qp, posted, status);
        for (; qp.receives > 0; qp.receives--) {
            verbs.complete(
                    qp, 0, WorkCompletion.IBV_WC_WR_FLUSH_ERR, WorkCompletion.IBV_WC_RECV, 0, 0);
        }
    }

    /// Completes all requests of a queue pair that are in a list.
    ///
    /// @return what the next one completes with
    private int flush(FakeObjects.Qp qp, ArrayDeque<Work> works, int first) {
        int status = first;
        for (Iterator<Work> all = works.iterator(); all.hasNext(); ) {
            Work work = all.next();
            if (work.qp == qp) {
                all.remove();
                qp.sends--;
                verbs.complete(qp, work.id, status, WorkCompletion.IBV_WC_RDMA_WRITE, 0, 0);
                status = WorkCompletion.IBV_WC_WR_FLUSH_ERR;
                giveUp(work);
            }
        }
        return status;
    }

    /// Its queue pair sends it no more.
    private void giveUp(Work work) {
        VerbsQueuePairs.Receiving to = work.qp.peer;
        if (work.opcode == SendRequest.IBV_WR_RDMA_WRITE && to != null) {
            late.addLast(new Late(to.peer(), work.remote, work.bytes));
        }
        free.addLast(work);
    }

    /// The memory of a queue pair's requests may be gone at any moment.
    void forget(FakeObjects.Qp qp) {
        forget(qp, posted);
        forget(qp, arrived);
    }

    private void forget(FakeObjects.Qp qp, ArrayDeque<Work> works) {
        for (Iterator<Work> all = works.iterator(); all.hasNext(); ) {
            Work work = all.next();
            if (work.qp == qp) {
                all.remove();
                giveUp(work);
            }
        }
    }
}
