package io.telpher.cli.bench;

import java.util.List;

/// What stays the same for many rows: the endpoints, their connections and memory.
///
/// @param path the one path that is allowed
/// @param memory whose memory
/// @param lanes lanes for each pair of addresses, 0 for the engine's choice
/// @param rails network interfaces by name or subnet, empty for all
/// @param traffic who initiates towards whom
/// @param direction whether the opposite flows run too
/// @param ranks processes
/// @param room largest measured operation in bytes
/// @param load operations of a load beside the measured ones, in bytes; 0 for none
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
        long load,
        Waiting waiting) {
    /// What a rank does while it has nothing to initiate.
    enum Waiting {
        /// Polls its connections: quickest, uses a core.
        POLL,
        /// Leaves the work to the engine's progress thread.
        PARK,
        /// Whichever suits the operation.
        SUITED;

        static Waiting parse(String text) {
            return switch (text.strip()) {
                case "poll" -> POLL;
                case "park" -> PARK;
                default ->
                        throw new IllegalArgumentException(
                                "'" + text + "' is neither poll nor park");
            };
        }
    }

    /// Every path that a run can ask for, in the order of the table.
    static final List<String> PATHS =
            List.of(
                    "mapped",
                    "cma",
                    "cuda-cumem",
                    "cuda-ipc",
                    "cuda-via-gpu",
                    "shm-ring",
                    "verbs",
                    "verbs-ring",
                    "tcp",
                    "self");

    /// Those that only memory of GPUs takes.
    static final List<String> GPU_PATHS = List.of("cuda-cumem", "cuda-ipc", "cuda-via-gpu");

    /// One without a load.
    Stage(
            String path,
            MemoryPair memory,
            int lanes,
            List<String> rails,
            Traffic traffic,
            Traffic.Direction direction,
            int ranks,
            long room,
            Waiting waiting) {
        this(path, memory, lanes, rails, traffic, direction, ranks, room, 0, waiting);
    }

    /// @return the transport that a path belongs to
    static String transportOf(String path) {
        return switch (path) {
            case "mapped", "cma", "cuda-cumem", "cuda-ipc", "cuda-via-gpu", "shm-ring", "self" ->
                    "shm";
            case "verbs-ring" -> "verbs";
            default -> path;
        };
    }

    String transport() {
        return transportOf(path);
    }

    /// @return whether a rank sleeps while others do this to its memory. What a NIC carries out
    ///     needs no thread of its host.
    boolean parks(Op op) {
        return switch (waiting) {
            case POLL -> false;
            case PARK -> true;
            case SUITED -> path.equals("verbs") && op.oneSided();
        };
    }

    /// @return whether the engine's threads inherit the core of the thread that measures. Beside a
    ///     thread that polls they have nothing to do; on another core they take turns with it all
    ///     the same, and large sends in flight over shared memory are slower by a quarter to a half
    ///     (docs/benchmarks.md). What a NIC carries out leaves time to others.
    boolean sharesCores() {
        return !path.equals("verbs");
    }

    /// @return whether network interfaces carry it
    boolean hasRails() {
        return !transport().equals("shm");
    }

    /// @return whether GPUs are to copy what one-sided operations move: a stage in which they do
    ///     not is not what was asked for
    boolean byGpu() {
        return memory.onGpu() && (GPU_PATHS.contains(path) || path.equals("self"));
    }

    /// @return what the endpoints are allowed. Messages, and the host memory beside that of GPUs,
    ///     need more than the paths of GPUs.
    List<String> allowedPaths() {
        return GPU_PATHS.contains(path) ? List.of(path, "mapped") : List.of(path);
    }

    /// @return what the engine calls the way of one-sided operations, where [#byGpu()]
    String way(Op op) {
        if (path.equals("self")) {
            return memory.far(op).onGpu() ? "cuda-direct" : "self";
        }
        return memory.far(op).onGpu() ? path : "mapped";
    }

    /// @return whether an operation can go this way at all: only memory that Telpher allocated is
    ///     mapped, and where memory of two GPUs is of different kinds, each is lent in its own
    boolean fits(Op op) {
        MemoryPair.Kind far = memory.far(op);
        if (path.equals("mapped")) {
            return far == MemoryPair.Kind.TELPHER || op == Op.NOTIFY;
        }
        boolean mixed =
                memory.source() != memory.target()
                        && memory.source().onGpu()
                        && memory.target().onGpu();
        return !mixed
                || !GPU_PATHS.contains(path)
                || path.equals("cuda-via-gpu")
                || (far == MemoryPair.Kind.CUDA) == path.equals("cuda-cumem");
    }

    /// @return the same over other network interfaces
    Stage withRails(List<String> value) {
        return new Stage(
                path, memory, lanes, value, traffic, direction, ranks, room, load, waiting);
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
                .with("load", load)
                .with("waiting", waiting.name());
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
                message.number("load"),
                Waiting.valueOf(message.text("waiting")));
    }
}
