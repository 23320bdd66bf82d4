package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Device;
import io.telpher.internal.device.Intermediates;
import io.telpher.topology.Topology;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

/// Which GPU carries bytes between two others, on described machines.
class IntermediateSearchTest {
    private static final int GPUS = 5;

    /// Four NVLinks between GPUs 0 and 1, and 1 and 2; two between 0 and 3, and 3 and 2; GPU 4 has
    /// PCIe alone.
    private static final String MACHINE = machine("0-1-4 1-2-4 0-3-2 2-3-2");

    private static UUID uuid(int gpu) {
        return new UUID(7, gpu);
    }

    private static Device device(int gpu) {
        return new Device("cuda", uuid(gpu), bus(gpu), "GPU");
    }

    private static String bus(int gpu) {
        return "0000:%d0:00.0".formatted(gpu + 1);
    }

    /// One host, each GPU below a root port of its own.
    private static String machine(String links) {
        StringBuilder xml =
                new StringBuilder(
                        """
                        <system version="1">
                          <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
                        """);
        for (int gpu = 0; gpu < GPUS; gpu++) {
            xml.append(
                    """
                    <pci busid="%s" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
                    <gpu dev="%d" sm="80" rank="%d" gdr="1" uuid="GPU-%s">
                    """
                            .formatted(bus(gpu), gpu, gpu, uuid(gpu)));
            for (String link : links.split(" ")) {
                String[] ends = link.split("-");
                for (int i = 0; i < 2; i++) {
                    if (Integer.parseInt(ends[i]) == gpu) {
                        int other = Integer.parseInt(ends[1 - i]);
                        xml.append(
                                "<nvlink target=\"%s\" count=\"%s\" tclass=\"0x030200\"/>%n"
                                        .formatted(bus(other), ends[2]));
                    }
                }
            }
            xml.append("</gpu>%n</pci>%n".formatted());
        }
        return xml.append("</cpu>%n</system>%n".formatted()).toString();
    }

    /// @param kept pairs without peer access, such as `0-2`; the first does not reach the second
    private static Intermediates find(
            int one, int other, boolean named, Map<String, String> environment, String... kept) {
        return find(device -> true, one, other, named, environment, kept);
    }

    private static Intermediates find(
            Predicate<Device> isOpen,
            int one,
            int other,
            boolean named,
            Map<String, String> environment,
            String... kept) {
        Set<String> apart = Set.of(kept);
        List<Device> visible = new ArrayList<>();
        for (int gpu = 0; gpu < GPUS; gpu++) {
            visible.add(device(gpu));
        }
        return new IntermediateSearch(
                        visible,
                        isOpen,
                        (by, of) -> {
                            String pair =
                                    by.getLeastSignificantBits()
                                            + "-"
                                            + of.getLeastSignificantBits();
                            return apart.contains(pair) ? pair + " is refused" : null;
                        },
                        PeerLimit.of(environment::get, () -> Topology.fromXml(MACHINE)))
                .between(uuid(one), uuid(other), named);
    }

    @Test
    void theFastestComesFirstAndNoneThatIsSlowerThanTheHost() {
        Intermediates found = find(0, 2, false, Map.of());
        assertThat(found.devices()).containsExactly(device(1), device(3));
        assertThat(found.reason())
                .contains("through GPU %s".formatted(uuid(4)), "to be expected, through the host");
        assertThat(find(0, 4, false, Map.of()).devices()).isEmpty();
    }

    @Test
    void whoAsksByNameGetsTheSlowerOnesToo() {
        assertThat(find(0, 2, true, Map.of()).devices())
                .containsExactly(device(1), device(3), device(4));
        assertThat(find(0, 0, true, Map.of()).devices()).first().isEqualTo(device(1));
        assertThat(find(0, 9, true, Map.of()).devices()).hasSize(4);
        assertThat(find(0, 9, false, Map.of()).devices()).as("nobody knows GPU 9").isEmpty();
    }

    /// No GPU gets a context that nobody asked for.
    @Test
    void oneThatIsNotUsedIsTakenByNameAlone() {
        Predicate<Device> third = device(3)::equals;
        assertThat(find(third, 0, 2, false, Map.of()).devices()).containsExactly(device(3));
        assertThat(find(third, 0, 2, false, Map.of()).reason())
                .contains("%s is not used".formatted(uuid(1)), "does not name cuda-via-gpu");
        assertThat(find(third, 0, 2, true, Map.of()).devices()).first().isEqualTo(device(1));
    }

    /// The one in the middle copies; but pairs are trusted after copies in both directions only.
    @Test
    void itReachesBothEndsAndTheyIt() {
        assertThat(find(0, 2, false, Map.of(), "1-2").devices()).containsExactly(device(3));
        assertThat(find(0, 2, false, Map.of(), "1-2").reason()).contains("1-2 is refused");
        assertThat(find(0, 2, false, Map.of(), "1-0", "3-0").devices()).isEmpty();
        assertThat(find(0, 2, false, Map.of(), "0-1").devices()).containsExactly(device(3));
        assertThat(find(0, 2, false, Map.of(), "0-1", "2-3").devices()).isEmpty();
    }

    /// NCCL takes such a path for one of type NVB, which comes after NVL.
    @Test
    void levelsCountItAsNvb() {
        assertThat(find(0, 2, true, Map.of("NCCL_P2P_LEVEL", "NVL")).devices()).isEmpty();
        assertThat(find(0, 2, true, Map.of("NCCL_P2P_LEVEL", "NVL")).reason())
                .contains("NCCL_P2P_LEVEL=NVL", "NVB");
        assertThat(find(0, 2, true, Map.of("NCCL_P2P_LEVEL", "NVB")).devices())
                .containsExactly(device(1), device(3));
        assertThat(find(0, 2, true, Map.of("NCCL_P2P_LEVEL", "PIX")).devices())
                .containsExactly(device(1), device(3));
        assertThat(find(0, 2, true, Map.of("NCCL_P2P_LEVEL", "PHB")).devices()).hasSize(3);
        assertThat(find(0, 2, true, Map.of("NCCL_P2P_DISABLE", "1")).devices()).isEmpty();
    }

    /// NVLink joins GPUs 0 and 2 through others only: copies between the two take PCIe.
    @Test
    void levelsCountTheWayThatCopiesTake() {
        for (String level : List.of("NVB", "PIX", "PHB")) {
            PeerLimit limit =
                    PeerLimit.of(
                            Map.of("NCCL_P2P_LEVEL", level)::get, () -> Topology.fromXml(MACHINE));
            assertThat(limit.refuses(uuid(0), uuid(1))).isNull();
            String refused = limit.refuses(uuid(0), uuid(2));
            if (level.equals("PHB")) {
                assertThat(refused).isNull();
            } else {
                assertThat(refused).contains("NCCL_P2P_LEVEL=" + level, "connected by PHB");
            }
        }
    }
}
