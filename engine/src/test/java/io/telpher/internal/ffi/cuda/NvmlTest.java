package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.cuda.CudaRuntime;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag(FakeGpu.TAG)
class NvmlTest {
    private static final int NOT_FOUND = -Nvml.NVML_ERROR_NOT_FOUND;

    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
        assertThat(Nvml.availability()).isInstanceOf(Availability.Available.class);
    }

    @Test
    void versionsAndErrorsAreTold() {
        assertThat(Nvml.driverVersion()).isEqualTo("580.0.fake");
        assertThat(Nvml.version()).isEqualTo("13.580.0.fake");
        assertThat(Nvml.cudaVersion()).isEqualTo(13_000);
        assertThat(Nvml.errorString(-3)).isEqualTo("Not Supported");
        assertThatThrownBy(() -> NvmlDevices.uuid(1))
                .isInstanceOf(TelpherException.NativeFailure.class)
                .hasMessage("nvmlDeviceGetUUID(1) failed: Invalid Argument (2)");
    }

    @Test
    void devicesAreFoundByIndexUuidAndAddress() {
        assertThat(NvmlDevices.count()).isEqualTo(4);
        long device = NvmlDevices.byIndex(2);
        assertThat(NvmlDevices.uuid(device)).isEqualTo("GPU-" + CudaDevices.uuid(2));
        assertThat(NvmlDevices.byUuid("GPU-" + CudaDevices.uuid(2))).isEqualTo(device);
        assertThat(NvmlDevices.byPciBusId(CudaDevices.pciBusId(2))).isEqualTo(device);
        assertThat(NvmlDevices.byUuid("GPU-0")).isEqualTo(NOT_FOUND);
        assertThat(NvmlDevices.name(device)).isEqualTo("Fake GPU");
        assertThat(NvmlDevices.pciBusId(device)).isEqualTo("00000000:12:00.0");
        assertThat(NvmlDevices.minorNumber(device)).isEqualTo(2);
    }

    @Test
    void propertiesOfDevicesAndPairsAreRead() {
        long device = NvmlDevices.byIndex(0);
        assertThat(NvmlDevices.pcieGeneration(device)).isOne();
        assertThat(NvmlDevices.pcieMaxGeneration(device)).isEqualTo(5);
        assertThat(NvmlDevices.pcieWidth(device)).isEqualTo(16);
        assertThat(NvmlDevices.pcieMaxWidth(device)).isEqualTo(16);
        assertThat(NvmlDevices.bar1(device))
                .isEqualTo(new NvmlDevices.Bar1(128L << 30, 127L << 30, 1L << 30));
        assertThat(NvmlDevices.bar1(1)).isNull();
        assertThat(NvmlDevices.eccMode(device)).isOne();
        assertThat(NvmlDevices.migMode(device)).isZero();
        assertThat(NvmlDevices.computeCapability(device)).isEqualTo(90);
        assertThat(NvmlDevices.commonAncestor(device, NvmlDevices.byIndex(1)))
                .isEqualTo(NvmlDevices.NVML_TOPOLOGY_SINGLE);
        assertThat(NvmlDevices.commonAncestor(device, NvmlDevices.byIndex(2)))
                .isEqualTo(NvmlDevices.NVML_TOPOLOGY_NODE);
        assertThat(
                        NvmlDevices.peerStatus(
                                device,
                                NvmlDevices.byIndex(1),
                                NvmlDevices.NVML_P2P_CAPS_INDEX_READ))
                .isEqualTo(NvmlDevices.NVML_P2P_STATUS_OK);
        assertThat(NvmlDevices.fabric(device))
                .isEqualTo(new NvmlDevices.Fabric("c1".repeat(16), 0, 7, 0, 2));
    }

    @Test
    void linksAreRead() {
        long device = NvmlDevices.byIndex(1);
        assertThat(NvmlLinks.state(device, 5)).isOne();
        assertThat(NvmlLinks.state(device, 6)).isEqualTo(-Nvml.NVML_ERROR_INVALID_ARGUMENT);
        assertThat(NvmlLinks.version(device, 0)).isEqualTo(6);
        assertThat(NvmlLinks.remotePciBusId(device, 0)).isEqualTo("00000000:12:00.0");
        assertThat(NvmlLinks.remotePciBusId(device, 6)).isNull();
        assertThat(NvmlLinks.remoteType(device, 0))
                .isEqualTo(NvmlLinks.NVML_NVLINK_DEVICE_TYPE_GPU);
        assertThat(NvmlLinks.capability(device, 0, NvmlLinks.NVML_NVLINK_CAP_P2P_ATOMICS)).isOne();
        assertThat(NvmlLinks.errorCount(device, 0, NvmlLinks.NVML_NVLINK_ERROR_DL_CRC_DATA))
                .isEqualTo(3L << 33);
        assertThat(NvmlLinks.speed(device, 5)).isEqualTo(26_562);
        assertThat(NvmlLinks.speed(device, 6)).isEqualTo(-Nvml.NVML_ERROR_NOT_SUPPORTED);
    }

    @Test
    void whatThisNvmlLacksIsToldAsItsOwnErrorCode() {
        long device = NvmlDevices.byIndex(0);
        assertThat(Nvml.has("nvmlDeviceGetMaxMigDeviceCount")).isFalse();
        assertThat(NvmlDevices.maxMigCount(device)).isEqualTo(-Nvml.NVML_ERROR_FUNCTION_NOT_FOUND);
        assertThat(NvmlDevices.migByIndex(device, 0))
                .isEqualTo(-Nvml.NVML_ERROR_FUNCTION_NOT_FOUND);
        assertThat(NvmlDevices.migParent(device)).isEqualTo(-Nvml.NVML_ERROR_FUNCTION_NOT_FOUND);
    }

    /// A trial would never end: its child process would have to see two devices, and sees one.
    @Test
    void aSliceReachesNoOtherDeviceAndIsNotTried() throws Throwable {
        List<Device> devices = CudaRuntime.INSTANCE.devices();
        Device slice = devices.get(0);
        Device other = devices.get(1);
        assertThat(CudaRuntime.INSTANCE.unreachable(slice, other)).isNull();
        setSlice(0);
        try {
            assertThat(CudaRuntime.INSTANCE.unreachable(slice, other))
                    .contains(slice.uuid() + " is a MIG slice");
            assertThat(CudaRuntime.INSTANCE.unreachable(other, slice))
                    .contains(slice.uuid() + " is a MIG slice");
            assertThat(CudaRuntime.INSTANCE.unreachable(slice, slice)).isNull();
        } finally {
            setSlice(-1);
        }
    }

    private static void setSlice(int device) throws Throwable {
        MemorySegment function =
                SymbolLookup.libraryLookup(
                                FakeGpu.folder().resolve("libnvidia-ml.so.1"), Arena.global())
                        .findOrThrow("fakeNvmlSetSlice");
        Linker.nativeLinker()
                .downcallHandle(function, FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT))
                .invokeExact(device);
    }
}
