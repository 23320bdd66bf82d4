package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.observe.Log;

/// The primary context of a device, retained until the process ends, and how threads come to use
/// it.
///
/// ```text
/// long before = context.enter();
/// try { driver calls } finally { context.exit(before); }
/// ```
///
/// The driver is asked each time what is current, since other code on this thread (PyTorch, say)
/// changes it behind our back; that costs some 20 ns. A thread that waits for a lock in between
/// might go on as another one, if it is virtual: locks are taken before [#enter].
///
/// @param device the driver's number
/// @param handle of the context
record CudaContext(int device, long handle) {
    static CudaContext retain(int device) {
        return new CudaContext(device, CudaContexts.retainPrimary(device));
    }

    /// Makes it current.
    ///
    /// @return what was current before, for [#exit]
    long enter() {
        long before = CudaContexts.current();
        if (before != handle) {
            CudaContexts.setCurrent(handle);
        }
        return before;
    }

    /// Puts back what was current: with none, too, or else code that has not chosen a device yet
    /// would find itself on this one.
    void exit(long before) {
        if (before != handle) {
            try {
                CudaContexts.setCurrent(before);
            } catch (TelpherException.NativeFailure e) {
                // Other code has destroyed the context that it had here. What this thread did with
                // its own is done all the same.
                Log.warning("the context of before cannot be put back", e);
            }
        }
    }
}
