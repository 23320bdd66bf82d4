package io.telpher.topology;

import org.jspecify.annotations.Nullable;

/// The NVLinks of a GPU that are up and lead to one device.
///
/// @param target the other end; null where the machine does not show it, as an NVSwitch in a
///     virtual machine
/// @param kind what the other end is
/// @param count how many links
/// @param version generation of NVLink; 0 when unknown
public record NvLink(@Nullable PciAddress target, Kind kind, int count, int version) {
    /// What an NVLink leads to.
    public enum Kind {
        GPU,
        SWITCH,
        CPU
    }
}
