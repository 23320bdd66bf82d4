package io.telpher.cli.bench;

import java.util.List;

/// Another way to move the same bytes, to compare with.
interface Peer extends AutoCloseable {
    /// @return its name in options and JSON
    String system();

    /// @return whether it moves such memory that way at all
    default boolean fits(Stage stage) {
        return !stage.memory().onGpu();
    }

    /// Measures whatever matches a row; both processes on the cores that Telpher's ranks use.
    ///
    /// @param seconds how long each of its tests should run
    /// @return one result for each matching test, none when nothing matches
    List<PeerResult> measure(Stage stage, Case test, double seconds);

    /// @return what the user must be told of it since the last call, such as why it was left out
    default List<String> remarks() {
        return List.of();
    }

    /// Ends what it keeps between measurements.
    @Override
    default void close() {}
}
