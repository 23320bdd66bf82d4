package io.telpher.cli.bench;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.cli.PeerArgument;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;

/// The two ends of a run on two machines: `--listen` on one, `--connect` on the other.
final class Hosts {
    /// The port of `--listen` where a host and port are to be enough to connect.
    static final int PORT = 7411;

    /// Until somebody comes.
    static final Duration FOR_EVER = Duration.ofDays(365);

    /// For a machine that listens already.
    static final Duration PATIENCE = Duration.ofSeconds(10);

    private Hosts() {}

    /// What a command that listens has for whoever comes.
    interface Service {
        /// @param control leads to the other side
        /// @return whether it asked for anything: `explain` and `doctor` connect, look and leave
        boolean serve(Control control);
    }

    /// Writes this endpoint's address to a file that only the user can read, waits for the other
    /// side, and serves it until it has finished.
    ///
    /// @param command for people, such as `telpher bench`
    /// @param port where a host and port are to be enough to connect
    /// @param atMost how long to wait for somebody
    static void listen(
            String command,
            Path file,
            int port,
            List<String> rails,
            Duration atMost,
            Table table,
            Service service) {
        boolean secretKnown = System.getenv("TELPHER_SECRET") != null;
        EndpointOptions options = options(rails);
        if (secretKnown && options.port() == 0) {
            options = options.withPort(port);
        }
        try (Endpoint endpoint = Endpoint.open(options)) {
            file.toFile().deleteOnExit(); // also when a signal ends this process
            write(file, endpoint.address().text());
            try {
                table.remark(
                        "address written to " + file + ": it holds the secret, copy it to the");
                table.remark("other machine and run: %s --connect @%s".formatted(command, file));
                if (secretKnown) {
                    table.remark(
                            "or with the same TELPHER_SECRET: %s --connect HOST:%d"
                                    .formatted(command, options.port()));
                }
                long end = System.nanoTime() + atMost.toNanos();
                while (!serve(accept(endpoint, atMost, end), table, service)) {
                    table.remark("it only looked; still waiting");
                }
            } finally {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
        }
    }

    private static Connection accept(Endpoint endpoint, Duration atMost, long end) {
        try {
            return endpoint.accept(Duration.ofNanos(Math.max(1, end - System.nanoTime())));
        } catch (TelpherException.TimedOut e) {
            throw new BenchFailure(
                    "nobody has connected within %d s".formatted(atMost.toSeconds()), e);
        }
    }

    private static boolean serve(Connection connection, Table table, Service service) {
        table.remark("connected with " + connection.peer());
        try (ConnectionControl control = new ConnectionControl(connection)) {
            return service.serve(control);
        }
    }

    private static EndpointOptions options(List<String> rails) {
        EndpointOptions options = EndpointOptions.fromEnvironment();
        return rails.isEmpty() ? options : options.withInterfaces(rails);
    }

    /// In one step, so that nobody reads half an address.
    private static void write(Path file, String text) throws IOException {
        Path folder = file.toAbsolutePath().getParent();
        Path fresh =
                Files.createTempFile(
                        folder == null ? Path.of(".") : folder,
                        ".telpher-bench",
                        "",
                        PosixFilePermissions.asFileAttribute(
                                PosixFilePermissions.fromString("rw-------")));
        Files.writeString(fresh, text + "\n");
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
    }

    /// The way to a machine that listens.
    ///
    /// @param control leads there
    /// @param endpoint whose connection that is
    record Way(Control control, Endpoint endpoint) implements AutoCloseable {
        @Override
        public void close() {
            endpoint.close();
        }
    }

    /// Connects to the other machine.
    ///
    /// @param where `@FILE` or `HOST:PORT`
    static Way connect(String where, List<String> rails, Duration atMost) {
        EndpointAddress address = PeerArgument.parse(where);
        Endpoint endpoint = Endpoint.open(options(rails).withPort(0));
        try {
            return new Way(new ConnectionControl(endpoint.connect(address, atMost)), endpoint);
        } catch (TelpherException e) {
            endpoint.close();
            throw new BenchFailure("cannot connect to " + where + ": " + e.getMessage(), e);
        }
    }
}
