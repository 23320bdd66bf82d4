package io.telpher.cli.bench;

import java.util.List;

final class Stages {
    private Stages() {}

    /// Rank 0 initiates towards rank 1, with memory that Telpher allocated.
    static Stage plain(String path, long room, Stage.Waiting waiting) {
        return new Stage(
                path,
                MemoryPair.TELPHER,
                0,
                List.of(),
                Traffic.PAIR,
                Traffic.Direction.ONE,
                2,
                room,
                waiting);
    }
}
