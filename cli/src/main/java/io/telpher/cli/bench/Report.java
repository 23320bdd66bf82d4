package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.cli.Json;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/// A run as one HTML file that loads nothing: the JSON lines, charts that a script draws from them,
/// and tables that need no script. Its content security policy forbids all loading.
final class Report {
    private static final Pattern PLACE = Pattern.compile("\\{\\{([a-z.]+)}}");
    private static final List<String> TEXTS =
            List.of("system", "tool", "transport", "path", "memory", "op");
    private static final List<String> NUMBERS =
            List.of("GBps", "us_p50", "us_p99", "us_p999", "cpu_s_per_GB");

    private final Path file;
    private final String arguments;
    private final ZonedDateTime start = ZonedDateTime.now();
    private final List<String> lines = new ArrayList<>();

    /// @param file where it goes; that it can be written is found out now, not after the measuring
    /// @param arguments what the user asked for
    Report(Path file, String arguments) {
        this.file = file;
        this.arguments = arguments;
        try {
            boolean there = Files.exists(file);
            Files.newByteChannel(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE).close();
            if (!there) {
                Files.delete(file); // a run that is ended by a signal leaves nothing behind
            }
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
        }
    }

    /// Takes one line of JSON.
    void add(String line) {
        lines.add(line);
    }

    /// Writes the file.
    ///
    /// @param failure why the run ended early, or null when it did not
    void write(@Nullable String failure) {
        List<Map<String, Object>> objects = lines.stream().map(Json::parse).toList();
        Map<String, String> parts = new LinkedHashMap<>();
        parts.put("date", text(start.format(DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm xxx"))));
        parts.put("version", text(Machine.version()));
        parts.put("machine", text(Machine.describe()));
        parts.put("arguments", text(arguments.isEmpty() ? "none" : arguments));
        parts.put(
                "failure",
                failure == null
                        ? ""
                        : "<p class=\"failure\">The run ended early: " + text(failure) + "</p>");
        parts.put("tables", measured(objects) + ratios(objects) + metrics(objects));
        // Within a script element only "<" could end it.
        parts.put("data", "[" + String.join(",\n", lines).replace("<", "\\u003c") + "]");
        parts.put("report.css", resource("report/report.css"));
        parts.put("report.js", resource("report/report.js"));
        parts.put("uplot.css", resource("uplot/uPlot.min.css"));
        parts.put("uplot.js", resource("uplot/uPlot.iife.min.js"));
        parts.put("uplot.licence", text(resource("uplot/LICENSE")));
        Matcher places = PLACE.matcher(resource("report/report.html"));
        String page =
                places.replaceAll(
                        place ->
                                Matcher.quoteReplacement(
                                        Objects.requireNonNull(parts.get(place.group(1)))));
        try {
            Files.writeString(file, page);
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
        }
    }

    /// Rows of all systems, each the median of its rounds.
    private static String measured(List<Map<String, Object>> objects) {
        Map<List<Object>, List<Map<String, Object>>> groups = new LinkedHashMap<>();
        for (Map<String, Object> object : objects) {
            if (object.containsKey("system")) {
                List<Object> key = new ArrayList<>();
                TEXTS.forEach(name -> key.add(object.getOrDefault(name, "")));
                for (String name : List.of("bytes", "pieces", "depth")) {
                    key.add(object.getOrDefault(name, 0));
                }
                groups.computeIfAbsent(key, k -> new ArrayList<>()).add(object);
            }
        }
        List<List<String>> rows = new ArrayList<>();
        groups.forEach(
                (key, rounds) -> {
                    List<String> row = new ArrayList<>();
                    key.forEach(value -> row.add(value.toString()));
                    NUMBERS.forEach(name -> row.add(median(rounds, name)));
                    row.add(wrong(rounds));
                    row.add(String.valueOf(rounds.getFirst().getOrDefault("settings", "")));
                    rows.add(row);
                });
        return table(
                "All figures",
                List.of(
                        "system",
                        "test",
                        "transport",
                        "path",
                        "memory",
                        "op",
                        "bytes",
                        "pieces",
                        "in flight",
                        "GB/s",
                        "p50 us",
                        "p99 us",
                        "p99.9 us",
                        "CPU s/GB",
                        "wrong",
                        "settings"),
                rows);
    }

    /// The bytes that were wrong in all rounds, or nothing where nobody looked.
    private static String wrong(List<Map<String, Object>> rounds) {
        List<Long> counts = new ArrayList<>();
        for (Map<String, Object> round : rounds) {
            if (round.get("wrong") instanceof Long count) {
                counts.add(count);
            }
        }
        return counts.isEmpty() ? "" : "" + counts.stream().mapToLong(Long::longValue).sum();
    }

    private static String median(List<Map<String, Object>> rounds, String name) {
        List<Double> values = new ArrayList<>();
        for (Map<String, Object> round : rounds) {
            if (round.get(name) instanceof Number number) {
                values.add(number.doubleValue());
            }
        }
        return Table.figure(Spread.of(values).median());
    }

    private static String ratios(List<Map<String, Object>> objects) {
        List<String> columns =
                List.of(
                        "path", "op", "bytes", "depth", "of", "ratio", "tool", "median", "min",
                        "max");
        return rows("Telpher / peer, over the rounds", "ratio", columns, objects);
    }

    private static String metrics(List<Map<String, Object>> objects) {
        return rows("Other figures", "metric", List.of("metric", "value", "unit"), objects);
    }

    /// The objects that have a field, as a table of some of their fields.
    private static String rows(
            String title, String field, List<String> columns, List<Map<String, Object>> objects) {
        List<List<String>> rows =
                objects.stream()
                        .filter(object -> object.containsKey(field))
                        .map(object -> columns.stream().map(c -> shown(object.get(c))).toList())
                        .toList();
        return table(title, columns, rows);
    }

    private static String shown(@Nullable Object value) {
        return switch (value) {
            case null -> "-";
            case Double number -> Table.figure(number);
            default -> value.toString();
        };
    }

    private static String table(String title, List<String> columns, List<List<String>> rows) {
        if (rows.isEmpty()) {
            return "";
        }
        StringBuilder html = new StringBuilder("<details open><summary>");
        html.append(text(title))
                .append("</summary><div class=\"scroll\"><table class=\"figures\">");
        html.append("<thead>");
        row(html, "th", columns);
        html.append("</thead><tbody>\n");
        rows.forEach(cells -> row(html, "td", cells));
        return html.append("</tbody></table></div></details>\n").toString();
    }

    private static void row(StringBuilder html, String element, List<String> cells) {
        html.append("<tr>");
        for (String cell : cells) {
            boolean number = cell.matches("[-0-9.]+");
            html.append('<').append(element).append(number ? ">" : " class=\"t\">");
            html.append(text(cell)).append("</").append(element).append('>');
        }
        html.append("</tr>\n");
    }

    private static String text(String plain) {
        return plain.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }

    private static String resource(String name) {
        try (InputStream in = Report.class.getResourceAsStream(name)) {
            if (in == null) {
                throw new BenchFailure("this build lacks its resource " + name);
            }
            return new String(in.readAllBytes(), UTF_8);
        } catch (IOException e) {
            throw new BenchFailure("cannot read the resource " + name, e);
        }
    }
}
