package io.telpher.bootstrap;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import java.util.Arrays;

/// What a rendezvous takes in: requests at the server, answers at a rank, and the sealed addresses
/// in them. Whatever the bytes, they mean something that is written and read again as the same, or
/// they are turned away by one of Telpher's errors; and only who holds the secret seals.
///
/// The first byte says what the others are: a request, an answer, a sealed address, or an address
/// that a rank with the secret has sealed.
public final class RendezvousFuzz {
    private static final Seal SEAL = new Seal("0123456789abcdef".getBytes(US_ASCII), "job");

    private RendezvousFuzz() {}

    /// @param data a byte of choices, then the bytes that came in
    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length == 0) {
            return;
        }
        byte[] bytes = Arrays.copyOfRange(data, 1, data.length);
        try {
            switch (data[0] & 3) {
                case 0 -> {
                    byte[] written = Codec.encode(Codec.request(bytes));
                    same(bytes, written);
                }
                case 1 -> {
                    byte[] written = Codec.encode(Codec.answer(bytes));
                    same(bytes, written);
                }
                case 2 -> {
                    EndpointAddress stranger = SEAL.open(entry(bytes));
                    throw new AssertionError(stranger + " was sealed without the secret");
                }
                default -> ofARank(bytes);
            }
        } catch (TelpherException.ProtocolViolation | TelpherException.AccessDenied expected) {
            // Turned away.
        }
    }

    private static void same(byte[] read, byte[] written) {
        if (!Arrays.equals(read, written)) {
            throw new AssertionError("written as other bytes than it was read from");
        }
    }

    private static Answer.Entry entry(byte[] sealed) {
        return new Answer.Entry(1, 2, 3, 4, sealed);
    }

    /// Even with the secret nothing but addresses gets through, nor does what was changed on its
    /// way.
    private static void ofARank(byte[] address) {
        byte[] sealed = SEAL.seal(1, 2, 3, address);
        byte[] changed = sealed.clone();
        changed[Arrays.hashCode(address) & 7] ^= 1;
        try {
            EndpointAddress other = SEAL.open(entry(changed));
            throw new AssertionError(other + " was changed on its way");
        } catch (TelpherException.AccessDenied expected) {
            // Noticed.
        }
        EndpointAddress opened = SEAL.open(entry(sealed));
        if (!opened.equals(EndpointAddress.ofBytes(address))) {
            throw new AssertionError(opened + " is another address than was sealed");
        }
    }
}
