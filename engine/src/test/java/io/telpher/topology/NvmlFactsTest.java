package io.telpher.topology;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.cuda.FakeGpu;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What NVML says becomes part of the graph; on the fake NVML, whose GPUs have two links to each
/// other one.
@Tag(FakeGpu.TAG)
class NvmlFactsTest {
    private static final int LINKS_PER_PEER = 2;

    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
    }

    @Test
    void everyGpuAndEachOfItsLinksIsTold() {
        NvmlFacts facts = new NvmlFacts();
        assertThat(facts.missing()).isEmpty();
        List<GpuFacts.Fact> gpus = facts.gpus();
        assertThat(gpus).hasSize(NvmlDevices.count()).hasSizeGreaterThan(1);
        for (int index = 0; index < gpus.size(); index++) {
            GpuFacts.Fact gpu = gpus.get(index);
            assertThat(gpu.index()).isEqualTo(index);
            assertThat(gpu.uuid()).isEqualTo(NvmlDevices.uuid(NvmlDevices.byIndex(index)));
            assertThat(gpu.address())
                    .isEqualTo(PciAddress.parse(NvmlDevices.pciBusId(NvmlDevices.byIndex(index))));
            assertThat(gpu.name()).isEqualTo("Fake GPU");
            assertThat(gpu.computeCapability()).isEqualTo(90);
            assertThat(gpu.c2c()).isNull();
            assertThat(gpu.links())
                    .hasSize((gpus.size() - 1) * LINKS_PER_PEER)
                    .allMatch(GpuFacts.NvLinkFact::up)
                    .allMatch(link -> link.version() == 4)
                    .allMatch(link -> link.kind() == NvLink.Kind.GPU)
                    .noneMatch(link -> gpu.address().equals(link.remote()));
        }
    }

    @Test
    void theGraphHasThemThoughTheBusHidesThem(@TempDir Path folder) {
        new SysfsTree(folder).intel(143).numaNode(0, "0-3", "10");
        Topology machine = Machine.look(folder, Map.of(), new NvmlFacts());
        assertThat(machine.gpus()).hasSize(NvmlDevices.count());
        for (Gpu one : machine.gpus()) {
            for (Gpu other : machine.gpus()) {
                TopologyPath path = machine.path(one, other);
                assertThat(path.type()).isEqualTo(one == other ? PathType.LOC : PathType.NVL);
                assertThat(one == other || path.bandwidth() == LINKS_PER_PEER * 20.6).isTrue();
            }
        }
        XmlTest.assertThatNcclTakes(machine.toXml());
        assertThat(Topology.fromXml(machine.toXml()).nodes()).isEqualTo(machine.nodes());
    }

    /// As a virtual machine shows the far end of links to switches that it does not have.
    @Test
    void anEndThatNobodyKnowsIsNoReasonToHideTheGpu() {
        assertThat(NvmlFacts.address("FFFFFFFF:FF:FF.F")).isNull();
        assertThat(NvmlFacts.address("00000000:65:00.0"))
                .isEqualTo(PciAddress.parse("0000:65:00.0"));
        assertThat(NvmlFacts.address(null)).isNull();
    }
}
