package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.cli.Json;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class OutputTest {
    private static final Stage STAGE =
            new Stage(
                    "mapped",
                    MemoryPair.TELPHER,
                    0,
                    List.of(),
                    Traffic.PAIR,
                    Traffic.Direction.ONE,
                    2,
                    8,
                    Stage.Waiting.POLL);
    private static final Row ROW =
            new Row(
                    STAGE,
                    new Case(Op.WRITE, 8, 1, 1),
                    1000,
                    0.32,
                    0.025,
                    0.0266,
                    0.061,
                    Double.NaN,
                    1.5,
                    0,
                    null,
                    64,
                    1);

    @TempDir Path temp;

    @Test
    void jsonEscapesTextAndHasNoNumbersThatJsonLacks() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("text", "a\"b\\c\nd\te\u0001");
        fields.put("whole", 7L);
        fields.put("small", 0.000123456789);
        fields.put("large", 123456789.0);
        fields.put("zero", 0.0);
        fields.put("round", 20.0);
        fields.put("nan", Double.NaN);
        fields.put("nothing", null);
        assertThat(Json.object(fields))
                .isEqualTo(
                        "{\"text\":\"a\\\"b\\\\c\\nd\\te\\u0001\",\"whole\":7,\"small\":0.000123457,"
                                + "\"large\":123456789,\"zero\":0,\"round\":20,\"nan\":null,"
                                + "\"nothing\":null}");
    }

    @Test
    void jsonLinesHaveTheFieldsThatToolsRelyOn() throws IOException {
        Path file = temp.resolve("out.json");
        PeerResult peer =
                new PeerResult(
                        "ucx",
                        "1.13.1",
                        "c",
                        "ucp_put_lat",
                        "shm",
                        "posix,self",
                        "own",
                        "write",
                        "s",
                        9,
                        1,
                        2,
                        3,
                        4,
                        OptionalLong.empty());
        try (JsonLines lines = new JsonLines(file, null)) {
            lines.row(ROW, 3, 2, "pinned to cores 0,1");
            lines.peer(peer, new Case(Op.READ, 8, 1, 1), 2);
            lines.metric("sum of rails", 1.5, "GB/s", null);
            lines.ratio("ucx", "best", "write", STAGE, ROW.test(), "us_p50", new Spread(2, 1, 3));
        }
        List<String> lines = Files.readAllLines(file);
        String order =
                "\\{\"system\":.*\"version\":.*\"client\":.*\"device\":.*\"transport\":\"shm\",\"path\":"
                        + ".*\"memory\":.*\"op\":\"write\",\"tool\":.*\"settings\":.*\"bytes\":8,"
                        + "\"pieces\":1,\"depth\":1,\"lanes\":%d,\"round\":2,\"iterations\":\\d+,"
                        + "\"GBps\":.*\"us_p50\":.*\"us_p99\":.*\"us_p999\":.*\"cpu_s_per_GB\":.*"
                        + "\"wrong\":%s}";
        assertThat(lines.get(0))
                .matches(order.formatted(3, 0))
                .contains("\"system\":\"telpher\"", "\"client\":\"java\"", "groups of 64");
        assertThat(lines.get(1))
                .matches(order.formatted(0, null))
                .contains("\"tool\":\"ucp_put_lat\"");
        assertThat(lines.get(2))
                .isEqualTo(
                        "{\"metric\":\"sum of rails\",\"value\":1.5,\"unit\":\"GB/s\",\"reference\":null}");
        assertThat(lines.get(3))
                .isEqualTo(
                        "{\"ratio\":\"telpher/ucx\",\"tool\":\"best\",\"peer_op\":\"write\","
                                + "\"transport\":\"shm\",\"path\":\"mapped\",\"memory\":\"telpher\","
                                + "\"op\":\"write\",\"bytes\":8,\"pieces\":1,\"depth\":1,"
                                + "\"client\":\"java\",\"of\":\"us_p50\",\"median\":2,\"min\":1,\"max\":3}");
    }

    @Test
    void aRowOfWrongDataIsNoFigure() {
        assertThat(ROW.checked()).isSameAs(ROW);
        Row wrong =
                new Row(STAGE, ROW.test(), 9, 1, 1, 1, 1, 1, 1, 3, "byte 7 of the target", 1, 1);
        assertThatThrownBy(wrong::checked)
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("3 bytes")
                .hasMessageContaining("byte 7 of the target");
    }

    @Test
    void tableColumnsLineUp() {
        StringWriter text = new StringWriter();
        Table table = new Table(new PrintWriter(text));
        table.begin(STAGE, List.of(1, 16));
        table.row(List.of(ROW));
        List<String> lines = text.toString().lines().toList();
        assertThat(lines.get(1)).isEqualTo("# path mapped (shm), telpher memory");
        assertThat(lines.get(2)).startsWith("#").contains("p99.9", "wrong");
        assertThat(lines.get(3)).contains("(GB/s)@16");
        assertThat(lines.subList(2, 5))
                .extracting(String::length)
                .containsOnly(lines.get(2).length());
        assertThat(lines.get(4)).contains("0.02660*", " 8 ", " 40.00 ").endsWith(" 0");
    }

    @Test
    void aLineOfProgressHidesTheOneBefore() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (Progress progress = new Progress(new PrintStream(bytes, true, UTF_8), true)) {
            progress.show("long line");
            progress.show("next");
        }
        assertThat(bytes.toString(UTF_8)).isEqualTo("\rlong line\r\rnext     \r\r    \r");
        bytes.reset();
        try (Progress progress = new Progress(new PrintStream(bytes, true, UTF_8), false)) {
            progress.show("to nobody");
        }
        assertThat(bytes.size()).isZero();
    }

    @Test
    void severalLinesOfARemarkAreAllRemarks() {
        StringWriter text = new StringWriter();
        new Table(new PrintWriter(text)).remark("one\ntwo\n");
        assertThat(text).hasToString("# one\n# two\n");
    }

    @Test
    void figuresHaveFourDigitsAndNoExponent() {
        assertThat(Table.figure(123456)).isEqualTo("123456");
        assertThat(Table.figure(12.3456)).isEqualTo("12.35");
        assertThat(Table.figure(0.0001)).isEqualTo("0.000100");
        assertThat(Table.figure(0)).isEqualTo("0");
        assertThat(Table.figure(Double.NaN)).isEqualTo("-");
    }

    @Test
    void ofTheKernelOnlyTheNumbersAreShown() {
        assertThat(Machine.release("6.12.57+deb13-amd64")).isEqualTo("6.12.57");
        assertThat(Machine.release("5.14.0-427.el9.x86_64")).isEqualTo("5.14.0");
        assertThat(Machine.release("6.18")).isEqualTo("6.18");
        assertThat(Machine.describe()).doesNotContainPattern("Linux [0-9.]*[^0-9., ]");
    }

    @Test
    void markdownShowsMachineDateAndSpread() {
        Figure figure =
                new Figure("n", "8 B / UCX", 1.0, 0.6, Figure.Better.LOWER, "x", round -> 0);
        assertThat(Markdown.origin(3, 0.02))
                .startsWith("Measured on " + LocalDate.now() + " by telpher ")
                .contains(Machine.describe(), "of 3 rounds", "other programs used 2.0 %");
        assertThat(Markdown.figures(Map.of(figure, List.of(0.9, 0.8, 1.1)), 3))
                .endsWith(
                        "| 8 B / UCX | at most 1x | 0.6x | 0.9000 (0.8000 to 1.100) x | reached |\n");
        assertThat(Markdown.figures(Map.of(figure, List.of(0.9, 0.8, 1.1)), 5))
                .contains("(0.8000 to 1.100) x, 3 rounds |");
    }

    @ParameterizedTest
    @EnumSource(Markdown.Part.class)
    void markdownReplacesOnlyThePartBetweenTheMarkers(Markdown.Part part) {
        String document = "before\n" + part.begin() + "\nold\n" + part.end() + "\nafter\n";
        assertThat(part.replace(document, "new\n"))
                .isEqualTo("before\n" + part.begin() + "\nnew\n" + part.end() + "\nafter\n");
        assertThat(part.replace("text", "new\n"))
                .isEqualTo("text\n\n" + part.begin() + "\nnew\n" + part.end() + "\n");
    }

    @Test
    void comparedRowsHaveAColumnForEachPeerAndTheBestOfTheRoundDecides() {
        Versus versus = new Versus();
        double ours = ROW.usP50();
        versus.add(
                ROW,
                Map.of(
                        "x",
                        List.of(peer("default", 4 * ours, 0), peer("tuned", ours, 3)),
                        "y",
                        List.of()));
        versus.add(
                ROW,
                Map.of("x", List.of(peer("default", 10 * ours, 0), peer("tuned", 5 * ours, 0))));
        List<String> lines = versus.table().lines().toList();
        assertThat(lines).hasSize(3);
        assertThat(lines.getFirst())
                .isEqualTo(
                        "| path | what | Telpher | x default | x tuned | Telpher / best | bar | |");
        assertThat(lines.getLast())
                .startsWith("| mapped | " + ROW.test() + ", us | " + Table.figure(ours) + " | ")
                .contains("| " + Table.figure(7 * ours) + " | " + Table.figure(5 * ours) + " |")
                .endsWith("| 0.2250 (0.2000 to 0.2500) | at most 0.5x | reached |");
    }

    private static PeerResult peer(String tool, double us, long wrong) {
        return new PeerResult(
                "x",
                "1",
                "c",
                tool,
                "shm",
                "p",
                "own",
                "write",
                "",
                1,
                Double.NaN,
                us,
                us,
                1,
                OptionalLong.of(wrong));
    }
}
