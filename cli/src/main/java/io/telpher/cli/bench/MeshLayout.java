package io.telpher.cli.bench;

/// Where the bytes of a full mesh's writes come from and go to.
///
/// A source has one run of content, from which every write takes its own part: those to the next
/// target begin a page later. So no two pairs and no two writes in flight carry the same bytes, and
/// what went to the wrong place is not right there. At a target each has a place of its own.
///
/// @param bytes of one write
/// @param depth writes in flight for each pair
/// @param sources ranks that write
/// @param targets ranks that are written to
record MeshLayout(long bytes, int depth, int sources, int targets) {
    private static final long PAGE = 4096;

    private long room() {
        return (bytes + PAGE - 1) & -PAGE;
    }

    private long stride() {
        return room() + PAGE * targets;
    }

    /// @return first byte, in a source's memory and in its content, of a write
    long origin(int target, int slot) {
        return slot * stride() + PAGE * target;
    }

    /// @return first byte in a target's memory
    long landing(int source, int slot) {
        return ((long) source * depth + slot) * room();
    }

    long sourceBytes() {
        return depth * stride();
    }

    long targetBytes() {
        return depth * room() * sources;
    }
}
