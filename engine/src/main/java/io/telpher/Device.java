package io.telpher;

import io.telpher.internal.device.Runtimes;
import java.util.List;
import java.util.UUID;

/// A device with memory of its own that this process sees: a GPU, or a MIG slice of one. A value;
/// naming a device does not touch it: a context is made on first use.
///
/// @param runtime what drives it: `cuda`, `hip`
/// @param uuid its identity, the same in every process and on every day; positions in the
///     driver's list are not, since variables such as `CUDA_VISIBLE_DEVICES` change them
/// @param pciAddress `0000:65:00.0`
/// @param name the product's name, for people
public record Device(String runtime, UUID uuid, String pciAddress, String name) {
    /// @return the devices that this process sees, in the driver's order; empty where there is no
    ///     driver or no device
    public static List<Device> list() {
        return Runtimes.devices();
    }

    /// Finds a device of this process.
    ///
    /// @param text its UUID, with or without `GPU-`; its PCI address; or `cuda:N`, `hip:N`,
    ///     the N-th in that driver's order, counted from 0
    /// @throws TelpherException.Unsupported when this process sees none of that name
    public static Device of(String text) {
        return Runtimes.find(text);
    }

    /// Two descriptions of one device are equal.
    @Override
    public boolean equals(Object other) {
        return other instanceof Device that
                && runtime.equals(that.runtime)
                && uuid.equals(that.uuid);
    }

    @Override
    public int hashCode() {
        return uuid.hashCode();
    }

    @Override
    public String toString() {
        return pciAddress.isEmpty()
                ? "%s (%s)".formatted(name, uuid)
                : "%s (%s, %s)".formatted(name, pciAddress, uuid);
    }
}
