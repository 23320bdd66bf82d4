package io.telpher.cli.bench;

import java.util.List;
import java.util.Locale;

/// What stays the same for many rows: the endpoints, their connections and memory.
///
/// @param path the one path that is allowed
/// @param memory whose memory
/// @param lanes lanes for each pair of addresses, 0 for the engine's choice
/// @param rails network interfaces by name or subnet, empty for all
/// @param traffic who initiates towards whom
/// @param direction whether the opposite flows run too
/// @param ranks processes
/// @param room largest operation in bytes
/// @param waiting what a rank does while others use its memory
record Stage(
        String path,
        MemoryPair memory,
        int lanes,
        List<String> rails,
        Traffic traffic,
        Traffic.Direction direction,
        int ranks,
        long room,
        Waiting waiting) {
    /// What a rank does while it has nothing to initiate.
    enum Waiting {
        /// Polls its connections: quickest, uses a core.
        POLL,
        /// Leaves the work to the engine's progress thread.
        PARK;

        static Waiting parse(String text) {
            return switch (text.strip()) {
                case "poll" -> POLL;
                case "park" -> PARK;
                default ->
                        throw new IllegalArgumentException(
                                "'" + text + "' is neither poll nor park");
            };
        }

        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /// Every path that a host-memory run can ask for, in the order of the table.
    static final List<String> PATHS = List.of("mapped", "cma", "shm-ring", "tcp", "self");

    /// @return the transport that a path belongs to
    static String transportOf(String path) {
        return switch (path) {
            case "mapped", "cma", "shm-ring", "self" -> "shm";
            default -> path;
        };
    }

    String transport() {
        return transportOf(path);
    }

    /// @return the same over other network interfaces
    Stage withRails(List<String> value) {
        return new Stage(path, memory, lanes, value, traffic, direction, ranks, room, waiting);
    }

    Message encode() {
        return Message.of("open")
                .with("path", path)
                .with("memory", memory)
                .with("lanes", lanes)
                .with("rails", String.join(",", rails))
                .with("traffic", traffic.word())
                .with("direction", direction)
                .with("ranks", ranks)
                .with("room", room)
                .with("waiting", waiting);
    }

    static Stage decode(Message message) {
        String rails = message.text("rails");
        return new Stage(
                message.text("path"),
                MemoryPair.parse(message.text("memory")),
                (int) message.number("lanes"),
                rails.isEmpty() ? List.of() : List.of(rails.split(",")),
                Traffic.parse(message.text("traffic")),
                Traffic.Direction.valueOf(message.text("direction")),
                (int) message.number("ranks"),
                message.number("room"),
                Waiting.parse(message.text("waiting")));
    }
}
