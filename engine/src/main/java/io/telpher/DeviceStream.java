package io.telpher;

import java.util.Objects;

/// A queue of work of a device that the program made, such as a CUDA stream. A value: it neither
/// makes nor keeps the stream, which must live until the transfers that name it have been
/// posted for the last time.
///
/// @param device the stream's device, in whose primary context it is
/// @param handle what its runtime calls it: `CUstream`, `cudaStream_t`, PyTorch's
///     `stream.cuda_stream`; 0 and 1 are the default stream, 2 is that of the posting thread
public record DeviceStream(Device device, long handle) {
    /// The handle by which each thread calls a stream of its own, `CU_STREAM_PER_THREAD`.
    public static final long PER_THREAD = 2;

    /// Checks that there is a device.
    public DeviceStream {
        Objects.requireNonNull(device, "device");
    }
}
