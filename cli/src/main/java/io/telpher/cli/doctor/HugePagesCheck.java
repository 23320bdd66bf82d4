package io.telpher.cli.doctor;

import java.util.List;

/// Whether memory that asks for huge pages can get them.
final class HugePagesCheck implements Check {
    private static final String POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
    static final String SHARED = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

    @Override
    public String name() {
        return "huge-pages";
    }

    @Override
    public List<Finding> examine(Host host) {
        long free = host.number(POOL + "free_hugepages").orElse(0);
        String shared = TransparentPagesCheck.chosen(host.read(SHARED).orElse(""));
        boolean transparent =
                !shared.isEmpty() && !shared.equals("never") && !shared.equals("deny");
        String evidence = host.evidence(POOL + "free_hugepages") + "; " + host.evidence(SHARED);
        boolean wanted =
                SettingsCheck.settings(host).stream()
                        .anyMatch(s -> s.option().equals("hugePages") && s.value().equals("true"));
        if (free > 0 || transparent) {
            return List.of(
                    Finding.info(
                            name(),
                            free > 0
                                    ? free + " pages of 2 MiB are free in the pool"
                                    : "the pool is empty; shared memory may get transparent ones",
                            evidence));
        }
        if (wanted) {
            return List.of(
                    Finding.warning(
                            name(),
                            "TELPHER_HUGE_PAGES asks for huge pages, and there are none: memory"
                                    + " has small pages",
                            evidence,
                            "sysctl -w vm.nr_hugepages=NUMBER, or echo advise > " + SHARED,
                            "telpher doctor shows free pages"));
        }
        return List.of(
                Finding.info(
                        name(), "there are none; the option hugePages changes nothing", evidence));
    }
}
