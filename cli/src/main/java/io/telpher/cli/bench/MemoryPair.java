package io.telpher.cli.bench;

import java.util.Locale;

/// Whose memory is used.
///
/// @param source memory that is read: the initiator's for writes, the owner's for reads
/// @param target memory that is written, and the words of counters
record MemoryPair(Kind source, Kind target) {
    /// Where memory comes from.
    enum Kind {
        /// Allocated by the endpoint: peers on the host can map it.
        TELPHER,
        /// The caller's, registered.
        FOREIGN
    }

    /// Both allocated by Telpher.
    static final MemoryPair TELPHER = new MemoryPair(Kind.TELPHER, Kind.TELPHER);

    /// Both the caller's.
    static final MemoryPair FOREIGN = new MemoryPair(Kind.FOREIGN, Kind.FOREIGN);

    /// Reads `SRC[:DST]`.
    static MemoryPair parse(String text) {
        String[] parts = text.strip().split(":", 2);
        Kind source = kind(parts[0]);
        return new MemoryPair(source, parts.length == 1 ? source : kind(parts[1]));
    }

    private static Kind kind(String word) {
        return switch (word) {
            case "telpher" -> Kind.TELPHER;
            case "foreign" -> Kind.FOREIGN;
            default ->
                    throw new IllegalArgumentException(
                            "'" + word + "' is no kind of memory: telpher or foreign");
        };
    }

    @Override
    public String toString() {
        String from = source.name().toLowerCase(Locale.ROOT);
        return source == target ? from : from + ":" + target.name().toLowerCase(Locale.ROOT);
    }
}
