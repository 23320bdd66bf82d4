package io.telpher.cli.bench;

import java.util.Locale;

/// What a row measures.
enum Op {
    /// A one-sided write, from posting until the engine says done.
    WRITE,
    /// A one-sided read, from posting until the engine says done.
    READ,
    /// A tagged message into a posted receive, one way.
    SEND,
    /// A notification that the target takes, one way.
    NOTIFY,
    /// A write that then changes a 64-bit word which the target polls in its own memory, one way.
    COUNTER;

    /// @return whether only one side takes part, so that its own completion is what is timed
    boolean oneSided() {
        return this == WRITE || this == READ;
    }

    /// @return whether an operation can be cut into pieces
    boolean hasPieces() {
        return oneSided() || this == SEND;
    }

    /// @return the word in options, tables and JSON
    String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    static Op parse(String text) {
        for (Op op : values()) {
            if (op.word().equals(text.strip())) {
                return op;
            }
        }
        throw new IllegalArgumentException(
                "'" + text + "' is no operation: write, read, send, notify or counter");
    }
}
