package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// Byte counts as people write them: `8`, `4K`, `1M`, `64MiB`. K, M and G are powers of 1024.
final class Sizes {
    private Sizes() {}

    /// Reads one size.
    ///
    /// @throws IllegalArgumentException when it is none
    static long parse(String text) {
        String value = text.strip().toUpperCase(Locale.ROOT).replaceFirst("I?B$", "");
        int shift = value.isEmpty() ? 0 : shift(value.charAt(value.length() - 1));
        String digits = shift == 0 ? value : value.substring(0, value.length() - 1);
        if (!digits.matches("\\d{1,15}")) {
            throw new IllegalArgumentException(
                    "'" + text + "' is not a size: write bytes, or a number with K, M or G");
        }
        long number = Long.parseLong(digits);
        if (number > Long.MAX_VALUE >> (shift + 1)) {
            throw new IllegalArgumentException("'" + text + "' is larger than any memory");
        }
        return number << shift;
    }

    private static int shift(char unit) {
        return switch (unit) {
            case 'K' -> 10;
            case 'M' -> 20;
            case 'G' -> 30;
            default -> 0;
        };
    }

    /// Reads sizes separated by commas.
    static List<Long> parseList(String text) {
        List<Long> sizes = new ArrayList<>();
        for (String part : text.split(",")) {
            sizes.add(parse(part));
        }
        return List.copyOf(sizes);
    }

    /// @return the shortest form that [#parse(String)] reads back as the same number
    static String format(long bytes) {
        String units = "KMG";
        long value = bytes;
        int unit = -1;
        while (value != 0 && value % 1024 == 0 && unit + 1 < units.length()) {
            value /= 1024;
            unit++;
        }
        return unit < 0 ? Long.toString(value) : value + units.substring(unit, unit + 1);
    }
}
