package io.telpher.cli.bench;

import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What the user asked for.
///
/// @param transports allowed transports, empty for all
/// @param paths paths to measure, empty for all that are there except `self` and `verbs`
/// @param ops operations
/// @param sizes sizes in bytes, empty for the default sweep
/// @param depths operations in flight, one row for each
/// @param pieces pieces of each operation
/// @param posting how writes and reads in flight are posted
/// @param lanes lanes for each pair of addresses, 0 for the engine's choice
/// @param memory whose memory, or null for what suits the path
/// @param direction whether the opposite flows run too
/// @param traffic who initiates towards whom
/// @param ranks processes
/// @param rounds how often everything is measured
/// @param seconds how long each row is timed, 0 to fit everything into the budget
/// @param warmUp seconds to spend at most on warming an operation up
/// @param patience seconds to spend on waiting for other programs in comparisons
/// @param rails network interfaces, by name or subnet
/// @param background what runs beside the measured operations, or null
/// @param json where JSON lines go, or null
/// @param html where the report goes, or null
/// @param markdown where the table of figures or comparisons goes, or null
/// @param pinning whether every process stays on a core of its own
/// @param waiting what a rank does while others use its memory
record BenchOptions(
        List<String> transports,
        List<String> paths,
        List<Op> ops,
        List<Long> sizes,
        List<Integer> depths,
        int pieces,
        Posting posting,
        int lanes,
        @Nullable MemoryPair memory,
        Traffic.Direction direction,
        Traffic traffic,
        int ranks,
        int rounds,
        double seconds,
        double warmUp,
        double patience,
        List<String> rails,
        @Nullable Background background,
        @Nullable Path json,
        @Nullable Path html,
        @Nullable Path markdown,
        Pinning pinning,
        Stage.Waiting waiting) {
    /// Operations in flight for the throughput column.
    static final int DEEP = 16;

    /// As the engine's option has it.
    private static final int MOST_LANES = 64;

    private static final List<String> TRANSPORTS =
            Stage.PATHS.stream().map(BenchOptions::transportOption).distinct().toList();

    /// Whether processes stay on cores of their own.
    enum Pinning {
        PINNED,
        FREE
    }

    /// How operations in flight are posted.
    enum Posting {
        /// Each when there is room.
        EACH,
        /// All of them as one list.
        LIST
    }

    /// A load beside the measured one, on the same connection.
    ///
    /// @param op write or read
    /// @param bytes size of each operation
    record Background(Op op, long bytes) {
        static Background parse(String text) {
            String[] parts = text.split(":", 2);
            if (parts.length != 2) {
                throw new IllegalArgumentException(
                        "'" + text + "' is not OP:BYTES, such as write:64M");
            }
            Op op = Op.parse(parts[0]);
            if (!op.oneSided()) {
                throw new IllegalArgumentException(
                        "a background load is a write or a read, not '" + parts[0] + "'");
            }
            long bytes = Sizes.parse(parts[1]);
            if (bytes == 0) {
                throw new IllegalArgumentException("a background load of 0 bytes is none");
            }
            return new Background(op, bytes);
        }
    }

    BenchOptions {
        for (String path : paths) {
            if (!Stage.PATHS.contains(path)) {
                throw new IllegalArgumentException(
                        "'" + path + "' is no path: " + String.join(", ", Stage.PATHS));
            }
        }
        for (String path : paths) {
            checkMemory(path, memory);
        }
        for (Op op : ops) {
            if (pieces > 1 && !op.hasPieces()) {
                throw new IllegalArgumentException(
                        "a %s has no pieces: drop --pieces, or take write, read or send"
                                .formatted(op.word()));
            }
        }
        for (long size : sizes) {
            if (size == 0) {
                throw new IllegalArgumentException(
                        "--sizes has a 0; operations have 1 byte or more");
            }
            if (size % pieces != 0) {
                throw new IllegalArgumentException(
                        "%d bytes cannot be cut into %d equal pieces".formatted(size, pieces));
            }
        }
        if (lanes < 0 || lanes > MOST_LANES) {
            throw new IllegalArgumentException(
                    "--lanes is %d; it must lie between 0 and %d".formatted(lanes, MOST_LANES));
        }
        if (Math.max(paths.size(), transports.size()) > 1
                && (paths.contains("self") || transports.contains("self"))) {
            throw new IllegalArgumentException("path self runs in one process: ask for it alone");
        }
        for (String transport : transports) {
            if (!TRANSPORTS.contains(transport)) {
                throw new IllegalArgumentException(
                        "'" + transport + "' is no transport: " + String.join(", ", TRANSPORTS));
            }
        }
        if (posting == Posting.LIST
                && (ops.stream().noneMatch(Op::oneSided)
                        || depths.stream().noneMatch(depth -> depth > 1))) {
            throw new IllegalArgumentException(
                    "--list posts writes or reads together, of which more than one are in flight:"
                            + " --op write --depth 16");
        }
        if (traffic == Traffic.PAIR && ranks != 2) {
            throw new IllegalArgumentException(
                    ranks + " ranks need a --pattern: ring, all-to-all or incast");
        }
        if (ranks < 2 || ranks > 256) {
            throw new IllegalArgumentException(
                    "--ranks is " + ranks + "; it must lie between 2 and 256");
        }
    }

    /// @throws IllegalArgumentException when this memory cannot take that path
    private static void checkMemory(String path, @Nullable MemoryPair memory) {
        if (memory == null) {
            return;
        }
        if (!memory.onGpu()) {
            if (Stage.GPU_PATHS.contains(path)) {
                throw new IllegalArgumentException(
                        "path %s is for memory of GPUs; --memory is %s".formatted(path, memory));
            }
            if (path.equals("mapped") && !memory.has(MemoryPair.Kind.TELPHER)) {
                throw new IllegalArgumentException(
                        "path mapped is for memory that Telpher allocates; --memory %s takes cma,"
                                        .formatted(memory)
                                + " shm-ring, verbs, tcp or self");
            }
            return;
        }
        if (path.equals("mapped") || path.equals("cma")) {
            throw new IllegalArgumentException(
                    "path %s is for host memory; --memory %s takes cuda-cumem, cuda-ipc,"
                                    .formatted(path, memory)
                            + " cuda-via-gpu, shm-ring, tcp or self");
        }
        if (memory.has(MemoryPair.Kind.PINNED) && (path.equals("tcp") || path.equals("shm-ring"))) {
            throw new IllegalArgumentException(
                    "path %s stages the bytes, and page-locks no memory of its user: write telpher"
                                    .formatted(path)
                            + " instead of pinned");
        }
    }

    /// @return whether memory of GPUs is used
    boolean onGpu() {
        return memory == null ? paths.stream().anyMatch(Stage.GPU_PATHS::contains) : memory.onGpu();
    }

    /// @return the paths to try, in the order of the table
    List<String> wantedPaths() {
        return Stage.PATHS.stream().filter(this::wants).toList();
    }

    /// @return what `--transport` calls it: a process with itself is asked for by that name
    private static String transportOption(String path) {
        return path.equals("self") ? path : Stage.transportOf(path);
    }

    private boolean wants(String path) {
        if (!paths.isEmpty() && !paths.contains(path)) {
            return false;
        }
        if (!transports.isEmpty() && !transports.contains(transportOption(path))) {
            return false;
        }
        return paths.contains(path) || isDefault(path);
    }

    /// Whether a path is tried that the user did not name.
    private boolean isDefault(String path) {
        // One runs in one process; the others need devices that few machines have.
        if (path.equals("self") || path.startsWith("verbs")) {
            return transports.contains(path);
        }
        if (memory == null) {
            return !Stage.GPU_PATHS.contains(path);
        }
        if (!memory.onGpu()) {
            return path.equals("mapped")
                    ? memory.has(MemoryPair.Kind.TELPHER)
                    : !Stage.GPU_PATHS.contains(path);
        }
        return switch (path) {
            case "cuda-cumem" -> memory.has(MemoryPair.Kind.CUDA);
            case "cuda-ipc" -> memory.has(MemoryPair.Kind.CUDA_FOREIGN);
            case "tcp" -> !memory.has(MemoryPair.Kind.PINNED);
            default -> false;
        };
    }

    /// @return whether the user named this path or its transport, so that its absence is an error
    boolean insistsOn(String path) {
        return paths.contains(path) || (transports.size() == 1 && wantedPaths().size() == 1);
    }
}
