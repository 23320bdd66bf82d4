package io.telpher.internal.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.Device;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.topology.SysfsTree;
import io.telpher.topology.Topology;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// On which NUMA node memory for a device's copies lies.
class NumaPlacementTest {
    private static Device device(String address) {
        return new Device("cuda", new UUID(1, 2), address, "GPU");
    }

    /// Two sockets, a GPU below each, and one that the kernel shows below none.
    @Test
    void aDevicesNodeIsThatOfItsPlaceOnTheBus(@TempDir Path folder) {
        SysfsTree tree = new SysfsTree(folder);
        tree.numaNode(0, "0-15", "10 21").numaNode(1, "16-31", "21 10");
        tree.pci("pci0000:15/0000:15:01.0", "0x030200", "0x10de").numa(0);
        tree.pci("pci0000:97/0000:97:01.0", "0x030200", "0x10de").numa(1);
        tree.pci("pci0000:c0/0000:c0:01.0", "0x030200", "0x10de").numa(-1);
        Topology machine = Topology.under(folder);
        assertThat(NumaPlacement.nodeOf(machine, device("0000:15:01.0"))).isZero();
        assertThat(NumaPlacement.nodeOf(machine, device("0000:97:01.0"))).isOne();
        assertThat(NumaPlacement.nodeOf(machine, device("0000:c0:01.0"))).isEqualTo(-1);
        assertThat(NumaPlacement.nodeOf(machine, device("0000:00:01.0"))).isEqualTo(-1);
    }

    /// Where NVML told UUIDs: a slice has one of its own.
    @Test
    void aDeviceIsFoundByItsUuidAndASliceByItsGpusPlace() {
        Topology machine =
                Topology.fromXml(
                        """
                        <system version="1">
                          <cpu numaid="1" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
                            <pci busid="0000:97:01.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
                              <gpu dev="0" sm="90" rank="0" gdr="1" uuid="GPU-%s"/>
                            </pci>
                          </cpu>
                        </system>
                        """
                                .formatted(new UUID(1, 2)));
        assertThat(NumaPlacement.nodeOf(machine, device("0000:00:00.0"))).isOne();
        Device slice = new Device("cuda", new UUID(7, 7), "0000:97:01.0", "GPU");
        assertThat(NumaPlacement.nodeOf(machine, slice)).isOne();
    }

    /// What the kernel says afterwards of memory that was to come from this machine's node 0.
    @Test
    void theKernelKnowsWhereAMappingsPagesAreToComeFrom() throws IOException {
        Path maps = Path.of("/proc/self/numa_maps");
        assumeThat(maps).as("a kernel without NUMA").exists();
        long size = 16L * Memory.pageSize();
        long address =
                Memory.mmap(
                        0,
                        size,
                        Memory.PROT_READ | Memory.PROT_WRITE,
                        Memory.MAP_PRIVATE | Memory.MAP_ANONYMOUS,
                        -1,
                        0);
        assertThat(address).isPositive();
        try {
            int result = Memory.mbind(address, size, Memory.MPOL_PREFERRED, 0);
            assumeThat(result)
                    .as("mbind is not allowed here (a container's seccomp rules?): %s", result)
                    .isNotIn(-Errno.EPERM, -Errno.ENOSYS);
            assertThat(result).isZero();
            assertThat(Files.readAllLines(maps))
                    .anyMatch(
                            line ->
                                    line.startsWith(Long.toHexString(address) + " ")
                                            && line.contains("prefer")
                                            && line.contains(":0"));
            assertThat(Memory.mbind(address, size, Memory.MPOL_PREFERRED, 1000))
                    .isEqualTo(-Errno.EINVAL);
        } finally {
            assertThat(Memory.munmap(address, size)).isZero();
        }
    }
}
