package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.contract.Recording;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// What version 1 said while it made queue pairs is understood, and said by this one in the same
/// bytes. Needs no device.
class RecordedMessagesTest {
    private static final Map<String, byte[]> RECORDED =
            Recording.of(RecordedMessagesTest.class, "setup-1.txt");
    private static final Deadline DEADLINE = Deadline.in(Duration.ofSeconds(10));

    private static final byte[] GID = gid(1);

    @Test
    void offers() {
        Map<String, Offer> expected = new LinkedHashMap<>();
        expected.put(
                "OFFER",
                new Offer(
                        Offer.GOOD,
                        17,
                        5,
                        GID,
                        gid(2),
                        0,
                        5,
                        true,
                        false,
                        0x7f00_0000_1000L,
                        9,
                        true,
                        ""));
        expected.put("OFFER_REFUSAL", Offer.refusal(Offer.NO_SUCH_RAIL, "no such port"));
        expected.forEach(
                (name, offer) -> {
                    Stream stream = new Stream(RECORDED.get(name));
                    assertThat(Offer.receive(stream, DEADLINE))
                            .usingRecursiveComparison()
                            .isEqualTo(offer);
                    offer.send(stream, DEADLINE);
                    assertThat(stream.sent.toByteArray()).isEqualTo(RECORDED.get(name));
                });
    }

    @Test
    void anOfferOfAnotherVersionIsRefusedByItsNumber() {
        byte[] later = RECORDED.get("OFFER").clone();
        later[4] = 2;
        assertThatThrownBy(() -> Offer.receive(new Stream(later), DEADLINE))
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessage("the recording: the peer's offer of a queue pair has the version 2");
    }

    @Test
    void messagesOfTheControlStream() {
        ControlMessage.Offered offered = new ControlMessage.Offered(0, 17, 5, 16);
        ControlMessage.Status good = ControlMessage.Status.GOOD;
        Map<String, ControlMessage> expected = new LinkedHashMap<>();
        expected.put("RESOLVE", new ControlMessage.Resolve(7, 3, 1, 99));
        expected.put(
                "RESOLVED",
                new ControlMessage.Resolved(7, good, 3, 4096, 100, 64, new int[] {11, 12}, ""));
        expected.put(
                "RESOLVED_REFUSAL",
                ControlMessage.Resolved.refusal(
                        7, ControlMessage.Status.FAILED, "ibv_reg_mr: no memory"));
        expected.put("REVOKED", new ControlMessage.Revoked(3, 1));
        expected.put("OFFERED", offered);
        expected.put("ACCEPTED", new ControlMessage.Accepted(0, 17, good, 18, 6, 16, 4096, 3, ""));
        expected.put("ACCEPTED_REFUSAL", ControlMessage.Accepted.refusal(offered, "no queue pair"));
        expected.forEach(
                (name, message) -> {
                    assertThat(ControlMessage.decode(RECORDED.get(name)))
                            .usingRecursiveComparison()
                            .isEqualTo(message);
                    assertThat(message.encode()).isEqualTo(RECORDED.get(name));
                });
        assertThat(expected.values().stream().map(Object::getClass).distinct())
                .containsExactlyInAnyOrder(ControlMessage.class.getPermittedSubclasses());
    }

    private static byte[] gid(int last) {
        byte[] gid = new byte[Rail.GID_BYTES];
        gid[10] = gid[11] = (byte) 0xff;
        gid[12] = 10;
        gid[15] = (byte) last;
        return gid;
    }

    /// Says what was recorded, and keeps what it is told.
    private static final class Stream implements Channel {
        final ByteArrayOutputStream sent = new ByteArrayOutputStream();
        private final ByteArrayInputStream says;

        Stream(byte[] bytes) {
            says = new ByteArrayInputStream(bytes);
        }

        @Override
        public void send(byte[] bytes, Deadline deadline) {
            sent.writeBytes(bytes);
        }

        @Override
        public byte[] receive(int length, Deadline deadline) {
            byte[] bytes = new byte[length];
            assertThat(says.readNBytes(bytes, 0, length)).isEqualTo(length);
            return bytes;
        }

        @Override
        public String text() {
            return "the recording";
        }

        @Override
        public void close() {}
    }
}
