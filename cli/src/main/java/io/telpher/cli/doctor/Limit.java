package io.telpher.cli.doctor;

import java.util.Optional;

/// A resource limit of this process.
///
/// @param soft the limit in force; [Long#MAX_VALUE] for none
/// @param hard how far this process may raise it
record Limit(long soft, long hard) {
    static final String FILE = "/proc/self/limits";

    /// @param name as the file says it: `Max open files`
    static Optional<Limit> of(Host host, String name) {
        return host.read(FILE)
                .flatMap(
                        text ->
                                text.lines()
                                        .filter(line -> line.startsWith(name + " "))
                                        .map(line -> parse(line.substring(name.length()).strip()))
                                        .findFirst());
    }

    private static Limit parse(String columns) {
        String[] parts = columns.split("\\s+");
        return new Limit(number(parts[0]), number(parts[1]));
    }

    private static long number(String text) {
        return text.equals("unlimited") ? Long.MAX_VALUE : Long.parseLong(text);
    }

    static String text(long value) {
        return value == Long.MAX_VALUE ? "unlimited" : Long.toString(value);
    }
}
