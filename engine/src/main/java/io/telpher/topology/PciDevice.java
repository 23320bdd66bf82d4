package io.telpher.topology;

import org.jspecify.annotations.Nullable;

/// What the PCI bus knows of a device. Numbers are in hexadecimal, as the kernel and NCCL write
/// them: `0x10de`; empty where they are unknown.
///
/// @param address where it is
/// @param deviceClass class, subclass and interface, such as `0x030200`
/// @param link its link to what is above
/// @param port the port of a bridge that it is plugged into, where that is known
/// @param rootComplex the kernel's name of the host bridge above, such as `pci0000:3a`, at devices
///     and switches that are directly below one
public record PciDevice(
        PciAddress address,
        String deviceClass,
        String vendor,
        String device,
        String subsystemVendor,
        String subsystemDevice,
        PcieLink link,
        @Nullable PciAddress port,
        @Nullable String rootComplex) {}
