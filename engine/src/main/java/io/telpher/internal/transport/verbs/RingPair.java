package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.Sge;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.spi.Deadline;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// One side of a lane: its queue pair, its ring, and the mirror of the peer's ring. Made before the
/// peer is known, so that it can be told of; belongs to the lane from [#connect] on.
final class RingPair implements AutoCloseable {
    private static final int PAGE = 4096;

    /// Messages of credit alone that may be in the send queue at a time.
    static final int CREDITS = 32;

    /// A receive request for each record that the ring has room for; for messages of credit alone,
    /// of which eight can be outstanding, and [#PROOFS]; and for those that are posted again late.
    static final int RECEIVES = Ring.RECORDS + 64;

    /// Inline: a frame's header and a little more.
    private static final QueuePair.Shape SHAPE =
            new QueuePair.Shape(
                    "a lane",
                    Ring.RECORDS + CREDITS,
                    RECEIVES,
                    192,
                    VerbsMemory.IBV_ACCESS_REMOTE_WRITE,
                    false);

    /// Nanoseconds between two looks for the first acknowledgement.
    private static final long PATIENCE = 50_000;

    /// Nanoseconds after which another message follows that has the same to show.
    private static final long REPEAT = 150_000_000;

    /// As many of those as there are at most: fewer than the peer's receive requests that are over.
    private static final int PROOFS = 16;

    private final Device device;
    private final QueuePair queuePair;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment ring;
    private final MemorySegment mirror;
    private Provider.@Nullable Registration ringKeys;
    private Provider.@Nullable Registration mirrorKeys;

    /// Makes a queue pair that can receive as soon as it is connected.
    ///
    /// @throws TelpherException.NativeFailure when a verb fails; nothing is left then
    RingPair(Device device, Rail rail, IbSettings settings) {
        this.device = device;
        device.retain();
        QueuePair made = null;
        boolean complete = false;
        try {
            this.ring = arena.allocate(Ring.BYTES, PAGE);
            this.mirror = arena.allocate(Ring.BYTES, PAGE);
            made = new QueuePair(device, rail, settings, SHAPE);
            // Without relaxed ordering: what is here is looked at.
            ringKeys =
                    device.register(
                            ring.address(),
                            Ring.BYTES,
                            VerbsMemory.IBV_ACCESS_LOCAL_WRITE
                                    | VerbsMemory.IBV_ACCESS_REMOTE_WRITE);
            mirrorKeys = device.register(mirror.address(), Ring.BYTES, 0);
            int error = RingInput.post(made, RECEIVES);
            if (error != 0) {
                throw Errno.failure(error, "ibv_post_recv", made.number());
            }
            complete = true;
        } finally {
            if (!complete) {
                end(made);
            }
        }
        this.queuePair = made;
    }

    /// What the peer has to know of it.
    ///
    /// @param oneSided see [Offer]
    Offer offer(byte[] peerGid, boolean oneSided) {
        Rail rail = queuePair.rail();
        Provider.Registration keys = ringKeys;
        return new Offer(
                Offer.GOOD,
                queuePair.number(),
                queuePair.psn(),
                rail.gid(),
                peerGid,
                rail.lid(),
                rail.mtu(),
                rail.ethernet(),
                rail.global(),
                ring.address(),
                keys == null ? 0 : keys.rkey(),
                oneSided,
                "");
    }

    /// Lets it receive from the peer and send to it.
    void connect(Offer peer) {
        queuePair.connect(peer, QueuePair.NO_READS);
    }

    /// Shows that packets of every size reach the peer, and answers this side: sends messages of
    /// credit alone, whose bytes nobody looks at, until one of them is acknowledged. A device
    /// repeats a packet that was lost when its time-out is over, which may be seconds, or as soon
    /// as the peer's has seen a later one: so another message follows every now and then. Returns
    /// when all are acknowledged, so that the lane meets none of their completions. Blocks.
    ///
    /// @throws TelpherException.TimedOut when there is no answer
    void prove(Offer peer, Deadline deadline) {
        try (Arena ours = Arena.ofConfined()) {
            long request = proof(ours, peer);
            long wc = ours.allocate(WorkCompletion.BYTES, 8).address();
            long due = System.nanoTime();
            int sent = 0;
            int acknowledged = 0;
            while (sent == 0 || acknowledged < sent) {
                if (acknowledged == 0 && sent < PROOFS && System.nanoTime() - due >= 0) {
                    check(queuePair.postSend(request), "ibv_post_send");
                    sent++;
                    due += REPEAT;
                }
                int n = queuePair.poll(1, wc);
                check(Math.min(n, 0), "ibv_poll_cq");
                if (n == 0) {
                    if (deadline.passed()) {
                        throw unproven(peer, "no answer in time");
                    }
                    LockSupport.parkNanos(PATIENCE);
                } else if (WorkCompletion.status(wc) != WorkCompletion.IBV_WC_SUCCESS) {
                    throw unproven(peer, WorkCompletion.text(WorkCompletion.status(wc)));
                } else if ((WorkCompletion.opcode(wc) & WorkCompletion.IBV_WC_RECV) == 0) {
                    acknowledged++;
                } else {
                    // The peer has proven its direction before.
                    check(RingInput.post(queuePair, 1), "ibv_post_recv");
                }
            }
        }
    }

    /// A request for a message of credit alone, as long as a packet can be.
    private long proof(Arena arena, Offer peer) {
        long sge = arena.allocate(Sge.BYTES, 8).address();
        Provider.Registration keys = mirrorKeys;
        Sge.set(sge, mirror.address(), Ring.PROOF, keys == null ? 0 : keys.lkey());
        long request = arena.allocate(SendRequest.BYTES, 8).address();
        SendRequest.set(
                request,
                0,
                SendRequest.IBV_WR_RDMA_WRITE_WITH_IMM,
                SendRequest.IBV_SEND_SIGNALED,
                sge,
                1);
        SendRequest.remote(request, peer.ring(), peer.rkey());
        SendRequest.immediate(request, Ring.creditOnly(0));
        return request;
    }

    private void check(int error, String call) {
        if (error != 0) {
            throw Errno.failure(error, call, queuePair.number());
        }
    }

    private TelpherException unproven(Offer peer, String why) {
        return new TelpherException.TimedOut(
                "%s: the first packet to %s came to nothing (%s): see that UDP port 4791 is open on"
                                .formatted(queuePair.rail(), Rail.text(peer.gid()), why)
                        + " RoCE, and that the whole way has the MTU of both ports");
    }

    QueuePair queuePair() {
        return queuePair;
    }

    /// @return the sending half; once
    RingOutput output(Offer peer) {
        Provider.Registration keys = mirrorKeys;
        return new RingOutput(
                queuePair, arena, mirror, keys == null ? 0 : keys.lkey(), peer.ring(), peer.rkey());
    }

    /// @return the receiving half; once
    RingInput input(RingOutput output) {
        return new RingInput(queuePair, arena, output, ring);
    }

    /// First the queue pair, then what it touches; what the device may still touch stays.
    @Override
    public void close() {
        end(queuePair);
    }

    private void end(@Nullable QueuePair made) {
        try {
            if (made == null || made.close()) {
                boolean quiet = deregister(ringKeys);
                quiet &= deregister(mirrorKeys);
                if (quiet) {
                    arena.close();
                }
            }
        } finally {
            device.release();
        }
    }

    private boolean deregister(Provider.@Nullable Registration keys) {
        return keys == null
                || device.ended("ibv_dereg_mr", device.provider().deregister(keys.handle()));
    }
}
