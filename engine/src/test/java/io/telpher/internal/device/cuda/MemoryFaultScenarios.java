package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.util.AbstractList;
import java.util.List;

/// What goes wrong while memory is made, mapped and given back: nothing is left behind. For a
/// process of its own, on the fake driver, as [FaultScenarios] are.
final class MemoryFaultScenarios {
    private static final CudaGpu HERE = Stage.gpu(0);
    private static final int SIZE = 4096;

    private MemoryFaultScenarios() {}

    /// What the driver does not take back of another process's memory keeps nothing else.
    static void refusedRelease() {
        long part = 2 << 20;
        try (Gpu.Allocation memory =
                        Stage.parts(1, 3, part, CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
                Gpu.Export export =
                        Stage.gpu(1).export(memory.address(), 3 * part, Gpu.WAY_DESCRIPTOR)) {
            int handles = FakeGpu.live(FakeGpu.Kind.VMM_HANDLES);
            int mappings = FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS);
            int reservations = FakeGpu.live(FakeGpu.Kind.VMM_RESERVATIONS);
            FakeGpu.setFaults("cuMemRelease:1:999,cuMemRelease:2:999");
            assertThatThrownBy(() -> HERE.open(1, export.record(), export.descriptors()))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("cuMemRelease");
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_HANDLES)).isEqualTo(handles + 2);
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS)).isEqualTo(mappings);
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_RESERVATIONS)).isEqualTo(reservations);
            FakeGpu.setFaults("");
            Gpu.Import open = HERE.open(1, export.record(), export.descriptors());
            FakeGpu.setFaults("cuMemUnmap:1:999");
            assertThatThrownBy(open::close)
                    .isInstanceOf(TelpherException.NativeFailure.class)
                    .hasMessageContaining("cuMemUnmap");
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS)).isEqualTo(mappings + 1);
            // A mapping that fails says why, not what could not be undone then.
            FakeGpu.setFaults("cuMemSetAccess:1:101,cuMemUnmap:2:999");
            assertThatThrownBy(() -> HERE.open(1, export.record(), export.descriptors()))
                    .hasMessageContaining("cuMemSetAccess");
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS)).isEqualTo(mappings + 2);
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_HANDLES)).isEqualTo(handles + 2);
            FakeGpu.setFaults("");
        }
    }

    /// An allocation that fails half-way leaves nothing behind.
    static void refusedAllocation() {
        try (Gpu.Allocation memory = HERE.allocate(SIZE)) {
            HERE.export(memory.address(), SIZE, Gpu.WAY_DESCRIPTOR).close();
            String before = FakeGpu.report();
            for (String call :
                    List.of("cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess")) {
                FakeGpu.setFaults(call + ":1:2");
                assertThatThrownBy(() -> HERE.allocate(SIZE))
                        .isInstanceOf(TelpherException.NativeFailure.class)
                        .hasMessageContaining(call);
                FakeGpu.setFaults("");
                assertThat(FakeGpu.report()).as(call).isEqualTo(before);
            }
            FakeGpu.setFaults("cuMemExportToShareableHandle:1:304");
            assertThatThrownBy(() -> HERE.export(memory.address(), SIZE, Gpu.WAY_DESCRIPTOR))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("OPERATING_SYSTEM");
            FakeGpu.setFaults("");
            assertThat(FakeGpu.report()).isEqualTo(before);
        }
    }

    /// Nor does a mapping that an error ends between two of its parts.
    static void brokenMapping() {
        CudaContext context = HERE.context();
        long before = context.enter();
        try {
            long bytes = 2 << 20;
            int device = context.device();
            long handle =
                    CudaVmm.tryCreate(
                            bytes,
                            new CudaVmm.Properties(
                                    CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE, device, 0, false));
            String live = FakeGpu.report();
            OutOfMemoryError error = new OutOfMemoryError("made by the test");
            List<Long> handles =
                    new AbstractList<>() {
                        @Override
                        public Long get(int index) {
                            if (index > 0) {
                                throw error;
                            }
                            return handle;
                        }

                        @Override
                        public int size() {
                            return 2;
                        }
                    };
            assertThatThrownBy(() -> Mapping.of(handles, List.of(bytes, bytes), device))
                    .isSameAs(error);
            assertThat(FakeGpu.report()).isEqualTo(live);
            CudaVmm.release(handle);
        } finally {
            context.exit(before);
        }
    }

    /// Runs what the arguments name.
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            MemoryFaultScenarios.class.getDeclaredMethod(name).invoke(null);
            System.out.println("ok " + name);
        }
    }
}
