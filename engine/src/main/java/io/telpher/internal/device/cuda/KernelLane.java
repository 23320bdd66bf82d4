package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaModules;
import io.telpher.internal.ffi.cuda.CudaStreams;

/// Copies by kernels: one call for all pieces, all updates and the flag.
final class KernelLane extends Lane {
    /// Work below which another warp is not worth the while where one block does it all.
    private static final long WARP_WORK = 2048;

    private static final int LANES = 32;

    private final Kernels kernels;

    KernelLane(CudaQueue queue, Kernels kernels, int window, long[] streams) {
        super(queue, window, queue.pool(), streams);
        this.kernels = kernels;
    }

    /// Runs each kernel once, on nothing: the driver loads their code at the first launch, and
    /// may wait for everything else on the device then.
    ///
    /// @throws TelpherException.NativeFailure when they do not run
    void warmUp(Launch launch) {
        for (long kernel : new long[] {kernels.small(), kernels.few(), kernels.table()}) {
            launch.nextSequence();
            CudaModules.launch(kernel, 1, LANES, 0, launch.stream, launch.arguments(1, false));
            CudaStreams.synchronize(launch.stream);
            if (!launch.isRaised()) {
                throw new TelpherException.NativeFailure(
                        "cuLaunchKernel",
                        CudaError.CUDA_ERROR_UNKNOWN,
                        NativeLibrary.arguments(kernel),
                        "the kernel ended without its flag");
            }
        }
    }

    @Override
    void issue(Launch launch) {
        int blocks = queue.tuning().blocksFor(launch.work());
        int warps = queue.tuning().threads() / LANES;
        if (blocks == 1) {
            warps = Math.clamp(Math.ceilDiv(launch.work(), WARP_WORK), 1, warps);
        }
        try {
            CudaModules.launch(
                    kernels.forPieces(launch.pieces()),
                    blocks,
                    warps * LANES,
                    0,
                    launch.stream,
                    launch.arguments(blocks * warps, true));
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            launch.failAll(CudaQueue.message(e));
            launch.over = true;
        }
    }
}
