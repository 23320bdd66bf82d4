package io.telpher.cli.soak;

/// Where an operation takes its bytes from and puts them: the same number on both sides, in pieces
/// that need not be equal.
///
/// @param near pieces here
/// @param far pieces at the other end
record Shape(Pieces near, Pieces far) {
    private static final int MOST_STRIDED = 200;

    /// @return bytes of the largest operation in a slot, so that there is room between pieces
    static long most(long size) {
        return size * 3 / 4;
    }

    /// @param size bytes of the slots on both sides
    static Shape draw(Conversation talk, long size) {
        if (talk.chance(20)) {
            int count = talk.random.nextInt(1, MOST_STRIDED);
            long length = talk.random.nextLong(1, most(size) / count + 1);
            Pieces strided = Pieces.strided(talk.random, count, length, size);
            Pieces other =
                    talk.chance(50)
                            ? Pieces.strided(talk.random, count, length, size)
                            : pieces(talk, count * length, size);
            return talk.chance(50) ? new Shape(strided, other) : new Shape(other, strided);
        }
        long total = talk.length(most(size));
        return talk.chance(60)
                ? new Shape(
                        Pieces.one(talk.random, total, size), Pieces.one(talk.random, total, size))
                : new Shape(pieces(talk, total, size), pieces(talk, total, size));
    }

    private static Pieces pieces(Conversation talk, long total, long size) {
        return total > 0 && talk.chance(40)
                ? Pieces.scattered(talk.random, total, size)
                : Pieces.one(talk.random, total, size);
    }
}
