import org.jspecify.annotations.NullMarked;

/// The `telpher` command.
@NullMarked
module io.telpher.cli {
    requires info.picocli;
    requires io.telpher.engine;
    requires HdrHistogram;
    requires static org.jspecify;

    opens io.telpher.cli to
            info.picocli;
}
