package io.telpher;

/// What a peer that holds a region's descriptor may do with the region's bytes. The owner itself
/// may always do both, unless the memory is read-only.
public enum Access {
    /// Peers may do nothing: the region only serves as the local side of transfers.
    NONE,
    /// Peers may read.
    READ,
    /// Peers may write, and raise counters.
    WRITE,
    /// Peers may read, write and raise counters.
    READ_WRITE;

    /// @return whether peers may read
    public boolean canRead() {
        return this == READ || this == READ_WRITE;
    }

    /// @return whether peers may write
    public boolean canWrite() {
        return this == WRITE || this == READ_WRITE;
    }
}
