package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.Test;

class OfferTest {
    private static final Deadline DEADLINE = Deadline.in(Duration.ofSeconds(10));

    /// Gives back what was sent, or other bytes.
    private static final class Tape implements Channel {
        private final ByteArrayOutputStream sent = new ByteArrayOutputStream();
        private ByteArrayInputStream in = new ByteArrayInputStream(new byte[0]);

        Tape rewind(byte[] bytes) {
            in = new ByteArrayInputStream(bytes);
            return this;
        }

        @Override
        public void send(byte[] bytes, Deadline deadline) {
            sent.writeBytes(bytes);
        }

        @Override
        public byte[] receive(int length, Deadline deadline) {
            byte[] bytes = new byte[length];
            if (in.readNBytes(bytes, 0, length) < length) {
                throw new TelpherException.PeerLost("the tape ended");
            }
            return bytes;
        }

        @Override
        public String text() {
            return "tape";
        }

        @Override
        public void close() {
            // Nothing to close.
        }
    }

    private static byte[] bytes(Offer offer) {
        Tape tape = new Tape();
        offer.send(tape, DEADLINE);
        return tape.sent.toByteArray();
    }

    private static Offer offer(int status, String reason) {
        byte[] gid = new byte[16];
        gid[15] = 7;
        return new Offer(
                status,
                0x123456,
                0xfedcba,
                gid,
                new byte[16],
                0,
                5,
                true,
                true,
                1L << 44,
                -5,
                true,
                reason);
    }

    @Test
    void whatIsSentIsReceived() {
        Offer sent = offer(Offer.GOOD, "");
        byte[] bytes = bytes(sent);
        assertThat(bytes).as("docs/rdma.md").hasSize(96);
        Offer got = Offer.receive(new Tape().rewind(bytes), DEADLINE);
        assertThat(got).usingRecursiveComparison().isEqualTo(sent);
        Offer refusal = Offer.refusal(Offer.FAILED, "ibv_create_qp failed\n" + "x".repeat(1000));
        assertThat(Offer.receive(new Tape().rewind(bytes(refusal)), DEADLINE).reason())
                .startsWith("ibv_create_qp failed?x")
                .hasSize(512);
    }

    @Test
    void garbageIsNoOffer() {
        long seed = System.nanoTime();
        System.out.println("OfferTest: seed " + seed);
        Random random = new Random(seed);
        byte[] good = bytes(offer(Offer.GOOD, ""));
        for (int i = 0; i < 20_000; i++) {
            byte[] bad = good.clone();
            for (int n = random.nextInt(4); n >= 0; n--) {
                bad[random.nextInt(bad.length)] = (byte) random.nextInt();
            }
            try {
                Offer got = Offer.receive(new Tape().rewind(bad), DEADLINE);
                assertThat(got.qpn()).isBetween(0, (1 << 24) - 1);
                assertThat(got.psn()).isBetween(0, (1 << 24) - 1);
                assertThat(got.mtu()).isBetween(1, 5);
            } catch (TelpherException.ProtocolViolation e) {
                assertThat(e)
                        .hasMessageStartingWith("tape: the peer's offer of a queue pair has the");
            } catch (TelpherException.PeerLost e) {
                assertThat(e).hasMessage("the tape ended"); // a longer reason than there is
            }
        }
        byte[] refusal = bytes(Offer.refusal(Offer.FAILED, "no way back"));
        assertThat(Offer.awaitReady(new Tape().rewind(refusal), DEADLINE))
                .satisfies(
                        got -> {
                            assertThat(got.status()).isEqualTo(Offer.FAILED);
                            assertThat(got.reason()).isEqualTo("no way back");
                        });
        assertThatThrownBy(() -> Offer.awaitReady(new Tape().rewind(new byte[4]), DEADLINE))
                .isInstanceOf(TelpherException.ProtocolViolation.class);
    }
}
