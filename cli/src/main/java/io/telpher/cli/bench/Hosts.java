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

    private static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final Duration UNTIL_SOMEBODY_COMES = Duration.ofDays(365);

    private Hosts() {}

    /// Writes this endpoint's address to a file that only the user can read, waits for the other
    /// side, and serves it until it has finished.
    static void listen(Path file, List<String> rails, Table table) {
        boolean secretKnown = System.getenv("TELPHER_SECRET") != null;
        EndpointOptions options = options(rails);
        if (secretKnown && options.port() == 0) {
            options = options.withPort(PORT);
        }
        try (Endpoint endpoint = Endpoint.open(options)) {
            file.toFile().deleteOnExit(); // also when a signal ends this process
            write(file, endpoint.address().text());
            try {
                table.remark(
                        "address written to " + file + ": it holds the secret, copy it to the");
                table.remark("other machine and run: telpher bench --connect @" + file);
                if (secretKnown) {
                    table.remark(
                            "or with the same TELPHER_SECRET: telpher bench --connect HOST:"
                                    + options.port());
                }
                while (!serve(endpoint.accept(UNTIL_SOMEBODY_COMES), table)) {
                    table.remark("it only looked; still waiting");
                }
            } finally {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file + ": " + e.getMessage(), e);
        }
    }

    /// `explain` and `doctor` connect, look and leave.
    ///
    /// @return whether the other side asked for anything
    private static boolean serve(Connection connection, Table table) {
        table.remark("connected with " + connection.peer());
        try (ConnectionControl control = new ConnectionControl(connection)) {
            return new RankServer(control).serve();
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

    /// Takes the other machine into a crew.
    ///
    /// @param where `@FILE` or `HOST:PORT`
    static void connect(Crew crew, String where, List<String> rails) {
        EndpointAddress address = PeerArgument.parse(where);
        Endpoint endpoint = Endpoint.open(options(rails).withPort(0));
        try {
            Connection connection = endpoint.connect(address, PATIENCE);
            crew.add(new ConnectionControl(connection), endpoint);
        } catch (TelpherException e) {
            endpoint.close();
            throw new BenchFailure("cannot connect to " + where + ": " + e.getMessage(), e);
        }
    }
}
