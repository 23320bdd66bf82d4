package io.telpher.spi;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.TelpherException;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A registered region as transports see it.
public interface LocalRegion {
    /// @return index in the endpoint's table
    int index();

    /// @return which life of that index
    int generation();

    /// @return size in bytes
    default long size() {
        return segment().byteSize();
    }

    /// @return the bytes
    /// @throws io.telpher.TelpherException.Unsupported for memory of a device
    MemorySegment segment();

    /// @return whose memory it is and where, or null for host memory
    default @Nullable DeviceMemory deviceMemory() {
        return null;
    }

    /// Asked when it is closed: once true, it stays so.
    ///
    /// @return whether Telpher allocated the memory in a way that lets it stay mapped by peers
    ///     after it was closed, and nobody here uses it any more: it is gone with the last mapping
    default boolean mayLinger() {
        return memfd() >= 0;
    }

    /// Makes a device of this process able to copy from and to the bytes. Blocks.
    ///
    /// @throws io.telpher.TelpherException.Unsupported when it cannot, with the reason
    default void prepare(Device by) {
        throw new TelpherException.Unsupported(this + ": devices do not reach it");
    }

    /// @return where the bytes begin for that device, or 0 before [#prepare]
    default long address(Device by) {
        return 0;
    }

    /// @return what peers may do
    Access access();

    /// @return descriptor of the sealed memfd that holds the region from its first byte, or -1 for
    ///     foreign memory
    int memfd();
}
