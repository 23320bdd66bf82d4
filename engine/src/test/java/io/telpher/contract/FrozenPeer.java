package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Map;
import java.util.zip.CRC32C;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/// A peer of an earlier version: says the bytes that were recorded of it, and knows of the protocol
/// what `docs/protocol.md` said then. Uses nothing of the code that it tests.
final class FrozenPeer implements AutoCloseable {
    private static final int CHALLENGE_BYTES = 32;
    private static final int MAC_BYTES = 32;
    private static final int HEADER = 64;

    // Where fields lie in a HELLO, a CHALLENGE and a frame.
    static final int CAPABILITIES = 8;
    static final int WANTED = 56;
    static final int CHECKSUM = 12;
    static final int TRANSFER = 16;
    static final int A = 24;
    static final int B = 32;
    static final int C = 40;
    static final int D = 48;
    static final int E = 56;

    private final Socket socket;
    private final DataInputStream in;

    /// How many sequenced frames of this peer the other side says it has applied.
    long confirmed;

    /// What the acceptor offered.
    long offered;

    /// A frame that came.
    record Frame(ByteBuffer header, byte[] payload) {
        int type() {
            return header.get(0);
        }

        long field(int at) {
            return header.getLong(at);
        }

        byte[] bytes() {
            return join(header.array(), payload);
        }
    }

    /// What was recorded of a version.
    static Map<String, byte[]> recording(int version) {
        return Recording.of(FrozenPeer.class, "wire-" + version + ".txt");
    }

    /// What was recorded of a version whose frames carried checksums.
    static Map<String, byte[]> recordingWithChecksums(int version) {
        return Recording.of(FrozenPeer.class, "wire-" + version + "-checked.txt");
    }

    /// What was recorded of a version that forgets tags.
    static Map<String, byte[]> recordingOfTags(int version) {
        return Recording.of(FrozenPeer.class, "wire-" + version + "-tags.txt");
    }

    /// What was recorded of a version that says which reads go first.
    static Map<String, byte[]> recordingOfPriorities(int version) {
        return Recording.of(FrozenPeer.class, "wire-" + version + "-priorities.txt");
    }

    private FrozenPeer(Socket socket) throws IOException {
        this.socket = socket;
        socket.setSoTimeout(10_000);
        socket.setTcpNoDelay(true);
        in = new DataInputStream(socket.getInputStream());
    }

    /// Shakes hands by what was recorded: all of it but the proofs, which depend on the acceptor's
    /// dice, goes out as it was.
    ///
    /// @param join whether to join the recorded connection as its lane 1
    /// @param capabilities replaces what was recorded
    static FrozenPeer dial(int port, Map<String, byte[]> recorded, boolean join, long capabilities)
            throws IOException {
        String suffix = join ? "_JOIN" : "";
        byte[] hello = recorded.get("HELLO" + suffix).clone();
        little(hello).putLong(CAPABILITIES, capabilities).putLong(WANTED, 0);
        byte[] proof = recorded.get("PROOF" + suffix);
        byte[] address = Arrays.copyOfRange(proof, MAC_BYTES + 4, proof.length);
        FrozenPeer peer = new FrozenPeer(new Socket("127.0.0.1", port));
        peer.send(hello);
        byte[] challenge = peer.receive(CHALLENGE_BYTES);
        assertThat(new String(challenge, 0, 4, US_ASCII)).isEqualTo("TLPC");
        peer.offered = little(challenge).getLong(CAPABILITIES);
        byte[] transcript = join(hello, challenge);
        peer.send(
                join(
                        mac(RecordWire.SECRET, "initiator", transcript, address),
                        Arrays.copyOfRange(proof, MAC_BYTES, proof.length)));
        ByteBuffer welcome = little(peer.receive(4 + MAC_BYTES + 4));
        assertThat(welcome.getInt(0)).as("status").isZero();
        byte[] theirs = peer.receive(welcome.getInt(4 + MAC_BYTES));
        byte[] mac = new byte[MAC_BYTES];
        welcome.get(4, mac);
        assertThat(mac).isEqualTo(mac(RecordWire.SECRET, "acceptor0", transcript, theirs));
        assertThat(new String(theirs, 0, 4, US_ASCII)).isEqualTo("TLPA");
        if (!join) {
            peer.send(recorded.get("GO"));
        }
        return peer;
    }

    static byte[] mac(byte[] secret, String role, byte[] transcript, byte[] address) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            mac.update(role.getBytes(US_ASCII));
            mac.update((byte) 0);
            mac.update(transcript);
            return mac.doFinal(address);
        } catch (GeneralSecurityException e) {
            throw new AssertionError(e);
        }
    }

    /// The CRC32C that a frame has to carry.
    static int checksum(byte[] frame) {
        byte[] summed = frame.clone();
        little(summed).putInt(CHECKSUM, 0);
        CRC32C crc = new CRC32C();
        crc.update(summed);
        return (int) crc.getValue();
    }

    static byte[] join(byte[] a, byte[] b) {
        byte[] both = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, both, a.length, b.length);
        return both;
    }

    static ByteBuffer little(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    void send(byte[] bytes) {
        try {
            socket.getOutputStream().write(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private byte[] receive(int length) {
        byte[] bytes = new byte[length];
        try {
            in.readFully(bytes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes;
    }

    /// Waits for a frame of a type; what comes before it is dropped.
    Frame await(int type) {
        while (true) {
            byte[] header = receive(HEADER);
            Frame frame = new Frame(little(header), receive(little(header).getInt(4)));
            confirmed = Math.max(confirmed, frame.field(8));
            if (frame.type() == io.telpher.internal.wire.Frame.APPLIED && frame.field(A) == 0) {
                confirmed = Math.max(confirmed, frame.field(B));
            }
            if (frame.type() == type) {
                return frame;
            }
        }
    }

    /// Waits until the other side closes the stream.
    ///
    /// @return false when it says something instead, or nothing for long
    boolean awaitClosed() {
        try {
            return in.read() < 0;
        } catch (SocketTimeoutException e) {
            return false;
        } catch (IOException e) {
            return true; // reset: it had not read everything
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
