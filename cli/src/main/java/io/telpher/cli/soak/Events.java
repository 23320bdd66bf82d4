package io.telpher.cli.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.LocalTime;

/// The last events of one process, in two files that take turns, so that they are bounded. Each
/// goes to the file at once: `kill -9` loses none. Thread-safe.
final class Events implements AutoCloseable {
    private static final long MOST = 4 << 20;

    private final Path file;
    private FileChannel out;
    private long size;

    /// @param file the newest events; older ones are in a file with `.old` behind its name
    Events(Path file) {
        this.file = file;
        out = open();
    }

    private FileChannel open() {
        try {
            FileChannel opened =
                    FileChannel.open(
                            file,
                            StandardOpenOption.CREATE,
                            StandardOpenOption.WRITE,
                            StandardOpenOption.APPEND);
            size = opened.size();
            return opened;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    synchronized void log(String text) {
        String line =
                "%s %s: %s%n".formatted(LocalTime.now(), Thread.currentThread().getName(), text);
        try {
            size += out.write(ByteBuffer.wrap(line.getBytes(UTF_8)));
            if (size > MOST) {
                out.close();
                Files.move(
                        file,
                        file.resolveSibling(file.getFileName() + ".old"),
                        StandardCopyOption.REPLACE_EXISTING);
                out = open();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public synchronized void close() {
        try {
            out.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
