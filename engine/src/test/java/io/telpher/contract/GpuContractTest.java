package io.telpher.contract;

import io.telpher.internal.ffi.cuda.FakeGpu;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;

/// [ContractTest] on memory of GPUs: the engine, the transports and the bindings are the real ones,
/// the driver is a fake one. What takes long runs between two processes only.
@Tag(FakeGpu.TAG)
class GpuContractTest {
    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeHere();
    }

    @Nested
    class WriteRead extends WriteReadContract {}

    @Nested
    @Setting.In(Place.TWO)
    class Vector extends VectorContract {}

    @Nested
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Message extends MessageContract {}

    @Nested
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Notification extends NotificationContract {}

    @Nested
    @Setting.In(Place.TWO)
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Style extends StyleContract {}

    @Nested
    @Setting.OnRequest(TestPath.CUDA_VIA)
    class Access extends AccessContract {}
}
