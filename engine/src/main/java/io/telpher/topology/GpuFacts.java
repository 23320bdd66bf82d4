package io.telpher.topology;

import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/// What is known of this machine's GPUs beside what the PCI bus says: a driver's library knows it.
interface GpuFacts {
    /// No library is asked, and nobody misses it.
    GpuFacts NONE =
            new GpuFacts() {
                @Override
                public List<Fact> gpus() {
                    return List.of();
                }

                @Override
                public Optional<String> missing() {
                    return Optional.empty();
                }
            };

    /// @return the GPUs that the library knows
    List<Fact> gpus();

    /// @return what is not known, why, and what to do about it: one line; empty when all went well
    Optional<String> missing();

    /// One GPU.
    ///
    /// @param index the library's number of it
    /// @param uuid empty when unknown
    /// @param name empty when unknown
    /// @param computeCapability ten times CUDA's, 90 for 9.0; 0 when unknown
    /// @param links each NVLink that it has
    /// @param c2c links to the CPU's chip; null without any
    record Fact(
            PciAddress address,
            int index,
            String uuid,
            String name,
            int computeCapability,
            List<NvLinkFact> links,
            @Nullable C2c c2c) {}

    /// One NVLink.
    ///
    /// @param up whether it carries data
    /// @param version generation of NVLink; 0 when unknown
    /// @param remote the other end; null when the machine does not show it
    /// @param kind what the other end is; one that is not known is a switch
    record NvLinkFact(boolean up, int version, @Nullable PciAddress remote, NvLink.Kind kind) {}
}
