package io.telpher.cli.doctor;

import io.telpher.internal.memory.Cgroups;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/// The CPU quota of this process's control group and those around it. A waiting thread spins for a
/// moment before it parks: without a quota that costs nothing that others would use, under a quota
/// it uses up what the work needs, and then the kernel stops every thread of the group.
final class CpuQuotaCheck implements Check {
    /// A quota in force.
    ///
    /// @param cores how many cores' time it is
    /// @param periodMicros after how long the kernel counts anew
    private record Quota(double cores, long periodMicros, String evidence, String folder) {}

    @Override
    public String name() {
        return "cpu-quota";
    }

    @Override
    public List<Finding> examine(Host host) {
        Quota least = null;
        for (String folder : Cgroups.folders(host::read, Cgroups.Version.V2, "")) {
            least = lesser(least, ofV2(host, folder));
        }
        for (String folder : Cgroups.folders(host::read, Cgroups.Version.V1, "cpu")) {
            least = lesser(least, ofV1(host, folder));
        }
        if (least == null) {
            return List.of(
                    Finding.info(
                            name(),
                            "no quota: spinning takes nothing from the work",
                            host.evidence("/proc/self/cgroup")));
        }
        String throttled = host.evidence(least.folder() + "/cpu.stat");
        int cores = CoresCheck.usable(host);
        String amount = String.format(Locale.ROOT, "%.2f", least.cores());
        if (cores > 0 && least.cores() >= cores) {
            return List.of(
                    Finding.info(
                            name(),
                            "the quota of " + amount + " cores covers every core that can be used",
                            least.evidence()));
        }
        return List.of(
                Finding.warning(
                        name(),
                        "a quota of %s cores for %d that can be used: once spinning has used it up"
                                        .formatted(amount, cores)
                                + ", every thread stands still for the rest of its %d ms"
                                        .formatted(least.periodMicros() / 1000),
                        least.evidence() + "; " + throttled,
                        "give whole cores instead of a quota (cpuset; in Kubernetes the static CPU"
                                + " manager with whole numbers), or spin less: TELPHER_SPIN=0",
                        "nr_throttled in "
                                + least.folder()
                                + "/cpu.stat does not rise while telpher bench runs"));
    }

    private static @Nullable Quota lesser(@Nullable Quota a, @Nullable Quota b) {
        return a == null ? b : b == null || a.cores() <= b.cores() ? a : b;
    }

    private static @Nullable Quota ofV2(Host host, String folder) {
        String file = folder + "/cpu.max";
        String[] parts = host.read(file).orElse("max").split("\\s+");
        if (parts.length < 2 || !parts[0].matches("\\d+") || !parts[1].matches("\\d+")) {
            return null;
        }
        return quota(Long.parseLong(parts[0]), Long.parseLong(parts[1]), host, file, folder);
    }

    private static @Nullable Quota ofV1(Host host, String folder) {
        String file = folder + "/cpu.cfs_quota_us";
        long quota = host.number(file).orElse(-1);
        long period = host.number(folder + "/cpu.cfs_period_us").orElse(100_000);
        return quota <= 0 ? null : quota(quota, period, host, file, folder);
    }

    private static @Nullable Quota quota(
            long quota, long period, Host host, String file, String folder) {
        return period <= 0
                ? null
                : new Quota((double) quota / period, period, host.evidence(file), folder);
    }
}
