package io.telpher.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.PeerAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

class HandshakeTest {
    private static final byte[] SECRET = "0123456789abcdef".getBytes(StandardCharsets.UTF_8);
    private static final byte[] ADDRESS =
            AddressCodec.encode(
                    new AddressCodec.Address(
                            new byte[0], new PeerAddress(5, HostIdentity.UNKNOWN, List.of())));

    /// Both ends of a channel whose messages somebody in between may change.
    private static final class Wire {
        final LinkedBlockingQueue<Byte> there = new LinkedBlockingQueue<>();
        final LinkedBlockingQueue<Byte> back = new LinkedBlockingQueue<>();
        UnaryOperator<byte[]> tamper = bytes -> bytes;

        Channel end(LinkedBlockingQueue<Byte> in, LinkedBlockingQueue<Byte> out) {
            return new Channel() {
                @Override
                public void send(byte[] bytes, Deadline deadline) {
                    for (byte one : tamper.apply(bytes)) {
                        out.add(one);
                    }
                }

                @Override
                public byte[] receive(int length, Deadline deadline) {
                    byte[] bytes = new byte[length];
                    for (int i = 0; i < length; i++) {
                        bytes[i] = take(in, deadline);
                    }
                    return bytes;
                }

                @Override
                public String text() {
                    return "the test's channel";
                }

                @Override
                public void close() {}
            };
        }

        private static byte take(LinkedBlockingQueue<Byte> in, Deadline deadline) {
            try {
                Byte one = in.poll(deadline.leftMillis(), TimeUnit.MILLISECONDS);
                if (one == null) {
                    throw new TelpherException.TimedOut("nothing came");
                }
                return one;
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    private record Both(Handshake.Welcome initiator, Handshake.Accepted acceptor) {}

    private static Both shake(long initiators, long acceptors, UnaryOperator<byte[]> tamper) {
        Wire wire = new Wire();
        wire.tamper = tamper;
        Deadline deadline = Deadline.in(Duration.ofSeconds(5));
        CompletableFuture<Handshake.Accepted> accepted =
                CompletableFuture.supplyAsync(
                        () -> {
                            Handshake.Accepted who =
                                    Handshake.accept(
                                            wire.end(wire.there, wire.back),
                                            SECRET,
                                            acceptors,
                                            new Random(1),
                                            deadline);
                            who.answer(Handshake.Status.OK, ADDRESS, deadline);
                            return who;
                        });
        try {
            Handshake.Welcome welcome =
                    Handshake.initiate(
                            wire.end(wire.back, wire.there),
                            new Handshake.Hello(Handshake.Purpose.CONNECT, 0, 1, 2, 0, initiators),
                            SECRET,
                            ADDRESS,
                            new Random(2),
                            deadline);
            return new Both(welcome, accepted.join());
        } catch (Handshake.Refused e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void eachSideLearnsWhatTheOtherOffers() {
        for (long initiators : new long[] {0, 1, 0b101, -1}) {
            for (long acceptors : new long[] {0, 1, 0b110, Long.MIN_VALUE}) {
                Both both = shake(initiators, acceptors, bytes -> bytes);
                assertThat(both.acceptor.hello.capabilities()).isEqualTo(initiators);
                assertThat(both.initiator.capabilities()).isEqualTo(acceptors);
            }
        }
    }

    @Test
    void nobodyInBetweenCanTakeACapabilityAway() {
        for (String message : List.of("TLPH", "TLPC")) {
            assertThatThrownBy(() -> shake(1, 1, bytes -> strip(bytes, message)))
                    .satisfiesAnyOf(
                            e -> assertThat(e).isInstanceOf(TelpherException.AccessDenied.class),
                            e ->
                                    assertThat(e)
                                            .isInstanceOf(CompletionException.class)
                                            .hasCauseInstanceOf(
                                                    TelpherException.AccessDenied.class));
        }
    }

    @Test
    void aVersionThatDoesNotSpeakThisOneIsRefusedByItsNumber() {
        Wire wire = new Wire();
        wire.tamper = bytes -> version(bytes, 3, 2);
        Deadline deadline = Deadline.in(Duration.ofSeconds(5));
        Channel late = wire.end(wire.back, wire.there);
        late.send(Arrays.copyOf("TLPH".getBytes(StandardCharsets.UTF_8), 64), deadline);
        assertThatThrownBy(
                        () ->
                                Handshake.accept(
                                        wire.end(wire.there, wire.back),
                                        SECRET,
                                        0,
                                        new Random(1),
                                        deadline))
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessage("the test's channel speaks versions 2 to 3, this is version 1");
    }

    private static byte[] version(byte[] hello, int most, int least) {
        byte[] other = hello.clone();
        other[4] = (byte) most;
        other[6] = (byte) least;
        return other;
    }

    private static byte[] strip(byte[] bytes, String message) {
        byte[] other = bytes.clone();
        if (new String(bytes, 0, 4, StandardCharsets.ISO_8859_1).equals(message)) {
            other[8] = 0;
        }
        return other;
    }
}
