package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaEvents;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaModules;
import io.telpher.internal.ffi.cuda.CudaStreams;
import io.telpher.internal.observe.Log;
import java.util.ArrayDeque;

/// What a queue has taken from the driver, in order: one that cannot be made gives it back. With
/// the context current; guarded by the queue's lock, or by whoever makes it.
final class Held {
    private static final int PINNED =
            CudaMemory.CU_MEMHOSTALLOC_PORTABLE | CudaMemory.CU_MEMHOSTALLOC_DEVICEMAP;

    private final ArrayDeque<Runnable> back = new ArrayDeque<>();

    long stream(int priority) {
        long made = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, priority);
        back.push(() -> CudaStreams.destroy(made));
        return made;
    }

    long[] streams(int count, int priority) {
        long[] made = new long[count];
        for (int i = 0; i < count; i++) {
            made[i] = stream(priority);
        }
        return made;
    }

    long event() {
        long made = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
        back.push(() -> CudaEvents.destroy(made));
        return made;
    }

    /// @return address of memory of the device
    long memory(long bytes) {
        long made = CudaMemory.alloc(bytes);
        back.push(() -> CudaMemory.free(made));
        return made;
    }

    /// @return address of page-locked memory of the host, the same for devices
    long pinned(long bytes) {
        long made = CudaMemory.hostAlloc(bytes, PINNED);
        back.push(() -> CudaMemory.freeHost(made));
        return made;
    }

    long module(byte[] image) {
        long made = CudaModules.load(image);
        back.push(() -> CudaModules.unload(made));
        return made;
    }

    /// Gives everything back, last first. What the driver does not take stays.
    void giveBack() {
        while (!back.isEmpty()) {
            try {
                back.pop().run();
            } catch (TelpherException.NativeFailure e) {
                Log.warning("a part of a queue that could not be made stays", e);
            }
        }
    }
}
