package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The two sides of the handshake that makes a queue pair on each side and connects them. Blocks,
/// at most until the deadline; who fails leaves nothing behind, and the other side learns of it by
/// an answer, or by the end of the stream, which the caller closes.
final class Setup {
    /// How long the peer's device may take to acknowledge the first packets: some microseconds, or
    /// lost ones are sent again. Other ways to the peer wait meanwhile.
    private static final Duration PROOF = Duration.ofSeconds(2);

    /// A queue pair that is connected, and what the peer has said.
    record Connected(RingPair rings, Offer peer) {}

    private record Place(Device device, Rail rail) {}

    private final List<Device> devices;
    private final IbSettings settings;
    private final Ways ways;
    private final boolean oneSided;

    /// @param ways gets to know what came of pairs that were tried
    /// @param oneSided whether this side answers what peers ask for one-sided transfers
    Setup(List<Device> devices, IbSettings settings, Ways ways, boolean oneSided) {
        this.devices = devices;
        this.settings = settings;
        this.ways = ways;
        this.oneSided = oneSided;
    }

    /// The side that dialled.
    ///
    /// @throws TelpherException.Unsupported when the rail is not there any more, here or at the
    ///     peer
    Connected initiate(Channel stream, Rails.Pair pair, Deadline deadline) {
        List<String> remarks = new ArrayList<>();
        Place here = find(pair.local().gid(), remarks);
        if (here == null) {
            throw new TelpherException.Unsupported(
                    "%s: the port has lost this address%s".formatted(pair.local(), tail(remarks)));
        }
        RingPair rings = new RingPair(here.device(), here.rail(), settings);
        boolean done = false;
        try {
            rings.offer(pair.remote().gid(), oneSided).send(stream, deadline);
            Offer answer = Offer.receive(stream, deadline);
            checkAccepted(answer, pair);
            checkLinkLayer(answer, here.rail());
            try {
                rings.connect(answer);
                rings.prove(answer, deadline.or(PROOF));
            } catch (TelpherException.TimedOut | TelpherException.NativeFailure e) {
                if (isOfTheWay(e, deadline)) {
                    ways.failed(pair);
                }
                throw e;
            }
            Offer.sendReady(stream, deadline);
            // Without the echo a peer that gave up meanwhile would not be noticed: what is sent
            // into a stream that the other end has closed is not refused.
            Offer refusal = Offer.awaitReady(stream, deadline);
            if (refusal != null) {
                checkAccepted(refusal, pair);
            }
            ways.worked(pair);
            done = true;
            return new Connected(rings, answer);
        } finally {
            if (!done) {
                rings.close();
            }
        }
    }

    /// The side that was dialled. It can receive before it answers, and sends only when the other
    /// one can: it has the other direction to prove then, whose way may be another one.
    Connected accept(Channel stream, Deadline deadline) {
        Offer offer = Offer.receive(stream, deadline);
        if (offer.status() != Offer.GOOD) {
            throw new TelpherException.ProtocolViolation(
                    stream.text() + ": an offer that refuses: " + offer.reason());
        }
        List<String> remarks = new ArrayList<>();
        Place here = find(offer.peerGid(), remarks);
        if (here == null) {
            String reason =
                    "no active port here has the address %s%s"
                            .formatted(Rail.text(offer.peerGid()), tail(remarks));
            Offer.refusal(Offer.NO_SUCH_RAIL, reason).send(stream, deadline);
            throw new TelpherException.Unsupported(stream.text() + ": " + reason);
        }
        RingPair rings = null;
        boolean done = false;
        try {
            checkLinkLayer(offer, here.rail());
            rings = new RingPair(here.device(), here.rail(), settings);
            rings.connect(offer);
            rings.offer(offer.gid(), oneSided).send(stream, deadline);
            Offer refusal = Offer.awaitReady(stream, deadline);
            if (refusal != null) {
                throw new TelpherException.ProtocolViolation(
                        stream.text() + ": refuses after it has asked: " + refusal.reason());
            }
            rings.prove(offer, deadline.or(PROOF));
            Offer.sendReady(stream, deadline);
            done = true;
            return new Connected(rings, offer);
        } catch (TelpherException.NativeFailure | TelpherException.Unsupported e) {
            refuse(e, here.rail() + ": " + e.getMessage(), stream, deadline);
            throw e;
        } catch (TelpherException.TimedOut e) {
            refuse(e, String.valueOf(e.getMessage()), stream, deadline); // it names the rail
            throw e;
        } finally {
            if (!done && rings != null) {
                rings.close();
            }
        }
    }

    private static void refuse(
            TelpherException cause, String reason, Channel stream, Deadline deadline) {
        int status = isOfTheWay(cause, deadline) ? Offer.NO_WAY : Offer.FAILED;
        try {
            Offer.refusal(status, reason).send(stream, deadline);
        } catch (TelpherException unheard) {
            cause.addSuppressed(unheard);
        }
    }

    /// Whether a failure says that packets find no way between two rails: that of the proof, and
    /// what the kernel says when it cannot resolve an address. A peer that is slow, or a side that
    /// is short of memory or descriptors, says nothing of the way; nor does a proof that had less
    /// than its time since all of the deadline's was spent.
    private static boolean isOfTheWay(TelpherException failure, Deadline deadline) {
        return failure instanceof TelpherException.NativeFailure of
                ? of.errno() == Errno.ETIMEDOUT
                        || of.errno() == Errno.EHOSTUNREACH
                        || of.errno() == Errno.ENETUNREACH
                : failure instanceof TelpherException.TimedOut && !deadline.passed();
    }

    /// @throws TelpherException.Unsupported when it refuses
    private void checkAccepted(Offer answer, Rails.Pair pair) {
        if (answer.status() == Offer.GOOD) {
            return;
        }
        if (answer.status() == Offer.NO_WAY) {
            ways.failed(pair);
        }
        throw new TelpherException.Unsupported(
                "the peer says: " + answer.reason()); // who asks names the pair
    }

    private static void checkLinkLayer(Offer peer, Rail rail) {
        if (peer.ethernet() != rail.ethernet()) {
            throw new TelpherException.Unsupported(
                    "%s is %s, the other end %s"
                            .formatted(
                                    rail,
                                    rail.ethernet() ? "Ethernet" : "InfiniBand",
                                    peer.ethernet() ? "Ethernet" : "InfiniBand"));
        }
    }

    /// Looks for a GID among those that the ports have now.
    private @Nullable Place find(byte[] gid, List<String> remarks) {
        for (Device device : devices) {
            for (Rail rail : device.rails(settings, remarks)) {
                if (Arrays.equals(rail.gid(), gid)) {
                    return new Place(device, rail);
                }
            }
        }
        return null;
    }

    private static String tail(List<String> remarks) {
        return remarks.isEmpty() ? "" : " (" + String.join("; ", remarks) + ")";
    }
}
