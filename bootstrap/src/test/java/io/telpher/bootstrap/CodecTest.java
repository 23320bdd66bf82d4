package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

class CodecTest {
    private static final byte[] SEALED = {1, 2, 3};
    private static final Answer.Entry ENTRY = new Answer.Entry(1, 2, -3, 4, SEALED);

    private static final List<Request> REQUESTS =
            List.of(
                    new Request.Announce("jöb", 1, 2, -3, 4, 5, SEALED),
                    new Request.Leave("j", 1, Long.MIN_VALUE),
                    new Request.Arrive("j", "b", 1, 2, 3),
                    new Request.Withdraw("j", "", 1, 2, 3),
                    new Request.Changes("j", -1, -1, 1000));

    private static final List<Answer> ANSWERS =
            List.of(
                    new Answer.Ok(1),
                    new Answer.Held(-1, 2, 3),
                    new Answer.OtherWorld(1, 2),
                    new Answer.Removed(),
                    new Answer.Passed(),
                    new Answer.Waiting(1),
                    new Answer.Withdrawn(List.of(1, 2)),
                    new Answer.Gone(),
                    new Answer.Events(
                            List.of(
                                    new Answer.RecordChange(1, Answer.Kind.LOST, ENTRY),
                                    new Answer.BarrierChange(2, "b", 3))),
                    new Answer.Snapshot(1, 2, List.of(ENTRY, ENTRY)),
                    new Answer.Refused("no"));

    @Test
    void everyMessageComesBackAsItWas() {
        for (Request request : REQUESTS) {
            assertThat(Codec.request(Codec.encode(request)))
                    .usingRecursiveComparison()
                    .isEqualTo(request);
        }
        for (Answer answer : ANSWERS) {
            assertThat(Codec.answer(Codec.encode(answer)))
                    .usingRecursiveComparison()
                    .isEqualTo(answer);
        }
        assertThat(REQUESTS).hasSize(Request.class.getPermittedSubclasses().length);
        assertThat(ANSWERS).hasSize(Answer.class.getPermittedSubclasses().length);
    }

    /// What version 1 said is understood, and said by this one in the same bytes.
    @Test
    void recordedMessagesAreUnderstoodAndWrittenAsTheyWere() throws IOException {
        List<byte[]> recorded = recorded();
        List<Object> messages = new ArrayList<>(REQUESTS);
        messages.addAll(ANSWERS);
        assertThat(recorded).hasSameSizeAs(messages);
        for (int i = 0; i < recorded.size(); i++) {
            byte[] bytes = recorded.get(i);
            boolean asks = messages.get(i) instanceof Request;
            assertThat(asks ? Codec.request(bytes) : Codec.answer(bytes))
                    .usingRecursiveComparison()
                    .isEqualTo(messages.get(i));
            assertThat(
                            messages.get(i) instanceof Request request
                                    ? Codec.encode(request)
                                    : Codec.encode((Answer) messages.get(i)))
                    .isEqualTo(bytes);
        }
    }

    @Test
    void anotherVersionIsRefusedByItsNumber() throws IOException {
        byte[] later = recorded().getFirst();
        later[0] = 2;
        assertThatThrownBy(() -> Codec.request(later))
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessage(
                        "a rendezvous request of version 2, this is version 1:"
                                + " all ranks and the server need the same version of Telpher");
    }

    @Test
    void aTextThatIsNotUtf8IsRefused() {
        byte[] leave = Codec.encode(new Request.Leave("j", 1, 2));
        leave[6] = (byte) 0xff;
        assertThatThrownBy(() -> Codec.request(leave))
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessage("a rendezvous request with a text that is not UTF-8");
    }

    private static List<byte[]> recorded() throws IOException {
        try (InputStream stream = CodecTest.class.getResourceAsStream("rendezvous-1.txt")) {
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .filter(line -> !line.startsWith("#"))
                    .map(line -> HexFormat.of().parseHex(line.split(" ")[1]))
                    .toList();
        }
    }

    /// Whatever comes is a message or a clear refusal, and needs no more memory than it brings.
    @Test
    void damagedMessagesAreRefused() {
        Random dice = Fixtures.dice("damagedMessagesAreRefused");
        for (int i = 0; i < 20_000; i++) {
            Request request = REQUESTS.get(dice.nextInt(REQUESTS.size()));
            tryDamaged(Codec.encode(request), Codec::request, dice);
            Answer answer = ANSWERS.get(dice.nextInt(ANSWERS.size()));
            tryDamaged(Codec.encode(answer), Codec::answer, dice);
        }
    }

    private static void tryDamaged(byte[] good, Function<byte[], Object> decoder, Random dice) {
        byte[] bytes = Arrays.copyOf(good, dice.nextInt(good.length + 3));
        int harm = dice.nextInt(4);
        for (int i = 0; i < harm && bytes.length > 0; i++) {
            bytes[dice.nextInt(bytes.length)] = (byte) dice.nextInt();
        }
        try {
            assertThat(decoder.apply(bytes)).isNotNull();
        } catch (TelpherException.ProtocolViolation e) {
            assertThat(e).hasMessageContaining("a rendezvous ");
        }
    }

    @Test
    void cutMessagesAreRefused() {
        for (Request request : REQUESTS) {
            byte[] bytes = Codec.encode(request);
            for (int length = 0; length < bytes.length; length++) {
                byte[] cut = Arrays.copyOf(bytes, length);
                assertThatThrownBy(() -> Codec.request(cut))
                        .isInstanceOf(TelpherException.ProtocolViolation.class);
            }
            byte[] longer = Arrays.copyOf(bytes, bytes.length + 1);
            assertThatThrownBy(() -> Codec.request(longer))
                    .isInstanceOf(TelpherException.ProtocolViolation.class)
                    .hasMessageContaining("1 bytes too many");
        }
    }
}
