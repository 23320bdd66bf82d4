package io.telpher.internal.ffi.cuda;

import static io.telpher.internal.ffi.cuda.CudaCheck.same;
import static io.telpher.internal.ffi.cuda.CudaCheck.step;

import io.telpher.internal.ffi.linux.Descriptors;

/// The part of [CudaCheck] on virtual memory, and on handles that other processes may be given.
final class CudaVmmCheck {
    private CudaVmmCheck() {}

    static void run(int device) {
        step(
                "virtual memory",
                () -> {
                    CudaVmm.Properties properties =
                            new CudaVmm.Properties(
                                    CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE,
                                    device,
                                    CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    false);
                    long unit = CudaVmm.granularity(properties, 0);
                    long handle = CudaVmm.tryCreate(unit, properties);
                    CudaError.check((int) -Math.min(0, handle), "cuMemCreate", unit);
                    long base = CudaVmm.reserve(unit, 0);
                    CudaVmm.map(base, unit, handle);
                    int access =
                            CudaVmm.trySetAccess(
                                    base, unit, device, CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
                    CudaError.check(-access, "cuMemSetAccess");
                    same(CudaVmm.properties(handle), properties);
                    long retained = CudaVmm.tryRetain(base);
                    CudaVmm.release(retained);
                    CudaPointers.Attributes attributes = CudaPointers.describe(base);
                    CudaMemory.Range range = CudaMemory.range(base + 1);
                    int descriptor = CudaVmm.tryExportDescriptor(handle);
                    CudaError.check(-Math.min(0, descriptor), "cuMemExportToShareableHandle");
                    long imported = CudaVmm.tryImportDescriptor(descriptor);
                    CudaError.check((int) -Math.min(0, imported), "cuMemImport");
                    int unused = Descriptors.close(descriptor);
                    CudaVmm.release(imported);
                    int dmaBuf = CudaVmm.tryDmaBuf(base, unit, 0);
                    if (dmaBuf >= 0) {
                        unused = Descriptors.close(dmaBuf);
                    }
                    CudaCopies.fill(base, (byte) 1, unit, 0);
                    CudaStreams.synchronize(0);
                    CudaVmm.unmap(base, unit);
                    CudaVmm.freeAddresses(base, unit);
                    CudaVmm.release(handle);
                    return unit
                            + " "
                            + attributes
                            + " "
                            + range
                            + " retained "
                            + (retained == handle ? "the same" : "another")
                            + ", dma-buf "
                            + (dmaBuf < 0 ? CudaError.name(dmaBuf) : "granted");
                });
        step(
                "fabric handle",
                () -> {
                    CudaVmm.Properties properties =
                            new CudaVmm.Properties(
                                    CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE,
                                    device,
                                    CudaVmm.CU_MEM_HANDLE_TYPE_FABRIC,
                                    false);
                    long unit = CudaVmm.granularity(properties, 0);
                    long handle = CudaVmm.tryCreate(unit, properties);
                    if (handle < 0) {
                        return "refused: " + CudaError.describe((int) handle);
                    }
                    byte[] fabric = new byte[CudaVmm.FABRIC_HANDLE_BYTES];
                    int result = CudaVmm.tryExportFabric(handle, fabric);
                    long imported = result == 0 ? CudaVmm.tryImportFabric(fabric) : result;
                    CudaVmm.release(handle);
                    if (imported < 0) {
                        return "refused: " + CudaError.describe((int) imported);
                    }
                    CudaVmm.release(imported);
                    return "granted";
                });
        step(
                "IPC handle of one's own",
                () -> {
                    long memory = CudaMemory.alloc(1 << 20);
                    byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
                    int got = CudaIpc.tryGetMemHandle(memory, handle);
                    long opened = got == 0 ? CudaIpc.tryOpenMemHandle(handle) : got;
                    CudaMemory.free(memory);
                    return CudaError.describe(got)
                            + ", opened: "
                            + (opened < 0 ? CudaError.describe((int) opened) : "yes");
                });
    }
}
