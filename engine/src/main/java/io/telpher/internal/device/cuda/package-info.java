/// GPUs by the CUDA driver. Start reading at [io.telpher.internal.device.cuda.CudaRuntime].
@NullMarked
package io.telpher.internal.device.cuda;

import org.jspecify.annotations.NullMarked;
