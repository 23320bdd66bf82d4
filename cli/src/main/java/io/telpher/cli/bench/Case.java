package io.telpher.cli.bench;

/// One row to measure within a [Stage].
///
/// @param op the operation
/// @param bytes the whole operation
/// @param pieces how many pieces it is cut into; a piece has `bytes / pieces`
/// @param depth operations in flight; 1 measures latency
/// @param list whether those in flight are posted as one list, the next when all have ended
record Case(Op op, long bytes, int pieces, int depth, boolean list) {
    Case {
        if (bytes <= 0 || pieces <= 0 || depth <= 0) {
            throw new IllegalArgumentException("sizes, pieces and depths are greater than zero");
        }
        if (bytes % pieces != 0) {
            throw new IllegalArgumentException(
                    "%d bytes cannot be cut into %d equal pieces".formatted(bytes, pieces));
        }
    }

    Case(Op op, long bytes, int pieces, int depth) {
        this(op, bytes, pieces, depth, false);
    }

    @Override
    public String toString() {
        return "%s of %s%s at depth %d%s"
                .formatted(
                        op.word(),
                        Sizes.format(bytes),
                        pieces == 1 ? "" : " in " + pieces + " pieces",
                        depth,
                        list ? " as one list" : "");
    }
}
