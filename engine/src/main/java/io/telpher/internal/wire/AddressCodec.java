package io.telpher.internal.wire;

import io.telpher.spi.HostIdentity;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import java.nio.BufferOverflowException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/// The byte form of an endpoint address.
///
/// Little-endian: magic `TLPA`, version 1 (2 bytes), secret length (2) and secret, incarnation (8),
/// boot id (2 + text), pid (4), PID namespace (8), network namespace (8), count of locators (2),
/// and for each its transport's name, its data and its text (each 2 + bytes). Fields of later
/// versions follow and are skipped.
public final class AddressCodec {
    private static final int MAGIC = 0x41504c54; // "TLPA"
    private static final int VERSION = 1;
    private static final int MAX_BYTES = 60_000;

    /// Up to the count of locators, without the secret and the boot id.
    private static final int FIXED_BYTES = 40;

    /// What decoders put in the place of broken text.
    private static final char REPLACEMENT = '\ufffd';

    private AddressCodec() {}

    /// A decoded endpoint address.
    ///
    /// @param secret what the endpoint wants to see; empty in addresses that the handshake carries
    /// @param peer everything else
    public record Address(byte[] secret, PeerAddress peer) {
        /// @return an address of which only host, port and secret are known
        public static Address ofHost(String host, int port, byte[] secret) {
            if (port < 1 || port > 65_535) {
                throw new IllegalArgumentException(
                        "port " + port + " of " + host + " is not a TCP port");
            }
            if (host.isBlank()) {
                throw new IllegalArgumentException("the host is empty");
            }
            String text = host.contains(":") ? "[" + host + "]:" + port : host + ":" + port;
            Locator locator = new Locator("tcp-host", text.getBytes(StandardCharsets.UTF_8), text);
            return new Address(
                    secret.clone(), new PeerAddress(0, HostIdentity.UNKNOWN, List.of(locator)));
        }

        /// @return the endpoint's incarnation, 0 when unknown
        public long incarnation() {
            return peer.incarnation();
        }

        /// @return how to reach it
        public List<Locator> locators() {
            return peer.locators();
        }

        /// @return the same without the secret
        public Address withoutSecret() {
            return new Address(new byte[0], peer);
        }
    }

    /// Encodes an address.
    ///
    /// @throws IllegalArgumentException when it is too long
    public static byte[] encode(Address address) {
        try {
            int room = (int) Math.min(mostBytes(address), MAX_BYTES);
            return encode(address, ByteBuffer.allocate(room).order(ByteOrder.LITTLE_ENDIAN));
        } catch (BufferOverflowException e) {
            throw new IllegalArgumentException(
                    "this endpoint address needs more than the " + MAX_BYTES + " bytes allowed", e);
        }
    }

    /// @return what the bytes fit into: no char takes more than 3 of them
    private static long mostBytes(Address address) {
        PeerAddress peer = address.peer();
        long most = FIXED_BYTES + address.secret().length + 3L * peer.host().bootId().length();
        for (Locator locator : peer.locators()) {
            most += 3 * Short.BYTES + locator.data().length;
            most += 3L * (locator.transport().length() + locator.text().length());
        }
        return most;
    }

    private static byte[] encode(Address address, ByteBuffer out) {
        PeerAddress peer = address.peer();
        out.putInt(MAGIC).putShort((short) VERSION);
        put(out, address.secret());
        out.putLong(peer.incarnation());
        put(out, peer.host().bootId());
        out.putInt(peer.host().pid());
        out.putLong(peer.host().pidNamespace()).putLong(peer.host().netNamespace());
        out.putShort((short) peer.locators().size());
        for (Locator locator : peer.locators()) {
            put(out, locator.transport());
            put(out, locator.data());
            put(out, locator.text());
        }
        byte[] bytes = new byte[out.position()];
        out.flip().get(bytes);
        return bytes;
    }

    /// Decodes an address.
    ///
    /// @throws IllegalArgumentException when the bytes are no address
    public static Address decode(byte[] bytes) {
        if (bytes.length > MAX_BYTES) {
            throw new IllegalArgumentException(
                    "an endpoint address of %d bytes; %d are the most"
                            .formatted(bytes.length, MAX_BYTES));
        }
        try {
            ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            if (in.getInt() != MAGIC) {
                throw new IllegalArgumentException("these bytes are not an endpoint address");
            }
            int version = in.getShort();
            if (version < 1) {
                throw new IllegalArgumentException(
                        "endpoint address of unknown version " + version);
            }
            byte[] secret = get(in);
            long incarnation = in.getLong();
            String bootId = text(in);
            HostIdentity host = new HostIdentity(bootId, in.getInt(), in.getLong(), in.getLong());
            int count = Short.toUnsignedInt(in.getShort());
            List<Locator> locators = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                locators.add(new Locator(text(in), get(in), text(in)));
            }
            return new Address(secret, new PeerAddress(incarnation, host, List.copyOf(locators)));
        } catch (BufferUnderflowException e) {
            throw new IllegalArgumentException(
                    "this endpoint address is cut short: " + bytes.length + " bytes", e);
        }
    }

    private static void put(ByteBuffer out, String text) {
        put(out, text.getBytes(StandardCharsets.UTF_8));
    }

    private static void put(ByteBuffer out, byte[] bytes) {
        out.putShort((short) bytes.length).put(bytes);
    }

    private static byte[] get(ByteBuffer in) {
        int length = Short.toUnsignedInt(in.getShort());
        if (length > in.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] bytes = new byte[length];
        in.get(bytes);
        return bytes;
    }

    /// Whatever is decoded can be encoded again: replacements for broken text would be longer. The
    /// strict decoder has the last word only where the fast one has put a replacement.
    private static String text(ByteBuffer in) {
        byte[] bytes = get(in);
        String text = new String(bytes, StandardCharsets.UTF_8);
        if (text.indexOf(REPLACEMENT) < 0) {
            return text;
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(
                    "this endpoint address has text that is not UTF-8", e);
        }
    }
}
