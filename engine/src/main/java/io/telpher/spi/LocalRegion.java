package io.telpher.spi;

import io.telpher.Access;
import java.lang.foreign.MemorySegment;

/// A registered region as transports see it.
public interface LocalRegion {
    /// @return index in the endpoint's table
    int index();

    /// @return which life of that index
    int generation();

    /// @return the bytes
    MemorySegment segment();

    /// @return what peers may do
    Access access();

    /// @return descriptor of the sealed memfd that holds the region from its first byte, or -1 for
    ///     foreign memory
    int memfd();
}
