package io.telpher;

import java.util.Objects;

/// A queue of work of a device that the program made, such as a CUDA stream. A value: it neither
/// makes nor keeps the stream, which must live until the transfers that name it have been posted.
///
/// @param device the stream's device, in whose primary context it is
/// @param handle what its runtime calls it: `CUstream`, `cudaStream_t`, PyTorch's
///     `stream.cuda_stream`; 0 and 1 are the default stream, 2 is that of the posting thread
public record DeviceStream(Device device, long handle) {
    /// Checks that there is a device.
    public DeviceStream {
        Objects.requireNonNull(device, "device");
    }
}
