package io.telpher.internal.device.hip;

import io.telpher.internal.ffi.hip.HipDevices;

/// A device by the runtime's number, and how threads come to use it.
///
/// ```text
/// int before = device.enter();
/// try { calls of the runtime } finally { device.exit(before); }
/// ```
///
/// Other code on this thread changes its device behind our back, so it is asked for each time.
/// Locks are taken before [#enter]: who waits for one might go on as another thread.
record HipDevice(int number) {
    /// Makes it the thread's.
    ///
    /// @return the thread's device before, for [#exit]
    int enter() {
        int before = HipDevices.current();
        if (before != number) {
            HipDevices.setCurrent(number);
        }
        return before;
    }

    /// Puts back what was the thread's.
    void exit(int before) {
        if (before != number) {
            HipDevices.setCurrent(before);
        }
    }
}
