package io.telpher.cli.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;

/// Puts the table of figures into a document, between two marker lines.
final class Markdown {
    /// Starts the part that this tool writes.
    static final String BEGIN = "<!-- begin: written by telpher bench -->";

    /// Ends it.
    static final String END = "<!-- end: written by telpher bench -->";

    private Markdown() {}

    /// Replaces the part between the markers; appends it, with markers, where there are none.
    static void write(Path file, Map<Figure, List<Double>> values, int rounds, double others) {
        try {
            String before = Files.exists(file) ? Files.readString(file) : "# Benchmarks\n";
            Files.writeString(file, replace(before, table(values, rounds, others)));
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
        }
    }

    static String replace(String document, String part) {
        int begin = document.indexOf(BEGIN);
        int end = document.indexOf(END);
        String marked = BEGIN + "\n" + part + END;
        if (begin < 0 || end < begin) {
            return document.stripTrailing() + "\n\n" + marked + "\n";
        }
        return document.substring(0, begin) + marked + document.substring(end + END.length());
    }

    static String table(Map<Figure, List<Double>> values, int rounds, double others) {
        StringBuilder text = new StringBuilder();
        text.append(
                """
                Measured on %s by telpher %s: %s; median (least to greatest) of %d rounds, while \
                other programs used %s of the processors.

                """
                        .formatted(
                                LocalDate.now(),
                                Machine.version(),
                                Machine.describe(),
                                rounds,
                                Spread.percent(others)));
        text.append("| what | bar | aim | measured | |\n|---|---|---|---|---|\n");
        values.forEach(
                (figure, found) -> {
                    Spread spread = Spread.of(found);
                    text.append(
                            "| %s | %s | %s | %s%s | %s |\n"
                                    .formatted(
                                            figure.what(),
                                            figure.barText(),
                                            figure.aimText(),
                                            spread,
                                            spread.isKnown() && !figure.unit().isEmpty()
                                                    ? " " + figure.unit()
                                                    : "",
                                            figure.verdict(spread)));
                });
        return text.toString();
    }
}
