import org.jspecify.annotations.NullMarked;

/// The `telpher` command.
@NullMarked
module io.telpher.cli {
    requires com.fasterxml.jackson.core;
    requires info.picocli;
    requires io.telpher.bootstrap;
    requires io.telpher.engine;
    requires HdrHistogram;
    requires java.management;
    requires jdk.httpserver;
    requires jdk.management;
    requires static org.jspecify;

    uses io.telpher.spi.Transport;

    opens io.telpher.cli to
            info.picocli;
    opens io.telpher.cli.bench to
            info.picocli;
    opens io.telpher.cli.doctor to
            info.picocli;
    opens io.telpher.cli.soak to
            info.picocli;
    opens io.telpher.cli.topo to
            info.picocli;
    opens io.telpher.cli.watch to
            info.picocli;
}
