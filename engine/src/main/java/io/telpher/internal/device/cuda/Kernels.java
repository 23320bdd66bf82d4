package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaModules;
import java.util.stream.LongStream;

/// The kernels of one device, loaded. They stay loaded until the process ends.
///
/// @param small copies what fits into the smaller parameters
/// @param few copies what fits into the larger ones
/// @param table copies pieces that stand in pinned memory
/// @param agent stays and takes commands
record Kernels(long small, long few, long table, long agent) {
    /// Loads them into the current context, as long as `held` keeps them; compiles them where that
    /// was not done before.
    ///
    /// @throws TelpherException.Unsupported where that is not possible, with the reason
    static Kernels load(CudaContext context, Held held) {
        int capability =
                10 * attribute(context, CudaDevices.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
                        + attribute(
                                context, CudaDevices.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        byte[] image = KernelImage.load(capability, Cuda.driverVersion());
        try {
            long module = held.module(image);
            return new Kernels(
                    CudaModules.function(module, "telpher_copy_8"),
                    CudaModules.function(module, "telpher_copy_100"),
                    CudaModules.function(module, "telpher_copy_table"),
                    CudaModules.function(module, "telpher_agent"));
        } catch (TelpherException.NativeFailure e) {
            throw new TelpherException.Unsupported(
                    "the driver does not load the kernels: " + e.getMessage());
        }
    }

    private static int attribute(CudaContext context, int attribute) {
        return CudaDevices.attribute(context.device(), attribute);
    }

    /// The most threads that a block of any of them can have here: what they need of registers is
    /// the compiler's to say.
    int mostThreads() {
        return LongStream.of(small, few, table, agent)
                .mapToInt(
                        kernel ->
                                CudaModules.attribute(
                                        kernel,
                                        CudaModules.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
                .min()
                .orElseThrow();
    }

    /// The kernel for so many pieces.
    long forPieces(int pieces) {
        if (pieces <= Launch.SMALL_PIECES) {
            return small;
        }
        return pieces <= Launch.FEW_PIECES ? few : table;
    }
}
