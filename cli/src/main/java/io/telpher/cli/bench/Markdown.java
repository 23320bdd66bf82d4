package io.telpher.cli.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;

/// Puts tables into a document, each between two marker lines of its own.
final class Markdown {
    /// What is written.
    enum Part {
        /// The promised figures.
        FIGURES("written"),
        /// Rows beside those of other programs.
        COMPARED("compared");

        private final String word;

        Part(String word) {
            this.word = word;
        }

        /// The line before it.
        String begin() {
            return "<!-- begin: " + word + " by telpher bench -->";
        }

        /// The line behind it.
        String end() {
            return "<!-- end: " + word + " by telpher bench -->";
        }

        /// Replaces what is between the markers; appends it, with markers, where there are none.
        void write(Path file, String table, int rounds, double others) {
            try {
                String before = Files.exists(file) ? Files.readString(file) : "# Benchmarks\n";
                Files.writeString(file, replace(before, origin(rounds, others) + table));
            } catch (IOException e) {
                throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
            }
        }

        String replace(String document, String table) {
            int begin = document.indexOf(begin());
            int end = document.indexOf(end());
            String marked = begin() + "\n" + table + end();
            if (begin < 0 || end < begin) {
                return document.stripTrailing() + "\n\n" + marked + "\n";
            }
            return document.substring(0, begin) + marked + document.substring(end + end().length());
        }
    }

    private Markdown() {}

    /// Says when and where, and how sure.
    static String origin(int rounds, double others) {
        return """
                Measured on %s by telpher %s: %s; median (least to greatest) of %d rounds, while \
                other programs used %s of the processors.

                """
                .formatted(
                        LocalDate.now(),
                        Machine.version(),
                        Machine.describe(),
                        rounds,
                        Spread.percent(others));
    }

    static String figures(Map<Figure, List<Double>> values, int rounds) {
        StringBuilder text = new StringBuilder();
        text.append("| what | bar | aim | measured | |\n|---|---|---|---|---|\n");
        values.forEach(
                (figure, found) -> {
                    Spread spread = Spread.of(found);
                    text.append(
                            "| %s | %s | %s | %s%s%s | %s |\n"
                                    .formatted(
                                            figure.what(),
                                            figure.barText(),
                                            figure.aimText(),
                                            spread,
                                            spread.isKnown() && !figure.unit().isEmpty()
                                                    ? " " + figure.unit()
                                                    : "",
                                            found.size() == rounds
                                                    ? ""
                                                    : ", %d rounds".formatted(found.size()),
                                            figure.verdict(spread)));
                });
        return text.toString();
    }
}
