package io.telpher.topology;

import java.util.Map;

/// A NUMA node: CPUs, memory, and the root complexes attached to them.
///
/// @param numa the kernel's number; -1 where it is unknown which node a device belongs to
/// @param cpus its logical CPUs
/// @param cpu what kind of CPU
/// @param distances the firmware's relative latencies to memory of other nodes (10: the own one),
///     where they are known
public record NumaNode(
        String id, int host, int numa, CpuSet cpus, Cpu cpu, Map<Integer, Integer> distances)
        implements Node {
    /// Copies the map.
    public NumaNode {
        distances = Map.copyOf(distances);
    }

    /// A kind of CPU, as NCCL writes it.
    ///
    /// @param arch `x86_64`, `arm64`, `ppc64`, or what else there is
    /// @param vendor as CPUID says it, such as `GenuineIntel`; empty where there is none
    /// @param family as NCCL computes it from CPUID, which for AMD is not the kernel's number; 0
    ///     when unknown
    /// @param model 0 when unknown
    /// @param name the kernel's name of it; empty when unknown
    public record Cpu(String arch, String vendor, int family, int model, String name) {}

    @Override
    public String label() {
        return (host == 0 ? "" : "host" + host + " ") + "NUMA " + (numa < 0 ? "?" : "" + numa);
    }
}
