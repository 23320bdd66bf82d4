import org.jspecify.annotations.NullMarked;

/// The Telpher engine: moves bytes between processes, hosts and accelerators.
@NullMarked
module io.telpher.engine {
    requires static org.jspecify;
}
