package io.telpher.contract;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.wire.Frame;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// As [RecordedBytesTest], of how tags are forgotten.
class RecordedTagsTest {
    private static final Map<String, byte[]> RECORDED = FrozenPeer.recordingOfTags(1);
    private static final Duration LIMIT = Duration.ofSeconds(10);

    /// Knows how to forget tags.
    private static final long CAPABILITY = 4;

    private static final int FIRST_ENTRY = 64;

    private final int port = Ports.free();
    private final Endpoint endpoint =
            Endpoint.open(
                    EndpointOptions.DEFAULTS
                            .withTransports(List.of("tcp"))
                            .withPort(port)
                            .withSecret(RecordWire.SECRET)
                            .withDeadline(LIMIT));
    private final MemoryRegion region = endpoint.allocate(4096);
    private FrozenPeer peer;
    private Connection connection;

    private void connect(long capabilities) throws IOException {
        peer = FrozenPeer.dial(port, RECORDED, false, capabilities);
        connection = endpoint.accept(LIMIT);
    }

    @AfterEach
    void close() throws IOException {
        peer.close();
        endpoint.close();
    }

    /// The first tag of the recorded question.
    private static long tag() {
        return FrozenPeer.little(RECORDED.get("FORGET")).getLong(FIRST_ENTRY);
    }

    /// The peer's first message with that tag.
    private void exchange() {
        Transfer receive = connection.receive(tag(), region.slice(0, 100));
        byte[] send = RECORDED.get("SEND_INLINE").clone();
        FrozenPeer.little(send)
                .putLong(Frame.CONFIRM, 0)
                .putLong(FrozenPeer.A, tag())
                .putLong(FrozenPeer.B, 0);
        peer.send(send);
        receive.await();
        assertThat(region.segment().asSlice(0, 10).toArray(JAVA_BYTE))
                .isEqualTo(Arrays.copyOfRange(send, 48, 58));
    }

    private static byte[] question(String name) {
        byte[] frame = RECORDED.get(name).clone();
        FrozenPeer.little(frame).putLong(Frame.CONFIRM, 0);
        return frame;
    }

    @Test
    void whatIsIdleAndStandsWhereThePeerSaysIsForgotten() throws IOException {
        connect(CAPABILITY);
        assertThat(peer.offered & CAPABILITY).isEqualTo(CAPABILITY);
        exchange();
        peer.send(question("FORGET"));
        FrozenPeer.Frame answer = peer.await(Frame.FORGOTTEN);
        assertThat(answer.field(FrozenPeer.A))
                .isEqualTo(FrozenPeer.little(RECORDED.get("FORGET")).getLong(FrozenPeer.A));
        assertThat(answer.field(FrozenPeer.B)).as("the only tag that is known here").isEqualTo(1);
        exchange(); // again as the first
    }

    @Test
    void whatStandsElsewhereIsKept() throws IOException {
        connect(CAPABILITY);
        exchange();
        byte[] question = question("FORGET");
        FrozenPeer.little(question).putLong(FIRST_ENTRY + 8, 2);
        peer.send(question);
        assertThat(peer.await(Frame.FORGOTTEN).field(FrozenPeer.B)).isZero();
    }

    @Test
    void whatIsInUseIsKept() throws IOException {
        connect(CAPABILITY);
        exchange();
        Transfer receive = connection.receive(tag(), region.slice(0, 100));
        byte[] question = question("FORGET");
        FrozenPeer.little(question).putLong(FIRST_ENTRY + 8, 2);
        peer.send(question);
        assertThat(peer.await(Frame.FORGOTTEN).field(FrozenPeer.B)).isZero();
        receive.cancel();
    }

    @Test
    void whoDoesNotKnowHowToForgetMayNotAsk() throws IOException {
        connect(0);
        peer.send(question("FORGET"));
        assertThatThrownBy(() -> connection.awaitNotification(LIMIT))
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessageContaining("may not ask");
    }

    @Test
    void whoWasNotAskedMayNotAnswer() throws IOException {
        connect(CAPABILITY);
        peer.send(question("FORGOTTEN"));
        assertThatThrownBy(() -> connection.awaitNotification(LIMIT))
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessageContaining("not asked about");
    }
}
