package io.telpher.cli.bench;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;

/// TCP ports for the servers of other programs.
public final class Ports {
    private static final int FIRST = 10_000;

    /// Linux gives ports from 32768 on to those who ask for any: one of them could be taken before
    /// the server has started.
    private static final int END = 32_768;

    private Ports() {}

    /// @return a port that nobody listens on at the moment, and that nobody who asks for any port
    ///     will get
    public static int free() {
        int attempts = 1000;
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(FIRST, END);
            try (ServerSocket socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (IOException e) {
                if (--attempts == 0) {
                    throw new BenchFailure(
                            "no TCP port from %d to %d is free: %s"
                                    .formatted(FIRST, END - 1, e.getMessage()),
                            e);
                }
            }
        }
    }

    /// Waits until somebody listens, without connecting: some servers take one client only.
    ///
    /// @return whether it came to be within five seconds
    static boolean awaitListener(int port) {
        String suffix = String.format(Locale.ROOT, ":%04X", port);
        for (int i = 0; i < 1000; i++) {
            if (listens("/proc/net/tcp", suffix) || listens("/proc/net/tcp6", suffix)) {
                return true;
            }
            LockSupport.parkNanos(5_000_000);
        }
        return false;
    }

    private static boolean listens(String file, String suffix) {
        try {
            List<String> lines = Files.readAllLines(Path.of(file));
            return lines.stream()
                    .map(line -> line.strip().split("\\s+"))
                    .anyMatch(w -> w.length > 3 && w[1].endsWith(suffix) && w[3].equals("0A"));
        } catch (IOException e) {
            return false;
        }
    }
}
