package io.telpher;

import io.telpher.internal.wire.AddressCodec;
import java.util.Base64;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/// Every way to reach an endpoint, its incarnation and its secret, as opaque bytes. Holding it is
/// the permission to connect: pass it on like a password, in a file or over a connection that is
/// there already ([#toBytes()] in a notification). [#toString()] hides the secret, [#text()] does
/// not.
public final class EndpointAddress {
    private static final String PREFIX = "telpher1:";
    private static final HexFormat HEX = HexFormat.of();

    /// Characters before those of the secret, of which errors show nothing.
    private static final int SHOWN = 10;

    private final byte[] bytes;
    private final AddressCodec.Address decoded;

    private EndpointAddress(byte[] bytes, AddressCodec.Address decoded) {
        this.bytes = bytes;
        this.decoded = decoded;
    }

    /// Decodes [#toBytes()].
    ///
    /// @throws IllegalArgumentException when the bytes are no address
    public static EndpointAddress ofBytes(byte[] bytes) {
        byte[] copy = bytes.clone();
        return new EndpointAddress(copy, AddressCodec.decode(copy));
    }

    /// Decodes [#text()].
    ///
    /// @throws IllegalArgumentException when the text is no address
    public static EndpointAddress parse(String text) {
        String stripped = text.strip();
        if (!stripped.startsWith(PREFIX)) {
            throw nonsense(
                    stripped,
                    SHOWN,
                    "it does not start with '" + PREFIX + "'; for HOST:PORT use EndpointAddress.of",
                    null);
        }
        try {
            return ofBytes(Base64.getUrlDecoder().decode(stripped.substring(PREFIX.length())));
        } catch (IllegalArgumentException e) {
            throw nonsense(
                    stripped,
                    PREFIX.length() + SHOWN,
                    e.getMessage() + "; pass on all that text() gave, unchanged",
                    e);
        }
    }

    private static IllegalArgumentException nonsense(
            String text, int shown, String why, @Nullable Exception cause) {
        String start = text.length() > shown ? text.substring(0, shown) + "..." : text;
        return new IllegalArgumentException(
                "'%s' of %d characters is no endpoint address: %s"
                        .formatted(start, text.length(), why),
                cause);
    }

    /// An address of which only a host, a TCP port and the secret are known.
    ///
    /// @param host name or literal, IPv4 or IPv6 (with a scope id where it needs one)
    /// @param port the endpoint's port
    /// @param secret the endpoint's secret, 16 to 64 bytes
    public static EndpointAddress of(String host, int port, byte[] secret) {
        EndpointOptions.checkSecret(secret);
        return ofBytes(AddressCodec.encode(AddressCodec.Address.ofHost(host, port, secret)));
    }

    /// @return the encoded form, secret included
    public byte[] toBytes() {
        return bytes.clone();
    }

    /// @return the printable form, secret included: for files that only the peers can read
    public String text() {
        return PREFIX + Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }

    /// @return the endpoint's incarnation: a number that no other endpoint and no restart shares; 0
    ///     when unknown
    public long incarnation() {
        return decoded.incarnation();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof EndpointAddress that && java.util.Arrays.equals(bytes, that.bytes);
    }

    @Override
    public int hashCode() {
        return java.util.Arrays.hashCode(bytes);
    }

    /// @return a form for people, without the secret
    @Override
    public String toString() {
        long incarnation = decoded.incarnation();
        return (incarnation == 0
                        ? "endpoint at "
                        : "endpoint " + HEX.toHexDigits(incarnation) + " ")
                + decoded.locators();
    }
}
