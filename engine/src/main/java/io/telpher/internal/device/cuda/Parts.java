package io.telpher.internal.device.cuda;

import io.telpher.internal.ffi.cuda.CudaMemory;
import java.util.ArrayList;
import java.util.List;

/// What memory of a device consists of: one allocation, or several mappings side by side, as
/// PyTorch's expandable segments are.
final class Parts {
    private Parts() {}

    /// The allocations or mappings that a range lies in, in order.
    ///
    /// @param owner the context of the device that has them
    /// @throws io.telpher.TelpherException.NativeFailure where there is none at some address of it
    static List<CudaMemory.Range> of(CudaContext owner, long address, long bytes) {
        List<CudaMemory.Range> parts = new ArrayList<>(1);
        long end = address + bytes;
        for (long at = address; at < end; ) {
            CudaMemory.Range part = at(owner, at);
            parts.add(part);
            at = part.base() + part.bytes();
        }
        return parts;
    }

    /// The one at an address. Attributes know the reservation only, and no other context than that
    /// of the device that holds a mapping knows it (tried on H200, driver 580).
    static CudaMemory.Range at(CudaContext owner, long address) {
        long before = owner.enter();
        try {
            return CudaMemory.range(address);
        } finally {
            owner.exit(before);
        }
    }
}
