package io.telpher.topology;

/// NCCL's figures of what a link carries, in GB/s in each direction.
final class Bandwidths {
    /// Inside one device.
    static final double LOCAL = 5000;

    /// Between partitions of one GPU.
    static final double PARTITION = 2618;

    private Bandwidths() {}

    /// @param computeCapability ten times CUDA's; 0 when unknown
    /// @return of one NVLink
    static double nvLink(int computeCapability) {
        if (computeCapability >= 100) {
            return 40.1;
        }
        if (computeCapability >= 90) {
            return 20.6;
        }
        if (computeCapability == 86) {
            return 12;
        }
        return computeCapability >= 60 && computeCapability < 70 ? 18 : 20;
    }

    /// @return between two sockets or NUMA nodes
    static double socket(NumaNode.Cpu cpu) {
        return switch (cpu.arch()) {
            case "x86_64" -> x86(cpu);
            case "arm64" -> 6;
            case "ppc64" -> 32;
            default -> LOCAL;
        };
    }

    private static double x86(NumaNode.Cpu cpu) {
        return switch (cpu.vendor()) {
            case "GenuineIntel" -> intel(cpu.family() == 6 ? cpu.model() : 0);
            case "AuthenticAMD" -> 16;
            case "CentaurHauls", "  Shanghai  " -> cpu.family() == 7 && cpu.model() == 0x5b ? 9 : 6;
            default -> LOCAL;
        };
    }

    private static double intel(int model) {
        if (model >= 0xcf) {
            return 40; // Emerald Rapids and later
        }
        if (model >= 0x8f) {
            return 22; // Sapphire Rapids
        }
        return model >= 0x55 ? 10 : 6; // Skylake and what came before
    }
}
