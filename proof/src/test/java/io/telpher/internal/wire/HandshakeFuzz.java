package io.telpher.internal.wire;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/// Both sides of the handshake against a stranger who says anything, and one who holds the secret:
/// each ends with an answer or with one of Telpher's errors.
///
/// The first byte says which side is meant, and whether the proof is made right, since no fuzzer
/// guesses one; the others are what the stranger says.
public final class HandshakeFuzz {
    private static final byte[] SECRET = "0123456789abcdef".getBytes(US_ASCII);
    private static final int MAC_BYTES = 32;

    private HandshakeFuzz() {}

    /// @param data a byte of choices, then the stranger's bytes
    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length == 0) {
            return;
        }
        boolean initiates = (data[0] & 1) != 0;
        Stranger stranger =
                new Stranger(
                        Arrays.copyOfRange(data, 1, data.length), initiates, (data[0] & 2) != 0);
        Deadline deadline = Deadline.in(Duration.ofSeconds(10));
        try {
            if (initiates) {
                Handshake.initiate(
                        stranger,
                        new Handshake.Hello(Handshake.Purpose.CONNECT, 0, 1, 2, 3, 4),
                        SECRET,
                        new byte[] {1, 2, 3},
                        new Random(1),
                        deadline);
            } else {
                Handshake.Accepted who =
                        Handshake.accept(stranger, SECRET, 5, new Random(1), deadline);
                who.answer(Handshake.Status.OK, new byte[] {1, 2, 3}, deadline);
                who.awaitGo(deadline);
            }
            if (!stranger.proves) {
                throw new AssertionError("a stranger came in without the secret");
            }
        } catch (TelpherException | Handshake.Refused expected) {
            // Turned away.
        }
    }

    /// Says what it is told to say; where the proof belongs it says the right one if it may.
    private static final class Stranger implements Channel {
        private final ByteBuffer says;
        private final boolean accepts;
        final boolean proves;

        /// The first message of both sides, in the order in which they went.
        private final ByteArrayOutputStream transcript = new ByteArrayOutputStream();

        private int messages;

        Stranger(byte[] bytes, boolean accepts, boolean proves) {
            says = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            this.accepts = accepts;
            this.proves = proves;
        }

        @Override
        public void send(byte[] bytes, Deadline deadline) {
            if (transcript.size() < 96) {
                transcript.writeBytes(bytes);
            }
        }

        @Override
        public byte[] receive(int length, Deadline deadline) {
            if (length < 0 || length > 1 << 20) {
                throw new AssertionError("asked for " + length + " bytes at once");
            }
            if (length > says.remaining()) {
                throw new TelpherException.PeerLost("the stranger has left");
            }
            byte[] bytes = new byte[length];
            says.get(bytes);
            if (++messages == 1) {
                transcript.writeBytes(bytes);
            } else if (messages == 2 && proves) {
                prove(bytes);
            }
            return bytes;
        }

        private void prove(byte[] bytes) {
            int status = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt();
            int at = accepts ? 4 : 0;
            int length =
                    ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt(at + MAC_BYTES);
            byte[] address = new byte[Math.clamp(length, 0, says.remaining())];
            says.duplicate().get(address);
            try {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(SECRET, "HmacSHA256"));
                mac.update((accepts ? "acceptor" + status : "initiator").getBytes(US_ASCII));
                mac.update((byte) 0);
                mac.update(transcript.toByteArray());
                System.arraycopy(mac.doFinal(address), 0, bytes, at, MAC_BYTES);
            } catch (GeneralSecurityException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public String text() {
            return "the stranger";
        }

        @Override
        public void close() {}
    }
}
