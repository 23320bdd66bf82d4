package io.telpher;

import java.util.Objects;

/// A range of a local [MemoryRegion]: the local side of a transfer.
///
/// @param region the registered memory
/// @param offset first byte, from the start of the region
/// @param length bytes; may be zero
public record MemorySlice(MemoryRegion region, long offset, long length) {
    /// Checks the range against the region's size.
    public MemorySlice {
        Objects.requireNonNull(region, "region");
        checkRange(offset, length, region.size());
    }

    /// Overflow-safe range check.
    static void checkRange(long offset, long length, long size) {
        if (offset < 0 || length < 0 || offset > size || length > size - offset) {
            throw new IndexOutOfBoundsException(
                    "offset %d and length %d do not fit into %d bytes"
                            .formatted(offset, length, size));
        }
    }
}
