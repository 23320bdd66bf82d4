package io.telpher.internal.device;

import io.telpher.Device;
import java.util.List;

/// Devices that may carry bytes between two others, of which neither reaches the other's memory:
/// see docs/gpu.md, "Through another GPU".
///
/// @param devices the fastest first; what the driver allows each of them, not what was tried
/// @param reason why there are no more, for people
public record Intermediates(List<Device> devices, String reason) {
    /// The path's name.
    public static final String PATH = "cuda-via-gpu";

    /// Copies the list.
    public Intermediates {
        devices = List.copyOf(devices);
    }
}
