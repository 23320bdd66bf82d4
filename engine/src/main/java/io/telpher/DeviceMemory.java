package io.telpher;

import io.telpher.internal.device.Runtimes;

/// A range of a device's memory. The address is the device's: nothing on the host may follow it.
///
/// @param device whose memory it is
/// @param address first byte, as the driver counts
/// @param size bytes
public record DeviceMemory(Device device, long address, long size) {
    /// Checks the range.
    public DeviceMemory {
        if (address == 0 || size <= 0 || address + size < 0) {
            throw new IllegalArgumentException(
                    "not a range of device memory: %d bytes at 0x%x".formatted(size, address));
        }
    }

    /// Describes memory that somebody else allocated (PyTorch, `cudaMalloc`, `cuMemMap`): asks
    /// the driver whose it is.
    ///
    /// @param address first byte
    /// @param size bytes
    /// @throws TelpherException.Unsupported when no driver knows the address, or when it is host
    ///     memory: that is registered as a segment
    /// @throws IndexOutOfBoundsException when the allocation is shorter
    public static DeviceMemory of(long address, long size) {
        return Runtimes.describe(address, size);
    }

    @Override
    public String toString() {
        return "%d bytes at 0x%x of %s".formatted(size, address, device);
    }
}
