/// GPUs by AMD's HIP runtime. Start reading at [io.telpher.internal.device.hip.HipRuntime].
/// **Unproven** on hardware: docs/gpu.md says what was seen to hold.
@NullMarked
package io.telpher.internal.device.hip;

import org.jspecify.annotations.NullMarked;
