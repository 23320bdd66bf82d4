package io.telpher.internal.memory;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// On recorded files of machines and containers.
class AvailableMemoryTest {
    private static final String V2_MOUNT =
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    private static final long GIB = 1L << 30;

    @TempDir Path root;

    @Test
    void withoutAControlGroupItIsTheMachines() throws IOException {
        machine(8, 2);
        AvailableMemory available = AvailableMemory.of(root);
        assertThat(available.bytes()).isEqualTo(10 * GIB);
        assertThat(available.where()).contains("/proc/meminfo");
    }

    @Test
    void ofNothingThatSaysItIsUnlimited() {
        assertThat(AvailableMemory.of(root).bytes()).isEqualTo(Long.MAX_VALUE);
    }

    @Test
    void aContainerHasWhatItsGroupLeaves() throws IOException {
        machine(8, 0);
        write("proc/self/cgroup", "0::/\n");
        write("proc/self/mountinfo", V2_MOUNT);
        group("sys/fs/cgroup", "memory.max", GIB, "memory.current", GIB / 2, "");

        AvailableMemory available = AvailableMemory.of(root);

        assertThat(available.bytes()).isEqualTo(GIB / 2 + 300);
        assertThat(available.where()).contains("/sys/fs/cgroup/memory.max = " + GIB);
        assertThat(available.remedy()).contains("container's memory limit");
    }

    @Test
    void theNarrowestOfTheGroupsAroundCounts() throws IOException {
        machine(8, 1);
        write("proc/self/cgroup", "0::/pod/container\n");
        write("proc/self/mountinfo", V2_MOUNT);
        write("sys/fs/cgroup/pod/container/memory.max", "max\n");
        write("sys/fs/cgroup/pod/container/memory.current", "5\n");
        group("sys/fs/cgroup/pod", "memory.max", 2 * GIB, "memory.current", 2 * GIB + 500, "");

        AvailableMemory available = AvailableMemory.of(root);

        assertThat(available.bytes()).as("over its limit, but there is swap").isEqualTo(GIB);
        assertThat(available.where()).contains("/sys/fs/cgroup/pod/memory.max");
    }

    @Test
    void theFirstVersionsGroupsCountToo() throws IOException {
        machine(8, 0);
        write("proc/self/cgroup", "4:memory:/job\n0::/\n");
        write(
                "proc/self/mountinfo",
                "40 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        group(
                "sys/fs/cgroup/memory/job",
                "memory.limit_in_bytes",
                3 * GIB,
                "memory.usage_in_bytes",
                GIB,
                "total_");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");

        assertThat(AvailableMemory.of(root).bytes()).isEqualTo(2 * GIB + 300);
    }

    private void machine(long availableGib, long swapGib) throws IOException {
        write(
                "proc/meminfo",
                "MemTotal: 99999999 kB\nMemAvailable:    %d kB\nSwapFree:  %d kB\n"
                        .formatted(availableGib << 20, swapGib << 20));
    }

    private void group(
            String folder, String max, long limit, String current, long used, String prefix)
            throws IOException {
        write(folder + "/" + max, limit + "\n");
        write(folder + "/" + current, used + "\n");
        String stat = "anon 7\n%1$sactive_file 100\n%1$sinactive_file 200\n";
        write(folder + "/memory.stat", stat.formatted(prefix));
    }

    private void write(String file, String text) throws IOException {
        Path path = root.resolve(file);
        Files.createDirectories(path.getParent());
        Files.writeString(path, text);
    }
}
