package io.telpher.cli.bench;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/// What the connecting host decides for both ends of a full mesh.
///
/// @param transports what endpoints may use
/// @param lanes lanes of each pair, for each pair of network addresses; 0 for the engine's choice
/// @param depth writes in flight for each pair
/// @param largest bytes of the largest write
/// @param processes who owns the GPUs of a host
/// @param peers ranks of the other host
record MeshPlan(
        List<String> transports,
        int lanes,
        int depth,
        long largest,
        Processes processes,
        int peers) {
    /// Who owns the GPUs of a host, one rank each.
    enum Processes {
        /// One process, with a thread or more for each rank.
        ONE,
        /// A process for each.
        PER_GPU;

        static Processes parse(String text) {
            return switch (text.strip()) {
                case "one" -> ONE;
                case "per-gpu" -> PER_GPU;
                default ->
                        throw new IllegalArgumentException(
                                "--processes is '" + text + "'; it is one or per-gpu");
            };
        }

        String word() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    /// Changes with the messages between the hosts.
    private static final int VERSION = 1;

    /// @return the same, seen from the other host
    MeshPlan withPeers(int value) {
        return new MeshPlan(transports, lanes, depth, largest, processes, value);
    }

    /// Where the bytes of a write are.
    MeshLayout layout(long bytes, int sources, int targets) {
        return new MeshLayout(bytes, depth, sources, targets);
    }

    Message encode() {
        return Message.of("mesh")
                .with("version", VERSION)
                .with("transports", String.join(",", transports))
                .with("lanes", lanes)
                .with("depth", depth)
                .with("largest", largest)
                .with("processes", processes.word())
                .with("peers", peers);
    }

    static MeshPlan decode(Message message) {
        if (!message.has("version")) {
            throw new BenchFailure(
                    "that is telpher fullmesh, not what the other host runs: it says '%s'"
                            .formatted(message.verb()));
        }
        if (message.number("version") != VERSION) {
            throw new BenchFailure("the other host runs another version of telpher fullmesh");
        }
        return new MeshPlan(
                Arrays.asList(message.text("transports").split(",")),
                (int) message.number("lanes"),
                (int) message.number("depth"),
                message.number("largest"),
                Processes.parse(message.text("processes")),
                (int) message.number("peers"));
    }
}
