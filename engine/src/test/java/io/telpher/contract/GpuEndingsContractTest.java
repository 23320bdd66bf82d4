package io.telpher.contract;

import io.telpher.internal.ffi.cuda.FakeGpu;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;

/// [EndingsContractTest] on memory of GPUs, as in [GpuContractTest].
@Tag(FakeGpu.TAG)
class GpuEndingsContractTest {
    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeHere();
    }

    @Nested
    @Setting.OnRequest({TestPath.CUDA_VIA, TestPath.CUDA_RING, TestPath.CUDA_TCP})
    class Advert extends AdvertContract {}

    @Nested
    @Setting.In(Place.TWO)
    class Revocation extends RevocationContract {}

    @Nested
    @Setting.In(Place.TWO)
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Lifecycle extends LifecycleContract {}

    @Nested
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Deadline extends DeadlineContract {}

    @Nested
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Standstill extends StandstillContract {}

    @Nested
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Death extends DeathContract {}
}
