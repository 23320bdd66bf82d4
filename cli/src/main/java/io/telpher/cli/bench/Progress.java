package io.telpher.cli.bench;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

/// One line on standard error that says what is being measured, when that is a terminal.
final class Progress implements AutoCloseable {
    private final PrintStream err;
    private final boolean shown;
    private int width;

    Progress() {
        this(System.err, isTerminal());
    }

    /// @param shown whether somebody looks
    Progress(PrintStream err, boolean shown) {
        this.err = err;
        this.shown = shown;
    }

    private static boolean isTerminal() {
        try {
            String target = Files.readSymbolicLink(Path.of("/proc/self/fd/2")).toString();
            return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty");
        } catch (IOException e) {
            return false;
        }
    }

    void show(String text) {
        if (shown) {
            err.print("\r" + text + " ".repeat(Math.max(0, width - text.length())) + "\r");
            err.flush();
            width = text.length();
        }
    }

    @Override
    public void close() {
        show("");
    }
}
