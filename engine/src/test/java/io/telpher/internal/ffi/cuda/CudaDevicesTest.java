package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.spi.Availability;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.UUID;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag(FakeGpu.TAG)
class CudaDevicesTest {
    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
    }

    @Test
    void driverIsAvailableWithItsVersionAndDevices() {
        assertThat(Cuda.availability())
                .isInstanceOfSatisfying(
                        Availability.Available.class,
                        available ->
                                assertThat(available.detail())
                                        .contains("CUDA 13.0", "libcuda.so.1", "4 devices"));
        assertThat(Cuda.driverVersion()).isEqualTo(13_000);
        assertThat(Cuda.has("cuMemAlloc_v2")).isTrue();
        assertThat(Cuda.has("cuMakeCoffee")).isFalse();
    }

    @Test
    void devicesHaveNamesAndIdentities() {
        assertThat(CudaDevices.count()).isEqualTo(4);
        assertThat(CudaDevices.get(3)).isEqualTo(3);
        assertThat(CudaDevices.name(0)).isEqualTo("Fake GPU");
        assertThat(CudaDevices.uuid(2))
                .isEqualTo(UUID.fromString("fa6ec0da-0000-4000-8000-000000000002"));
        assertThat(CudaDevices.pciBusId(1)).isEqualTo("0000:11:00.0");
        assertThat(CudaDevices.tryGetByPciBusId("0000:12:00.0")).isEqualTo(2);
        assertThat(CudaDevices.tryGetByPciBusId("0000:77:00.0"))
                .isEqualTo(-CudaError.CUDA_ERROR_INVALID_DEVICE);
        assertThat(CudaDevices.totalMemory(0)).isEqualTo(1L << 30);
    }

    @Test
    void attributesAreValuesOrCodes() {
        int multiprocessors = CudaDevices.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        assertThat(CudaDevices.attribute(0, multiprocessors)).isEqualTo(4);
        assertThat(CudaDevices.tryAttribute(0, 999)).isEqualTo(-CudaError.CUDA_ERROR_INVALID_VALUE);
        assertThatThrownBy(() -> CudaDevices.attribute(0, 999))
                .isInstanceOf(TelpherException.NativeFailure.class)
                .hasMessage(
                        "cuDeviceGetAttribute(999, 0) failed:"
                                + " CUDA_ERROR_INVALID_VALUE (1, invalid argument)");
    }

    @Test
    void peersAreToldWithTheirAbilities() {
        assertThat(CudaDevices.canAccessPeer(0, 1)).isTrue();
        assertThat(CudaDevices.canAccessPeer(0, 3)).isFalse();
        int access = CudaDevices.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
        assertThat(CudaDevices.peerAttribute(access, 0, 1)).isOne();
        assertThat(CudaDevices.peerAttribute(access, 3, 0)).isZero();
    }

    @Test
    void errorsHaveTheDriversNamesAndTheirNumber() {
        assertThat(CudaError.name(-600)).isEqualTo("CUDA_ERROR_NOT_READY");
        assertThat(CudaError.describe(600))
                .isEqualTo("CUDA_ERROR_NOT_READY (600, device not ready)");
        assertThat(CudaError.describe(4711)).isEqualTo("CUDA error 4711 (4711)");
        assertThatThrownBy(() -> CudaDevices.get(4))
                .isInstanceOfSatisfying(
                        TelpherException.NativeFailure.class,
                        failure ->
                                assertThat(failure.errno())
                                        .isEqualTo(CudaError.CUDA_ERROR_INVALID_DEVICE));
    }

    @Test
    void contextsAreMadeOnlyWhereAskedForAndCounted() {
        int before = FakeGpu.contextsMade(2);
        int elsewhere = FakeGpu.contextsMade(3);
        assertThat(CudaContexts.primaryState(2).active()).isFalse();
        CudaContexts.setPrimaryFlags(2, CudaContexts.CU_CTX_SCHED_BLOCKING_SYNC);

        try (CudaTestContext _ = CudaTestContext.of(2);
                CudaTestContext second = CudaTestContext.of(2)) {
            assertThat(CudaContexts.primaryState(2))
                    .isEqualTo(
                            new CudaContexts.State(CudaContexts.CU_CTX_SCHED_BLOCKING_SYNC, true));
            assertThat(CudaContexts.current()).isEqualTo(second.context());
            assertThat(CudaContexts.currentDevice()).isEqualTo(2);
            CudaContexts.pushCurrent(second.context());
            assertThat(CudaContexts.popCurrent()).isEqualTo(second.context());
        }

        assertThat(CudaContexts.primaryState(2).active()).isFalse();
        assertThat(FakeGpu.contextsMade(2)).isEqualTo(before + 1);
        assertThat(FakeGpu.contextsMade(3)).isEqualTo(elsewhere);
    }

    @Test
    void peerAccessIsEnabledOnceAndRefusedWhereThereIsNone() {
        try (CudaTestContext far = CudaTestContext.of(1);
                CudaTestContext near = CudaTestContext.of(0)) {
            assertThat(near.device()).isZero();
            assertThat(CudaContexts.tryEnablePeerAccess(far.context())).isZero();
            assertThat(CudaContexts.tryEnablePeerAccess(far.context()))
                    .isEqualTo(-CudaError.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
            assertThat(CudaContexts.tryDisablePeerAccess(far.context())).isZero();
        }
        assertThat(CudaError.isSticky(CudaError.CUDA_ERROR_ILLEGAL_ADDRESS)).isTrue();
        assertThat(CudaError.isSticky(CudaError.CUDA_ERROR_NOT_READY)).isFalse();
    }

    @Test
    void whatADriverLacksSaysSoWhenItIsCalled() {
        MethodHandle handle =
                Cuda.link(
                        FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG),
                        "cuFuture_v9",
                        "cuFuture");
        assertThatThrownBy(
                        () -> {
                            int unused = (int) handle.invokeExact(1L);
                        })
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageMatching("CUDA driver \\(.*libcuda.so.1\\) has no cuFuture: .*");
    }
}
