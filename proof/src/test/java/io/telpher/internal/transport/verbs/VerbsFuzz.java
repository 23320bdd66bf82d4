package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.Lane;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;

/// What the RDMA transport takes in from a peer, by the first byte: its locator, the offer of a
/// queue pair, a message of the control stream. Each makes sense within the limits that the code
/// behind relies on, or is turned away.
public final class VerbsFuzz {
    private VerbsFuzz() {}

    /// @param data a byte of choices, then the bytes that came in
    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length == 0) {
            return;
        }
        byte[] bytes = Arrays.copyOfRange(data, 1, data.length);
        switch (data[0] % 3) {
            case 0 -> locator(bytes);
            case 1 -> offer(bytes);
            default -> message(bytes);
        }
    }

    private static void locator(byte[] bytes) {
        Rail rail;
        try {
            rail = Rail.decode(bytes);
        } catch (IllegalArgumentException e) {
            return;
        }
        check(rail.prefix() <= (rail.inet4() ? 32 : 128) && rail.mbps() >= 0, rail);
        check(rail.prefix() < 0 || rail.covers(rail), rail);
        // A name that is no text has become longer, perhaps longer than a locator can say.
        if (rail.device().indexOf('\ufffd') < 0) {
            check(Rail.decode(rail.encode()).equals(rail), rail);
        }
    }

    private static void offer(byte[] bytes) {
        Deadline deadline = Deadline.in(Duration.ofSeconds(10));
        Offer offer;
        try {
            offer = Offer.receive(new Bytes(bytes), deadline);
        } catch (TelpherException.ProtocolViolation | TelpherException.PeerLost e) {
            return;
        }
        check(offer.reason().chars().noneMatch(Character::isISOControl), offer);
        if (offer.status() == Offer.GOOD) {
            check(offer.qpn() > 0 && offer.qpn() < Offer.NUMBERS, offer);
            check(offer.psn() >= 0 && offer.psn() < Offer.NUMBERS, offer);
            check(offer.mtu() >= 1 && offer.mtu() <= 5, offer);
        }
        Bytes again = new Bytes(new byte[0]);
        offer.send(again, deadline);
        Offer read = Offer.receive(new Bytes(again.sent), deadline);
        check(read.status() == offer.status() && read.qpn() == offer.qpn(), read);
    }

    /// A lane gives whole headers; how long the payload is it has checked.
    private static void message(byte[] bytes) {
        byte[] frame = Arrays.copyOf(bytes, Math.max(Lane.HEADER, bytes.length));
        ControlMessage message = ControlMessage.decode(frame);
        switch (message) {
            case null -> {
                return;
            }
            case ControlMessage.Resolved m when m.status() == ControlMessage.Status.GOOD -> {
                // Every byte has a key.
                long pieces = m.size() == 0 ? 0 : (m.size() - 1) / m.pieceBytes() + 1;
                check(m.size() >= 0 && pieces <= m.keys().length, m);
            }
            case ControlMessage.Offered m ->
                    check(m.index() >= 0 && m.index() < ActivePairs.COUNT, m);
            case ControlMessage.Accepted m when m.status() == ControlMessage.Status.GOOD ->
                    check(m.number() > 0 && m.number() < Offer.NUMBERS, m);
            default -> {}
        }
        byte[] written = message.encode();
        ControlMessage again = ControlMessage.decode(written);
        check(again != null && Arrays.equals(again.encode(), written), message);
    }

    private static void check(boolean right, Object what) {
        if (!right) {
            throw new AssertionError(what + " was let in, or was read again as another");
        }
    }

    /// A stream of given bytes.
    private static final class Bytes implements Channel {
        private final ByteBuffer rest;
        private byte[] sent = new byte[0];

        Bytes(byte[] bytes) {
            rest = ByteBuffer.wrap(bytes);
        }

        @Override
        public void send(byte[] bytes, Deadline deadline) {
            sent = bytes;
        }

        @Override
        public byte[] receive(int length, Deadline deadline) {
            if (length < 0 || length > 1 << 16) {
                throw new AssertionError("asked for " + length + " bytes at once");
            }
            if (length > rest.remaining()) {
                throw new TelpherException.PeerLost("the peer has left");
            }
            byte[] bytes = new byte[length];
            rest.get(bytes);
            return bytes;
        }

        @Override
        public String text() {
            return "the fuzzer";
        }

        @Override
        public void close() {}
    }
}
