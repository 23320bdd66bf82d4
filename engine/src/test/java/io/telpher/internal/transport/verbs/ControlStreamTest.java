package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Lane;
import java.lang.reflect.Proxy;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class ControlStreamTest {
    private static final ControlMessage ANSWER =
            ControlMessage.Resolved.refusal(1, ControlMessage.Status.STALE, "");

    private final AtomicBoolean full = new AtomicBoolean();

    /// What the peer does as soon as it has a message, while the thread that sent it gets no
    /// further.
    private final AtomicReference<Runnable> peer = new AtomicReference<>(() -> {});

    private final ControlStream stream =
            new ControlStream(
                    (Lane)
                            Proxy.newProxyInstance(
                                    ControlStreamTest.class.getClassLoader(),
                                    new Class<?>[] {Lane.class},
                                    (proxy, method, arguments) ->
                                            switch (method.getName()) {
                                                case "send" -> {
                                                    if (full.get()) {
                                                        yield Lane.FULL;
                                                    }
                                                    peer.get().run();
                                                    yield Lane.OK;
                                                }
                                                case "flush" -> full.get() ? Lane.FULL : Lane.OK;
                                                case "poll" -> 0;
                                                default -> throw new AssertionError(method);
                                            }));

    private void askAllThatIsAllowed() {
        for (int i = 0; i < ControlStream.MOST_OWED; i++) {
            assertThat(stream.owe()).as("question %d", i).isTrue();
        }
    }

    @Test
    void aPeerMayAskAnewAsSoonAsItHasAnAnswer() {
        askAllThatIsAllowed();
        peer.set(() -> assertThat(stream.owe()).as("the next question").isTrue());
        for (int i = 0; i < 3 * ControlStream.MOST_OWED; i++) {
            stream.send(ANSWER);
        }
        assertThat(stream.owe()).as("one more, without an answer").isFalse();
    }

    @Test
    void aPeerThatTakesNoAnswersMayAskNoMore() {
        full.set(true);
        askAllThatIsAllowed();
        stream.send(ANSWER);
        assertThat(stream.owe()).isFalse();
    }

    @Test
    void answersThatWaitedCountUntilTheyAreTaken() {
        full.set(true);
        askAllThatIsAllowed();
        for (int i = 0; i < ControlStream.MOST_OWED; i++) {
            stream.send(ANSWER);
        }
        full.set(false);
        assertThat(stream.look()).isTrue();
        askAllThatIsAllowed();
        assertThat(stream.owe()).isFalse();
    }
}
