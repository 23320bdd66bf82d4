package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;
import org.jsoup.Jsoup;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What a browser gets to see, with an HTML parser in its place.
class ReportTest {
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
    private static final Case TEST = new Case(Op.WRITE, 8, 1, 1);

    @TempDir Path temp;
    private Path file;

    @BeforeEach
    void name() {
        file = temp.resolve("report.html");
    }

    @Test
    void hasTheFiguresOfAllSystemsAsMediansAndAsData() throws IOException {
        Report report = new Report(file, "--path mapped");
        try (JsonLines lines = new JsonLines(null, report)) {
            for (int round = 1; round <= 3; round++) {
                lines.row(row(round), 1, round, "pinned");
                lines.peer(peer(10.0 * round), TEST, round);
            }
            lines.ratio("nixl", "tuned", "write", STAGE, TEST, "us_p50", new Spread(0.5, 0.4, 0.6));
            lines.metric("idle", 1.5, "%", null);
        }
        report.write(null);
        Document page = Jsoup.parse(Files.readString(file));
        assertThat(page.select("dd").eachText()).contains(Machine.describe(), "--path mapped");
        assertThat(page.select("details").size()).isEqualTo(3);
        List<String> rows = page.select("details").getFirst().select("tbody tr").eachText();
        assertThat(rows).hasSize(2);
        assertThat(rows.get(0)).startsWith("telpher bench shm mapped telpher write 8 1 1 ");
        assertThat(rows.get(0)).contains(" 2.000 ");
        assertThat(rows.get(1)).startsWith("nixl tuned shm posix").contains(" 20.00 ");
        assertThat(page.select("details").get(1).text()).contains("telpher/nixl", "0.5000");
        Element data = page.getElementById("data");
        assertThat(data).isNotNull();
        assertThat(data.data()).contains("\"system\":\"nixl\"").startsWith("[{").endsWith("}]");
    }

    /// A run may be ended before it has anything to say.
    @Test
    void thereIsNoFileBeforeItIsWrittenAndAnOldOneStays() throws IOException {
        Report report = new Report(file, "");
        assertThat(file).doesNotExist();
        report.write(null);
        String old = Files.readString(file);
        Report next = new Report(file, "--op=read");
        assertThat(file).hasContent(old);
        next.write(null);
        assertThat(file).content().contains("--op=read");
    }

    @Test
    void loadsNothing() throws IOException {
        Report report = new Report(file, "");
        report.write(null);
        Document page = Jsoup.parse(Files.readString(file));
        assertThat(page.select("[src], [href], link, iframe, img, object")).isEmpty();
        assertThat(page.select("meta[http-equiv=Content-Security-Policy]").attr("content"))
                .startsWith("default-src 'none'");
        assertThat(page.select("style").eachAttr("data")).isEmpty();
        assertThat(page.select("style").outerHtml()).doesNotContain("@import", "url(");
        // The template itself names no place that is left empty.
        assertThat(Files.readString(file)).doesNotContain("{{").contains("uPlot", "MIT");
        assertThat(page.select("script")).hasSize(3);
    }

    @Test
    void aTextCannotEndTheScriptOrAddElements() throws IOException {
        Report report = new Report(file, "--json=<b>&\"x\"</b>");
        report.add("{\"metric\":\"</script><img id='evil' src='x'>\",\"value\":1,\"unit\":\"$1\"}");
        report.write("it <i>broke</i>");
        Document page = Jsoup.parse(Files.readString(file));
        assertThat(page.select("img, i, b")).isEmpty();
        assertThat(page.select(".failure").text())
                .isEqualTo("The run ended early: it <i>broke</i>");
        assertThat(page.select("code").text()).isEqualTo("--json=<b>&\"x\"</b>");
        assertThat(page.select("td").eachText()).contains("</script><img id='evil' src='x'>", "$1");
    }

    private static Row row(double gbps) {
        return new Row(STAGE, TEST, 9, gbps, 1, 1, 1, Double.NaN, 1, 0, null, 1, 1);
    }

    private static PeerResult peer(double gbps) {
        return new PeerResult(
                "nixl",
                "1",
                "python",
                "tuned",
                "shm",
                "posix",
                "own",
                "write",
                "s",
                9,
                gbps,
                1,
                2,
                Double.NaN,
                OptionalLong.of(0));
    }
}
