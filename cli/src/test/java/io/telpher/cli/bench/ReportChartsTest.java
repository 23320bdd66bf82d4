package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.Json;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// What people see of a report's charts: a browser runs its script.
class ReportChartsTest {
    private static final String HOSTILE =
            "</script><img src='http://127.0.0.1:9/' onerror='window.evil = 1'>{{data}}$1";

    @TempDir static Path profile;
    @TempDir Path temp;
    private static @Nullable Browser started;
    private Browser browser;

    @BeforeAll
    static void start() throws Exception {
        String program = Browser.program();
        assumeTrue(program != null, "needs the package chromium-headless-shell");
        started = new Browser(Objects.requireNonNull(program), profile);
    }

    @AfterAll
    static void end() {
        if (started != null) {
            started.close();
        }
    }

    private void open(String content) throws Exception {
        Path file = temp.resolve("report.html");
        Files.writeString(file, content);
        browser = Objects.requireNonNull(started);
        browser.open(file);
    }

    /// The report of these rows, as the tool writes it.
    private String report(List<Map<String, Object>> rows) throws Exception {
        Report report = new Report(temp.resolve("written.html"), "--json=" + HOSTILE);
        rows.forEach(row -> report.add(Json.object(row)));
        report.write(null);
        return Files.readString(temp.resolve("written.html"));
    }

    private static Map<String, Object> row(
            String system, String tool, String path, String op, long bytes, int depth) {
        boolean shared = List.of("mapped", "posix").contains(path);
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("system", system);
        row.put("tool", tool);
        row.put("transport", shared ? "shm" : "tcp");
        row.put("path", path);
        row.put("op", op);
        row.put("bytes", bytes);
        row.put("depth", depth);
        row.put("wrong", 0);
        return row;
    }

    /// A row whose percentiles are 1, 10 and 100 times `us`.
    private static Map<String, Object> row(
            String system, String tool, String path, String op, long bytes, int depth, double us) {
        Map<String, Object> row = row(system, tool, path, op, bytes, depth);
        row.put("GBps", bytes * depth / us / 1000);
        row.put("us_p50", us);
        row.put("us_p99", us * 10);
        row.put("us_p999", system.equals("telpher") ? us * 100 : Double.NaN);
        return row;
    }

    /// Two paths, two operations, two sizes, one at a time and in flight; one peer with two tools.
    private static List<Map<String, Object>> rows() {
        List<Map<String, Object>> rows = new ArrayList<>();
        for (String path : List.of("mapped", "tcp")) {
            for (long bytes : List.of(8L, 65536L)) {
                for (int depth : List.of(1, 16)) {
                    for (String op : List.of("write", "read")) {
                        double us = bytes == 8 ? 2 : 40;
                        for (int round = 1; round <= 3; round++) { // the median is the second
                            rows.add(row("telpher", "bench", path, op, bytes, depth, us * round));
                        }
                    }
                    if (path.equals("mapped")) {
                        rows.add(row("nixl", "best", "posix", "write", bytes, depth, 7));
                        rows.add(row("nixl", "defaults", "posix", "write", bytes, depth, 9));
                    }
                }
            }
        }
        Map<String, Object> wrong = row("telpher", "bench", "cma", "write", 8, 1, 1);
        wrong.put("wrong", 3);
        rows.add(wrong);
        return rows;
    }

    private List<String> seen(String selector) throws Exception {
        return browser.texts(
                "[...document.querySelectorAll('" + selector + "')].map(e => e.textContent)");
    }

    /// The legend of a chart, from 0 on: each entry as `label: value`.
    private List<String> legend(int chart) throws Exception {
        return browser.texts(
                """
                [...document.querySelectorAll(".uplot")[%d].querySelectorAll(".u-series")]
                    .map(s => s.querySelector(".u-label").textContent
                        + ": " + s.querySelector(".u-value").textContent)"""
                        .formatted(chart));
    }

    /// Points at a chart's first size.
    private void pointAt(int chart) throws Exception {
        List<?> place =
                (List<?>)
                        browser.evaluate(
                                """
                                (() => {
                                  const over = document.querySelectorAll(".u-over")[%d];
                                  over.scrollIntoView({block: "center", behavior: "instant"});
                                  const box = over.getBoundingClientRect();
                                  return [box.x + box.width / 10, box.y + box.height / 2];
                                })()"""
                                        .formatted(chart));
        browser.point(number(place.getFirst()), number(place.getLast()));
    }

    private static double number(Object value) {
        return ((Number) value).doubleValue();
    }

    /// How many pixels of each chart have Telpher's colour.
    private List<Double> ink() throws Exception {
        List<?> counts =
                (List<?>)
                        browser.evaluate(
                                """
                                (() => {
                                  const name = getComputedStyle(document.documentElement)
                                      .getPropertyValue("--telpher").trim();
                                  const [r, g, b] = [1, 3, 5].map(
                                      i => parseInt(name.slice(i, i + 2), 16));
                                  return [...document.querySelectorAll(".uplot canvas")].map(c => {
                                    const d = c.getContext("2d")
                                        .getImageData(0, 0, c.width, c.height).data;
                                    let found = 0;
                                    for (let i = 0; i < d.length; i += 4) {
                                      if (d[i] === r && d[i + 1] === g && d[i + 2] === b) found++;
                                    }
                                    return found;
                                  });
                                })()""");
        return counts.stream().map(ReportChartsTest::number).toList();
    }

    private void choose(String option) throws Exception {
        browser.evaluate("document.querySelector('input[value=\"" + option + "\"]').click()");
    }

    private void assertNoComplaint() throws Exception {
        assertThat(browser.complaints()).isEmpty();
        assertThat(browser.requests())
                .as("only the page itself was asked for")
                .containsExactly(temp.resolve("report.html").toUri().toString());
    }

    @Test
    void everyPathHasItsChartsWithAllSystems() throws Exception {
        open(report(rows()));
        assertThat(seen("h2")).containsExactly("path mapped", "path tcp");
        assertThat(seen("h3"))
                .containsExactly(
                        "GB/s, 16 in flight",
                        "microseconds, one at a time, p50",
                        "GB/s, 16 in flight",
                        "microseconds, one at a time, p50");
        assertThat(ink()).hasSize(4).allSatisfy(pixels -> assertThat(pixels).isGreaterThan(200));
        pointAt(1);
        assertThat(legend(1))
                .containsExactly(
                        "size: 8 B", "Telpher: 4 us", "nixl best: 7 us", "nixl defaults: 9 us");
        pointAt(2);
        assertThat(legend(2)).containsExactly("size: 8 B", "Telpher: 0.032 GB/s");
        assertNoComplaint();
    }

    /// Whatever the peers call what they do.
    @Test
    void peersStandBesideTheOperationThatTheyAreComparedWith() throws Exception {
        Stage stage = Stages.plain("tcp", 8, Stage.Waiting.POLL);
        Report report = new Report(temp.resolve("written.html"), "");
        try (JsonLines lines = new JsonLines(null, report)) {
            for (String of : List.of("notify tag_lat send", "write ucp_put_lat write")) {
                String[] words = of.split(" ");
                Case test = new Case(Op.parse(words[0]), 8, 1, 1);
                lines.row(new Row(stage, test, 9, 1, 2, 2, 2, 2, 1, 0, null, 1, 1), 1, 1, "");
                lines.peer(
                        new PeerResult(
                                "ucx",
                                "1",
                                "c",
                                words[1],
                                "tcp",
                                "tcp",
                                "own",
                                words[2],
                                "",
                                9,
                                1,
                                3,
                                3,
                                1,
                                OptionalLong.empty()),
                        test,
                        1);
                lines.ratio("ucx", words[1], words[2], stage, test, "us_p50", new Spread(1, 1, 1));
            }
        }
        report.write(null);
        open(Files.readString(temp.resolve("written.html")));
        assertThat(legend(1)).extracting(ReportChartsTest::label).contains("ucx tag_lat");
        assertThat(legend(1)).hasSize(3);
        choose("write");
        assertThat(legend(1)).extracting(ReportChartsTest::label).contains("ucx ucp_put_lat");
        assertThat(legend(1)).hasSize(3);
        assertNoComplaint();
    }

    private static String label(String entry) {
        return entry.substring(0, entry.lastIndexOf(": "));
    }

    @Test
    void theSwitchesChangeWhatIsShown() throws Exception {
        open(report(rows()));
        choose("p99");
        pointAt(1);
        assertThat(seen("h3")).contains("microseconds, one at a time, p99");
        assertThat(legend(1)).contains("size: 8 B", "Telpher: 40 us", "nixl best: 70 us");
        choose("p99.9");
        pointAt(1);
        assertThat(legend(1))
                .as("the peer has none")
                .containsExactly("size: 8 B", "Telpher: 400 us");
        choose("read");
        pointAt(0);
        assertThat(legend(0)).containsExactly("size: 8 B", "Telpher: 0.032 GB/s");
        assertThat(seen(".uplot")).hasSize(4);
        assertNoComplaint();
    }

    @Test
    void theChartsFollowTheWindowsWidth() throws Exception {
        open(report(rows()));
        String width = "document.querySelector('.uplot').getBoundingClientRect().width";
        double wide = number(Objects.requireNonNull(browser.evaluate(width)));
        browser.resize(500);
        String narrow =
                "new Promise(done => { const look = () => %s <= 500 ? done(true)"
                        + " : requestAnimationFrame(look); look(); })";
        assertThat(wide).isGreaterThan(500);
        assertThat(browser.evaluate(narrow.formatted(width))).isEqualTo(true);
        assertNoComplaint();
    }

    @Test
    void hostileNamesAreShownAsTheyAre() throws Exception {
        open(
                report(
                        List.of(
                                row("telpher", HOSTILE, HOSTILE, HOSTILE, 8, 1, 2),
                                row(HOSTILE, HOSTILE, "tcp", HOSTILE, 8, 1, 3))));
        assertThat(seen("h2")).containsExactly("path " + HOSTILE);
        assertThat(seen("fieldset label")).contains(" " + HOSTILE);
        pointAt(0);
        assertThat(legend(1).stream().map(ReportChartsTest::label))
                .containsExactly("size", "Telpher", HOSTILE + " " + HOSTILE);
        assertThat(seen("img")).isEmpty();
        assertThat(browser.evaluate("typeof window.evil")).isEqualTo("undefined");
        assertNoComplaint();
    }

    @Test
    void aRunWithoutSizesSaysSo() throws Exception {
        open(report(List.of(Map.of("metric", "idle", "value", 1.5, "unit", "%"))));
        assertThat(seen("#charts > p").getLast()).startsWith("Nothing was measured");
        assertNoComplaint();
    }

    /// What the other tests rest on.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "throw new Error('planted')",
                "setTimeout(() => { throw new Error('planted'); }, 0)",
                "Promise.reject(new Error('planted'))",
                "console.error('planted')",
                "let broken = ;",
                "fetch('http://127.0.0.1:9/planted')",
                "new Image().src = 'http://127.0.0.1:9/planted'"
            })
    void aScriptThatFailsOrAsksForSomethingIsNoticed(String script) throws Exception {
        open(report(rows()).replace("</body>", "<script>" + script + "</script></body>"));
        assertThat(browser.complaints()).isNotEmpty();
    }
}
