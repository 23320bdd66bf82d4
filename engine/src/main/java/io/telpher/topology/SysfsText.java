package io.telpher.topology;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// How the kernel, and NCCL after it, write the figures of a PCIe link.
final class SysfsText {
    private static final Pattern SPEED = Pattern.compile("(\\d{1,4}(?:\\.\\d{1,3})?)\\s*GT/s.*");

    /// What a link of unknown width shows: all bits of the register, or of a byte.
    private static final int ALL_BITS = 63;

    private SysfsText() {}

    /// Reads `16.0 GT/s PCIe` and what older kernels write.
    ///
    /// @return GT/s; 0 when it says something else, such as `Unknown`
    static double speed(String text) {
        Matcher speed = SPEED.matcher(text.strip());
        return speed.matches() ? Double.parseDouble(speed.group(1)) : 0;
    }

    /// @return lanes; 0 when unknown
    static int width(String text) {
        String digits = text.strip();
        int width = digits.matches("\\d{1,4}") ? Integer.parseInt(digits) : 0;
        return width >= ALL_BITS ? 0 : width;
    }

    /// @return as the kernel writes it; empty when unknown
    static String speed(double speed) {
        return speed == 0 ? "" : String.format(Locale.ROOT, "%.1f GT/s PCIe", speed);
    }
}
