package io.telpher.internal.device.cuda;

import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.memory.Release;
import java.util.ArrayList;
import java.util.List;

/// Addresses for memory of virtual memory management: one reservation, with the memory of one or
/// more handles in it, one behind the other. Needs a current context.
final class Mapping {
    private final long address;
    private final List<Long> sizes;
    private final long bytes;

    private Mapping(List<Long> sizes) {
        this.sizes = List.copyOf(sizes);
        this.bytes = sizes.stream().mapToLong(Long::longValue).sum();
        this.address = CudaVmm.reserve(bytes, 0);
    }

    /// Maps all of the handles' memory, for one device. Leaves nothing behind when it fails. The
    /// handles stay the caller's, who need not keep them.
    ///
    /// @param sizes bytes of each
    static Mapping of(List<Long> handles, List<Long> sizes, int device) {
        Mapping made = new Mapping(sizes);
        int mapped = 0;
        try {
            for (long at = made.address; mapped < handles.size(); at += sizes.get(mapped++)) {
                CudaVmm.map(at, sizes.get(mapped), handles.get(mapped));
            }
            int result =
                    CudaVmm.trySetAccess(
                            made.address,
                            made.bytes,
                            device,
                            CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            CudaError.check(result, "cuMemSetAccess", made.address, made.bytes, device);
            return made;
        } catch (Throwable e) {
            int done = mapped;
            var unused = Release.after(e, () -> made.undo(done));
            throw e;
        }
    }

    /// @return where the first one begins
    long address() {
        return address;
    }

    void undo() {
        undo(sizes.size());
    }

    /// The driver takes back whole mappings only.
    private void undo(int mapped) {
        List<Runnable> steps = new ArrayList<>();
        long next = address;
        for (long size : sizes.subList(0, mapped)) {
            long at = next;
            steps.add(() -> CudaVmm.unmap(at, size));
            next += size;
        }
        steps.add(() -> CudaVmm.freeAddresses(address, bytes));
        Release.all(steps, Runnable::run);
    }
}
