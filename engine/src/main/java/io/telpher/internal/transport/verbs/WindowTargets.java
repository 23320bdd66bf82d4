package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.observe.Log;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import java.util.HashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// The passive side of a link's one-sided transfers: tells the peer where regions are, and has the
/// queue pairs that the peer's requests lead to. Thread-safe; what blocks runs on the control
/// executor.
final class WindowTargets {
    /// Nothing is posted to it: the peer's requests need none.
    private static final QueuePair.Shape SHAPE =
            new QueuePair.Shape(
                    "a target",
                    1,
                    1,
                    0,
                    VerbsMemory.IBV_ACCESS_REMOTE_WRITE | VerbsMemory.IBV_ACCESS_REMOTE_READ,
                    false);

    /// Reads that one queue pair answers at a time, where the device can.
    static final int READS = 16;

    private final EndpointContext endpoint;
    private final Registrations memory;
    private final Rail rail;
    private final IbSettings settings;
    private final Offer peer;
    private final ControlStream control;

    /// Regions that the peer was told of: it hears when they close. Guarded by itself.
    private final Set<Long> told = new HashSet<>();

    // Guarded by this, which is held while queue pairs are ended, and not while one connects.
    private final @Nullable QueuePair[] pairs = new QueuePair[ActivePairs.COUNT];
    private boolean closed;

    /// A queue pair could not be destroyed.
    private boolean stuck;

    WindowTargets(
            EndpointContext endpoint,
            Registrations memory,
            Rail rail,
            IbSettings settings,
            Offer peer,
            ControlStream control) {
        this.endpoint = endpoint;
        this.memory = memory;
        this.rail = rail;
        this.settings = settings;
        this.peer = peer;
        this.control = control;
    }

    static long name(int region, int generation) {
        return (long) region << 32 | (generation & 0xffffffffL);
    }

    /// @return reads that a queue pair of a device has under way or answers, at most
    static int reads(Device device) {
        VerbsDevices.Attributes limits = device.attributes();
        return Math.clamp(Math.min(limits.maxReadAtomic(), limits.maxInitReadAtomic()), 1, READS);
    }

    /// The peer asks where a region is.
    void resolve(ControlMessage.Resolve asked) {
        ControlMessage.Resolved answer;
        try {
            answer = find(asked);
        } catch (TelpherException.StaleRegion e) {
            answer = refusal(asked, ControlMessage.Status.STALE, e.getMessage());
        } catch (Throwable e) { // an Error too: the peer waits for the answer
            Log.warning("a region cannot be reached by RDMA", e);
            answer = refusal(asked, ControlMessage.Status.FAILED, text(e));
        }
        synchronized (told) {
            // Either this sees that the region is closed, or the one who closes it finds it here.
            if (answer.status() == ControlMessage.Status.GOOD) {
                if (endpoint.isOpen(asked.region(), asked.generation())) {
                    told.add(name(asked.region(), asked.generation()));
                } else {
                    answer = refusal(asked, ControlMessage.Status.STALE, "");
                }
            }
            control.send(answer);
        }
    }

    /// What the peer is told, also of what nobody expects: it must not wait for ever.
    static String text(Throwable e) {
        return e instanceof TelpherException
                ? String.valueOf(e.getMessage())
                : "internal failure: " + e;
    }

    private static ControlMessage.Resolved refusal(
            ControlMessage.Resolve asked, ControlMessage.Status status, @Nullable String reason) {
        return ControlMessage.Resolved.refusal(asked.id(), status, reason == null ? "" : reason);
    }

    private ControlMessage.Resolved find(ControlMessage.Resolve asked) {
        LocalRegion region = endpoint.region(asked.region(), asked.generation(), asked.key());
        if (region == null) {
            return refusal(
                    asked,
                    endpoint.isOpen(asked.region(), asked.generation())
                            ? ControlMessage.Status.DENIED
                            : ControlMessage.Status.STALE,
                    "");
        }
        int access = (region.access().canRead() ? 1 : 0) | (region.access().canWrite() ? 2 : 0);
        if (access == 0) {
            return refusal(asked, ControlMessage.Status.DENIED, "");
        }
        RegionKeys keys = memory.register(region);
        if (keys.pieces() > ControlMessage.MOST_PIECES) {
            return refusal(
                    asked,
                    ControlMessage.Status.FAILED,
                    "%s registers %d bytes at a time: this region would need %d keys, and %d can be"
                                    .formatted(
                                            memory.device(),
                                            keys.pieceBytes(),
                                            keys.pieces(),
                                            ControlMessage.MOST_PIECES)
                            + " named; use smaller regions");
        }
        int[] names = new int[keys.pieces()];
        for (int i = 0; i < names.length; i++) {
            names[i] = keys.remoteKey(i);
        }
        return new ControlMessage.Resolved(
                asked.id(),
                ControlMessage.Status.GOOD,
                access,
                keys.address(),
                keys.size(),
                keys.pieceBytes(),
                names,
                "");
    }

    /// A region was closed. Before its registration goes: the peer, whose request fails for want of
    /// it, has heard why by the time it has a queue pair again.
    void revoked(LocalRegion region) {
        synchronized (told) {
            if (told.remove(name(region.index(), region.generation()))) {
                control.send(new ControlMessage.Revoked(region.index(), region.generation()));
            }
        }
    }

    /// The peer offers a queue pair. The one before ends first: what was on its way to it never
    /// arrives. Blocks.
    void accept(ControlMessage.Offered offered) {
        QueuePair fresh = null;
        boolean used = false;
        try {
            synchronized (this) {
                if (closed) {
                    return;
                }
                endBefore(offered.index());
            }
            int reads = Math.clamp(offered.reads(), 1, reads(memory.device()));
            fresh = new QueuePair(memory.device(), rail, settings, SHAPE);
            fresh.connect(peer.with(offered.number(), offered.packet()), reads);
            used = use(offered, fresh, reads, memory.flushedBy());
        } catch (Throwable e) { // an Error too: the peer waits for the answer
            Log.warning("a queue pair for one-sided transfers", e);
            refuse(offered, text(e));
        } finally {
            if (!used && fresh != null) {
                boolean unused = fresh.close(); // the peer has not heard of it
            }
        }
    }

    /// @return false when this was closed meanwhile: the queue pair stays the caller's, as when
    ///     something is thrown
    /// @throws TelpherException.Unsupported as [#endBefore]
    private synchronized boolean use(
            ControlMessage.Offered offered,
            QueuePair fresh,
            int reads,
            @Nullable FlushWord flushedBy) {
        if (closed) {
            return false;
        }
        endBefore(offered.index());
        control.send(
                new ControlMessage.Accepted(
                        offered.index(),
                        offered.number(),
                        ControlMessage.Status.GOOD,
                        fresh.number(),
                        fresh.psn(),
                        reads,
                        flushedBy == null ? 0 : flushedBy.address(),
                        flushedBy == null ? 0 : flushedBy.key(),
                        ""));
        pairs[offered.index()] =
                fresh; // not before the word is out: what throws leaves it the caller's
        return true;
    }

    /// Makes room for another queue pair. Under the monitor.
    ///
    /// @throws TelpherException.Unsupported when one of the link, perhaps ended meanwhile by
    ///     another task, could not be destroyed
    private void endBefore(int index) {
        if (!end(index)) {
            throw new TelpherException.Unsupported("a queue pair before could not be ended");
        }
    }

    /// Under the monitor.
    ///
    /// @return false when what the peer sends to the queue pair may still arrive, for ever
    private boolean end(int index) {
        QueuePair old = pairs[index];
        pairs[index] = null;
        boolean gone = false;
        try {
            gone = old == null || old.close();
        } finally {
            stuck |= !gone;
        }
        return !stuck;
    }

    private void refuse(ControlMessage.Offered offered, String reason) {
        control.send(ControlMessage.Accepted.refusal(offered, reason));
    }

    /// Ends all queue pairs, but for one that is being connected, which the peer has not heard of.
    ///
    /// @return whether nothing of the peer's arrives over this link any more
    synchronized boolean close() {
        closed = true;
        boolean quiet = true;
        for (int i = 0; i < pairs.length; i++) {
            quiet &= end(i);
        }
        return quiet;
    }
}
