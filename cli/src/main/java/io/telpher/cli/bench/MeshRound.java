package io.telpher.cli.bench;

/// One measurement of a full mesh.
///
/// @param number tells its content from that of all others
/// @param bytes of one write
/// @param from the source that writes, or [#ALL]
/// @param to the target that is written to, or [#ALL]
/// @param start when it begins, by the sources' `System.nanoTime()`: one clock for all of a host
/// @param seconds how long writes are posted
/// @param spoiled a source that changes the first byte of its content, or [#NONE]
record MeshRound(
        long number, long bytes, int from, int to, long start, double seconds, int spoiled) {
    static final int ALL = -1;
    static final int NONE = -1;

    boolean has(int source, int target) {
        return hasSource(source) && hasTarget(target);
    }

    boolean hasSource(int source) {
        return from == ALL || from == source;
    }

    boolean hasTarget(int target) {
        return to == ALL || to == target;
    }

    /// @return the same with a start
    MeshRound startingAt(long value) {
        return new MeshRound(number, bytes, from, to, value, seconds, spoiled);
    }

    Message encode(String verb) {
        return Message.of(verb)
                .with("number", number)
                .with("bytes", bytes)
                .with("from", from)
                .with("to", to)
                .with("start", start)
                .with("seconds", seconds)
                .with("spoiled", spoiled);
    }

    static MeshRound decode(Message message) {
        return new MeshRound(
                message.number("number"),
                message.number("bytes"),
                (int) message.number("from"),
                (int) message.number("to"),
                message.number("start"),
                message.decimal("seconds"),
                (int) message.number("spoiled"));
    }
}
