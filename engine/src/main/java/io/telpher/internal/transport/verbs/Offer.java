package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// What each side says of its queue pair and ring: `OFFER` and `ANSWER` of `docs/rdma.md`.
///
/// @param status one of the constants; of any but [#GOOD] nothing else but the reason counts
/// @param qpn 24-bit number of the queue pair
/// @param psn number of its first packet
/// @param gid 16 bytes: the sender's
/// @param peerGid 16 bytes: whom it means
/// @param lid the sender's, 0 on Ethernet
/// @param mtu of its port, as the library codes it
/// @param ethernet its link layer
/// @param global whether packets to it must carry GIDs, also within an InfiniBand subnet
/// @param ring address of its ring
/// @param rkey key of its ring
/// @param oneSided whether it answers what is asked for one-sided transfers
/// @param reason why the status is not good
@SuppressWarnings("ArrayRecordComponent") // comes from a message, goes into one
record Offer(
        int status,
        int qpn,
        int psn,
        byte[] gid,
        byte[] peerGid,
        int lid,
        int mtu,
        boolean ethernet,
        boolean global,
        long ring,
        int rkey,
        boolean oneSided,
        String reason) {
    static final int GOOD = 0;
    static final int NO_SUCH_RAIL = 1;
    static final int FAILED = 2;

    /// No packet finds its way to the rail of the other side.
    static final int NO_WAY = 3;

    private static final byte[] MAGIC = "TLPV".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] READY = "TLPR".getBytes(StandardCharsets.US_ASCII);
    private static final short VERSION = 1;
    private static final int BYTES = 96;
    private static final int MOST_REASON = 512;
    /// Queue pairs and packets have numbers below this.
    static final int NUMBERS = 1 << 24;

    /// Bit of the capabilities.
    private static final long ONE_SIDED = 1;

    /// Bit of the port's flags.
    private static final short GLOBAL = 1;

    /// An answer that nothing comes of.
    static Offer refusal(int status, String reason) {
        byte[] none = new byte[Rail.GID_BYTES];
        return new Offer(status, 0, 0, none, none, 0, 1, false, false, 0, 0, false, reason);
    }

    /// The same port with another queue pair.
    Offer with(int number, int packet) {
        return new Offer(
                status, number, packet, gid, peerGid, lid, mtu, ethernet, global, 0, 0, oneSided,
                reason);
    }

    void send(Channel channel, Deadline deadline) {
        byte[] why = reason.getBytes(StandardCharsets.UTF_8);
        int whyBytes = Math.min(why.length, MOST_REASON);
        channel.send(
                ByteBuffer.allocate(BYTES + whyBytes)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .put(MAGIC)
                        .putShort(VERSION)
                        .putShort((short) status)
                        .putLong(oneSided ? ONE_SIDED : 0)
                        .putInt(qpn)
                        .putInt(psn)
                        .put(gid)
                        .put(peerGid)
                        .putInt(lid)
                        .put((byte) mtu)
                        .put((byte) (ethernet ? 1 : 0))
                        .putShort(global ? GLOBAL : 0)
                        .putLong(ring)
                        .putInt(rkey)
                        .putInt(Ring.BYTES)
                        .putInt(whyBytes)
                        .putLong(0)
                        .putInt(0)
                        .put(why, 0, whyBytes)
                        .array(),
                deadline);
    }

    /// Receives what the other side says.
    ///
    /// @throws TelpherException.ProtocolViolation when it makes no sense
    static Offer receive(Channel channel, Deadline deadline) {
        return read(channel.receive(BYTES, deadline), channel, deadline);
    }

    /// @param bytes all but the reason
    private static Offer read(byte[] bytes, Channel channel, Deadline deadline) {
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        byte[] magic = new byte[MAGIC.length];
        in.get(magic);
        int version = in.getShort();
        int status = in.getShort();
        boolean oneSided = (in.getLong() & ONE_SIDED) != 0;
        int qpn = in.getInt();
        int psn = in.getInt();
        byte[] gid = new byte[Rail.GID_BYTES];
        byte[] peerGid = new byte[Rail.GID_BYTES];
        in.get(gid).get(peerGid);
        int lid = in.getInt();
        int mtu = in.get();
        boolean ethernet = in.get() == 1;
        boolean global = (in.getShort() & GLOBAL) != 0;
        long ring = in.getLong();
        int rkey = in.getInt();
        int ringBytes = in.getInt();
        int reasonBytes = in.getInt();
        check(channel, Arrays.equals(magic, MAGIC), "magic", Arrays.toString(magic));
        check(channel, version == VERSION, "version", version);
        check(channel, reasonBytes >= 0 && reasonBytes <= MOST_REASON, "reason", reasonBytes);
        String reason =
                new String(channel.receive(reasonBytes, deadline), StandardCharsets.UTF_8)
                        .replaceAll("\\p{Cntrl}", "?");
        if (status != GOOD) {
            return refusal(status, reason);
        }
        check(channel, qpn > 0 && qpn < NUMBERS, "queue pair number", qpn);
        check(channel, psn >= 0 && psn < NUMBERS, "packet number", psn);
        check(channel, lid >= 0 && lid <= 0xffff, "LID", lid);
        check(channel, mtu >= 1 && mtu <= 5, "MTU", mtu);
        check(channel, ringBytes == Ring.BYTES, "ring size", ringBytes);
        return new Offer(
                status, qpn, psn, gid, peerGid, lid, mtu, ethernet, global, ring, rkey, oneSided,
                reason);
    }

    private static void check(Channel channel, boolean good, String what, Object value) {
        if (!good) {
            throw new TelpherException.ProtocolViolation(
                    "%s: the peer's offer of a queue pair has the %s %s"
                            .formatted(channel.text(), what, value));
        }
    }

    /// Tells the other side that this one can receive; the acceptor echoes it.
    static void sendReady(Channel channel, Deadline deadline) {
        channel.send(READY.clone(), deadline);
    }

    /// Waits for [#sendReady].
    ///
    /// @return what the other side refuses with in its place, or null
    static @Nullable Offer awaitReady(Channel channel, Deadline deadline) {
        byte[] got = channel.receive(READY.length, deadline);
        if (Arrays.equals(got, MAGIC)) {
            byte[] all = Arrays.copyOf(got, BYTES);
            byte[] rest = channel.receive(BYTES - got.length, deadline);
            System.arraycopy(rest, 0, all, got.length, rest.length);
            return read(all, channel, deadline);
        }
        check(channel, Arrays.equals(got, READY), "last word", Arrays.toString(got));
        return null;
    }
}
