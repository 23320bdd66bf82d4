package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.File;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/// A redis-server on loopback that keeps nothing on disk.
final class RedisServer implements AutoCloseable {
    private final int port;
    private final List<String> command = new ArrayList<>();
    private Child process;

    private RedisServer(int port) {
        this.port = port;
    }

    static RedisServer start(Path folder, String... more) {
        assumeThat(installed())
                .as("redis-server is on the PATH; install the package redis-server")
                .isTrue();
        int port = Fixtures.freePort();
        RedisServer server = new RedisServer(port);
        server.command.addAll(List.of("redis-server", "--port", "" + port, "--bind", "127.0.0.1"));
        server.command.addAll(List.of("--save", "", "--appendonly", "no"));
        server.command.addAll(List.of("--dir", folder.toString()));
        server.command.addAll(List.of(more));
        server.start();
        return server;
    }

    private static boolean installed() {
        return Stream.of(System.getenv("PATH").split(File.pathSeparator))
                .anyMatch(folder -> Files.isExecutable(Path.of(folder, "redis-server")));
    }

    private void start() {
        process = Child.program(command);
        String line;
        do {
            line = process.hear();
            assertThat(line).doesNotContain("Failed", "Fatal");
        } while (!line.contains("Ready to accept connections"));
    }

    URI uri() {
        return URI.create("redis://127.0.0.1:" + port);
    }

    int port() {
        return port;
    }

    /// kill -9, and a new one with nothing in it.
    void restart() {
        process.kill();
        start();
    }

    @Override
    public void close() {
        process.kill();
    }
}
