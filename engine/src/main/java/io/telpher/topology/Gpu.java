package io.telpher.topology;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// A GPU, or a partition of one.
///
/// @param index NVML's number, which differs from CUDA's when `CUDA_VISIBLE_DEVICES` is set; -1
///     when unknown
/// @param pci its place on the bus
/// @param uuid such as `GPU-6b1a…`; empty when unknown
/// @param name the product's name; empty when unknown
/// @param computeCapability ten times CUDA's compute capability: 90 is 9.0; 0 when unknown
/// @param nvLinks links that are up
/// @param nvLinksDown how many links there are besides that are not up
/// @param c2c links to the CPU's chip
public record Gpu(
        String id,
        int host,
        int index,
        PciDevice pci,
        String uuid,
        String name,
        int computeCapability,
        List<NvLink> nvLinks,
        int nvLinksDown,
        @Nullable C2c c2c)
        implements Node {
    /// Copies the list.
    public Gpu {
        nvLinks = List.copyOf(nvLinks);
    }

    /// @return `GPU0`; the address when the index is unknown
    @Override
    public String label() {
        String name = index < 0 ? "GPU " + pci.address() : "GPU" + index;
        return host == 0 ? name : "host" + host + " " + name;
    }
}
