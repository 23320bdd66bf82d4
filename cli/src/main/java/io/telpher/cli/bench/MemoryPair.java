package io.telpher.cli.bench;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/// Whose memory is used.
///
/// @param source memory that is read: the initiator's for writes, the owner's for reads
/// @param target memory that is written
record MemoryPair(Kind source, Kind target) {
    /// Where memory comes from.
    enum Kind {
        /// Host memory, allocated by the endpoint: peers on the host can map it.
        TELPHER,
        /// The caller's host memory, registered.
        FOREIGN,
        /// Memory of a GPU, allocated by the endpoint.
        CUDA,
        /// Memory of a GPU that the caller allocated (`cuMemAlloc`), registered.
        CUDA_FOREIGN,
        /// As [#TELPHER], beside memory of a GPU, and page-locked for it: a stage whose copies do
        /// not go by a GPU is not measured.
        PINNED;

        /// @return whether it is memory of a GPU
        boolean onGpu() {
            return this == CUDA || this == CUDA_FOREIGN;
        }

        /// @return the word in options and JSON
        String word() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    /// Both allocated by Telpher.
    static final MemoryPair TELPHER = new MemoryPair(Kind.TELPHER, Kind.TELPHER);

    /// Both the caller's.
    static final MemoryPair FOREIGN = new MemoryPair(Kind.FOREIGN, Kind.FOREIGN);

    MemoryPair {
        boolean pinned = source == Kind.PINNED || target == Kind.PINNED;
        if (pinned && !source.onGpu() && !target.onGpu()) {
            throw new IllegalArgumentException(
                    "memory is page-locked for GPUs: beside pinned stands cuda or cuda-foreign,"
                            + " such as cuda:pinned");
        }
    }

    /// Reads `SRC[:DST]`.
    static MemoryPair parse(String text) {
        String[] parts = text.strip().split(":", 2);
        Kind source = kind(parts[0]);
        return new MemoryPair(source, parts.length == 1 ? source : kind(parts[1]));
    }

    private static Kind kind(String word) {
        for (Kind kind : Kind.values()) {
            if (kind.word().equals(word)) {
                return kind;
            }
        }
        throw new IllegalArgumentException(
                "'%s' is no kind of memory: %s"
                        .formatted(
                                word,
                                Arrays.stream(Kind.values())
                                        .map(Kind::word)
                                        .collect(Collectors.joining(", "))));
    }

    /// @return whether memory of GPUs is among it
    boolean onGpu() {
        return source.onGpu() || target.onGpu();
    }

    /// @return whether this kind is among it
    boolean has(Kind kind) {
        return source == kind || target == kind;
    }

    /// @return the memory on the other side of an operation, seen from who initiates it
    Kind far(Op op) {
        return op == Op.READ ? source : target;
    }

    @Override
    public String toString() {
        boolean one = source == target && !onGpu();
        return one ? source.word() : source.word() + ":" + target.word();
    }
}
