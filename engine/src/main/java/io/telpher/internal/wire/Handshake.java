package io.telpher.internal.wire;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.random.RandomGenerator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/// Proves both ends of a fresh channel to each other by the acceptor's secret (HMAC-SHA-256 over
/// nonces of both), and exchanges addresses. Until the proof is checked no state is made and
/// nothing is told.
///
/// `HELLO` (64 bytes) -> , <- `CHALLENGE` (32), `PROOF` (36 + address) ->, <- `WELCOME` (40 +
/// address), and for a connection's first channel `GO` (4) ->.
public final class Handshake {
    /// The version that this code speaks.
    public static final int VERSION = 1;

    /// What a channel is for.
    public enum Purpose {
        /// A new connection.
        CONNECT,
        /// One more lane of a connection.
        JOIN
    }

    /// The acceptor's answer.
    public enum Status {
        /// Go on.
        OK,
        /// The proof is wrong.
        BAD_SECRET,
        /// The initiator meant another incarnation.
        OTHER_INCARNATION,
        /// The acceptor is connecting to the initiator itself: that attempt counts.
        YIELD,
        /// There is no such connection to join.
        UNKNOWN_CONNECTION,
        /// The acceptor is closing.
        CLOSING,
        /// The connection has as many lanes as the acceptor wants.
        ENOUGH
    }

    /// The initiator's first words.
    ///
    /// @param purpose what the channel is for
    /// @param lane index of the lane that it will be
    /// @param connection id of the connection, chosen by its initiator
    /// @param from incarnation of the initiator
    /// @param to incarnation that it means, 0 for any
    /// @param capabilities bits of what it can do beside this version's basics. Both sides say
    ///     theirs and use what both know; a bit that one does not know is no error. The proofs
    ///     cover them, so nobody in between can talk two endpoints down.
    public record Hello(
            Purpose purpose, int lane, long connection, long from, long to, long capabilities) {}

    /// What the acceptor said of itself.
    ///
    /// @param address its address, without secret
    /// @param capabilities as in [Hello]
    public record Welcome(AddressCodec.Address address, long capabilities) {}

    private static final int HELLO_MAGIC = 0x48504c54; // "TLPH"
    private static final int CHALLENGE_MAGIC = 0x43504c54; // "TLPC"
    private static final int GO_MAGIC = 0x47504c54; // "TLPG"
    private static final int HELLO_BYTES = 64;
    private static final int CHALLENGE_BYTES = 32;
    private static final int CHALLENGE_CAPABILITIES = 8;
    private static final int MAC_BYTES = 32;
    private static final int NONCE_BYTES = 16;
    private static final int MAX_ADDRESS = 60_000;

    private Handshake() {}

    /// The acceptor's side up to the decision.
    public static final class Accepted {
        private final Channel channel;
        private final Proofs proofs;

        /// What the initiator said.
        public final Hello hello;

        /// The initiator's address, without secret.
        public final AddressCodec.Address address;

        private Accepted(
                Channel channel, Proofs proofs, Hello hello, AddressCodec.Address address) {
            this.channel = channel;
            this.proofs = proofs;
            this.hello = hello;
            this.address = address;
        }

        /// Answers.
        ///
        /// @param own the acceptor's address, without secret
        public void answer(Status status, byte[] own, Deadline deadline) {
            ByteBuffer out = little(4 + MAC_BYTES + 4 + own.length);
            out.putInt(status.ordinal());
            out.put(proofs.of("acceptor" + status.ordinal(), own));
            out.putInt(own.length).put(own);
            channel.send(out.array(), deadline);
        }

        /// Waits for [Handshake#go].
        ///
        /// @throws TelpherException.PeerLost when the initiator has thought better of it
        public void awaitGo(Deadline deadline) {
            if (little(channel.receive(4, deadline)).getInt() != GO_MAGIC) {
                throw new TelpherException.ProtocolViolation(
                        channel.text() + " did not finish the handshake");
            }
        }
    }

    /// The initiator's last word after `OK`, when the channel becomes a connection: it may have got
    /// one from the acceptor meanwhile, and closes the channel instead.
    public static void go(Channel channel, Deadline deadline) {
        channel.send(little(4).putInt(GO_MAGIC).array(), deadline);
    }

    /// Runs the initiator's side.
    ///
    /// @param random for this side's nonce
    /// @param own the initiator's address, without secret
    /// @return what the acceptor said of itself, when it said `OK`
    /// @throws TelpherException.AccessDenied when the acceptor does not accept the secret, or does
    ///     not know it
    /// @throws Refused when it gave another answer
    public static Welcome initiate(
            Channel channel,
            Hello hello,
            byte[] secret,
            byte[] own,
            RandomGenerator random,
            Deadline deadline)
            throws Refused {
        byte[] first = encode(hello, random);
        channel.send(first, deadline);
        byte[] challenge = channel.receive(CHALLENGE_BYTES, deadline);
        if (little(challenge).getInt() != CHALLENGE_MAGIC) {
            throw new TelpherException.ProtocolViolation(
                    "what answers at " + channel.text() + " is no Telpher endpoint");
        }
        int version = little(challenge).getShort(4);
        if (version < 1) {
            throw new TelpherException.ProtocolViolation(
                    channel.text() + " speaks protocol version " + version);
        }
        long capabilities = little(challenge).getLong(CHALLENGE_CAPABILITIES);
        Proofs proofs = new Proofs(secret, first, challenge);
        ByteBuffer proof = little(MAC_BYTES + 4 + own.length);
        proof.put(proofs.of("initiator", own)).putInt(own.length).put(own);
        channel.send(proof.array(), deadline);
        ByteBuffer welcome = little(channel.receive(4 + MAC_BYTES + 4, deadline));
        int code = welcome.getInt();
        if (code < 0 || code >= Status.values().length) {
            throw new TelpherException.ProtocolViolation(
                    channel.text() + " answered the handshake with code " + code);
        }
        Status status = Status.values()[code];
        if (status == Status.BAD_SECRET) {
            throw new TelpherException.AccessDenied(
                    "the endpoint at " + channel.text() + " does not accept this secret");
        }
        byte[] mac = new byte[MAC_BYTES];
        welcome.get(mac);
        int length = welcome.getInt();
        byte[] address = receiveAddress(channel, length, deadline);
        if (!MessageDigest.isEqual(mac, proofs.of("acceptor" + code, address))) {
            throw new TelpherException.AccessDenied(
                    "the endpoint at " + channel.text() + " does not know its own secret");
        }
        AddressCodec.Address peer = decode(address, channel);
        if (status != Status.OK) {
            throw new Refused(status, peer);
        }
        return new Welcome(peer, capabilities);
    }

    /// The acceptor said something else than `OK`.
    public static final class Refused extends Exception {
        private static final long serialVersionUID = 1L;

        private final Status status;
        private final transient AddressCodec.Address peer;

        Refused(Status status, AddressCodec.Address peer) {
            super(status.name(), null, false, false);
            this.status = status;
            this.peer = peer;
        }

        /// @return the answer
        public Status status() {
            return status;
        }

        /// @return who gave it
        public AddressCodec.Address peer() {
            return peer;
        }
    }

    /// Runs the acceptor's side until the initiator has proven itself.
    ///
    /// @param capabilities of the acceptor, as in [Hello]
    /// @param random for this side's nonce
    /// @throws TelpherException.AccessDenied when the proof is wrong; the initiator has been told
    /// @throws TelpherException.ProtocolViolation when the channel brings something else
    public static Accepted accept(
            Channel channel,
            byte[] secret,
            long capabilities,
            RandomGenerator random,
            Deadline deadline) {
        byte[] first = channel.receive(HELLO_BYTES, deadline);
        Hello hello = decodeHello(first, channel);
        ByteBuffer out = little(CHALLENGE_BYTES);
        byte[] nonce = new byte[NONCE_BYTES];
        random.nextBytes(nonce);
        out.putInt(CHALLENGE_MAGIC).putShort((short) VERSION).putShort((short) 0);
        out.putLong(capabilities).put(nonce);
        channel.send(out.array(), deadline);
        ByteBuffer proof = little(channel.receive(MAC_BYTES + 4, deadline));
        byte[] mac = new byte[MAC_BYTES];
        proof.get(mac);
        byte[] address = receiveAddress(channel, proof.getInt(), deadline);
        Proofs proofs = new Proofs(secret, first, out.array());
        if (!MessageDigest.isEqual(mac, proofs.of("initiator", address))) {
            ByteBuffer no = little(4 + MAC_BYTES + 4);
            no.putInt(Status.BAD_SECRET.ordinal());
            channel.send(no.array(), deadline);
            throw new TelpherException.AccessDenied(
                    channel.text() + " tried to connect with a wrong secret");
        }
        return new Accepted(channel, proofs, hello, decode(address, channel));
    }

    private static byte[] encode(Hello hello, RandomGenerator random) {
        ByteBuffer out = little(HELLO_BYTES);
        byte[] nonce = new byte[NONCE_BYTES];
        random.nextBytes(nonce);
        out.putInt(HELLO_MAGIC).putShort((short) VERSION).putShort((short) 1);
        out.putLong(hello.capabilities);
        out.put((byte) hello.purpose.ordinal())
                .put((byte) hello.lane)
                .putShort((short) 0)
                .putInt(0);
        out.putLong(hello.connection).putLong(hello.from).put(nonce).putLong(hello.to);
        return out.array();
    }

    private static Hello decodeHello(byte[] bytes, Channel channel) {
        ByteBuffer in = little(bytes);
        if (in.getInt() != HELLO_MAGIC) {
            throw new TelpherException.ProtocolViolation(
                    channel.text() + " sent something that is no handshake");
        }
        int version = in.getShort();
        int least = in.getShort();
        if (version < 1 || least > VERSION) {
            throw new TelpherException.ProtocolViolation(
                    "%s speaks versions %d to %d, this is version %d"
                            .formatted(channel.text(), least, version, VERSION));
        }
        long capabilities = in.getLong();
        int purpose = in.get();
        int lane = in.get() & 0xff;
        if (purpose < 0 || purpose >= Purpose.values().length) {
            throw new TelpherException.ProtocolViolation(
                    channel.text() + " wants purpose " + purpose);
        }
        in.position(24);
        long connection = in.getLong();
        long from = in.getLong();
        in.position(in.position() + NONCE_BYTES);
        return new Hello(
                Purpose.values()[purpose], lane, connection, from, in.getLong(), capabilities);
    }

    private static byte[] receiveAddress(Channel channel, int length, Deadline deadline) {
        if (length < 0 || length > MAX_ADDRESS) {
            throw new TelpherException.ProtocolViolation(
                    channel.text() + " announces an address of " + length + " bytes");
        }
        return channel.receive(length, deadline);
    }

    private static AddressCodec.Address decode(byte[] address, Channel channel) {
        try {
            return AddressCodec.decode(address);
        } catch (IllegalArgumentException e) {
            throw new TelpherException.ProtocolViolation(
                    channel.text() + " sent an address that is none: " + e.getMessage());
        }
    }

    /// The proofs of one handshake, made and checked by one thread: over who gives it, what both
    /// sides have said so far, and the giver's address.
    private static final class Proofs {
        private final Mac mac;
        private final byte[] hello;
        private final byte[] challenge;

        Proofs(byte[] secret, byte[] hello, byte[] challenge) {
            this.hello = hello;
            this.challenge = challenge;
            try {
                mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("every JDK has HmacSHA256", e);
            }
        }

        byte[] of(String role, byte[] address) {
            mac.update(role.getBytes(StandardCharsets.US_ASCII));
            mac.update((byte) 0);
            mac.update(hello);
            mac.update(challenge);
            return mac.doFinal(address); // and begins anew
        }
    }

    private static ByteBuffer little(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static ByteBuffer little(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
