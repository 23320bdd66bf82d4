package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.DeviceMemory;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// What a region's bytes are. Whoever cuts or applies frames goes through the copies here, unless
/// [#host()] lets it use the bytes where they are. Thread-safe; ranges have been checked.
sealed interface RegionMemory permits HostMemory, GpuMemory {
    /// @return bytes
    long size();

    /// @return the bytes, or null when the host cannot follow their address
    @Nullable MemorySegment host();

    /// @return the device's memory, or null
    @Nullable DeviceMemory device();

    /// @return descriptor of the sealed memfd that holds them, or -1
    int memfd();

    /// @return whether peers may keep it mapped after it was closed
    boolean mayLinger();

    /// Copies bytes of the region into host memory.
    ///
    /// @throws IllegalStateException when the memory is not accessible any more
    /// @throws io.telpher.TelpherException when a device's driver fails
    void copyOut(long at, MemorySegment into, long offset, long bytes);

    /// Copies host memory into the region.
    ///
    /// @throws IllegalStateException when the memory is not accessible any more
    /// @throws io.telpher.TelpherException when a device's driver fails
    void copyIn(long at, MemorySegment from, long offset, long bytes);

    /// Changes a 64-bit word, with release semantics.
    ///
    /// @return whether its address is a multiple of 8
    /// @throws IllegalStateException when the memory is not accessible any more
    /// @throws io.telpher.TelpherException when a device's driver fails
    boolean update(long at, CounterUpdate.Kind kind, long value);

    /// Makes a GPU able to copy from and to these bytes. Blocks; once for each GPU.
    ///
    /// @throws io.telpher.TelpherException.Unsupported when it cannot, with the reason
    void prepare(io.telpher.Device by);

    /// @return where the bytes begin for that GPU, or 0 before [#prepare]
    long address(io.telpher.Device by);

    /// Gives back what belongs to Telpher.
    void close();

    /// @return what it is, for people
    String text();
}
