package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class MessageTest {
    @Test
    void anyTextSurvives() {
        Message message =
                Message.of("verdict")
                        .with("first", "a=b c%20\n\u00e9")
                        .with("empty", "")
                        .with("wrong", 7);
        Message got = Message.decode(message.encode());
        assertThat(got).isEqualTo(message);
        assertThat(got.number("wrong")).isEqualTo(7);
        assertThatThrownBy(() -> got.text("cpu"))
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("cpu");
    }

    @Test
    void stagesAndPhasesSurvive() {
        Stage stage =
                new Stage(
                        "tcp",
                        new MemoryPair(MemoryPair.Kind.FOREIGN, MemoryPair.Kind.TELPHER),
                        3,
                        List.of("eth0", "10.0.0.0/8"),
                        Traffic.ALL_TO_ALL,
                        Traffic.Direction.BOTH,
                        4,
                        1L << 40,
                        1L << 41,
                        Stage.Waiting.SUITED);
        assertThat(Stage.decode(Message.decode(stage.encode().encode()))).isEqualTo(stage);
        Phase phase =
                new Phase(
                        Op.COUNTER,
                        4096,
                        2,
                        16,
                        Phase.Shape.STREAM,
                        Phase.Place.APART,
                        Phase.Style.PREPARED,
                        Long.MAX_VALUE,
                        0.25,
                        10,
                        63,
                        99);
        assertThat(Phase.decode(Message.decode(phase.encode().encode()))).isEqualTo(phase);
    }

    @Test
    void aDeadProcessIsNamedInsteadOfWaitedFor() {
        StreamControl control =
                new StreamControl(
                        InputStream.nullInputStream(),
                        new ByteArrayOutputStream(),
                        () -> "rank 1 ended by itself");
        assertThatThrownBy(() -> control.receive(Duration.ofMinutes(1)))
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("rank 1 ended by itself");
        assertThat(control.next()).isNull();
    }

    @Test
    void silenceEndsAtTheDeadline() {
        StreamControl control =
                new StreamControl(
                        new ByteArrayInputStream(new byte[0]),
                        new ByteArrayOutputStream(),
                        () -> null);
        assertThatThrownBy(() -> control.receive(Duration.ofMillis(20)))
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("has not answered");
    }
}
