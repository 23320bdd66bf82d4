package io.telpher.cli.doctor;

import java.util.List;

/// How many cores this process may use.
final class CoresCheck implements Check {
    private static final String STATUS = "/proc/self/status";
    private static final String FIELD = "Cpus_allowed_list";

    @Override
    public String name() {
        return "cores";
    }

    @Override
    public List<Finding> examine(Host host) {
        int cores = usable(host);
        String evidence =
                STATUS + ": " + FIELD + " = " + host.field(STATUS, FIELD).orElse("(not there)");
        if (cores == 1) {
            return List.of(
                    Finding.warning(
                            name(),
                            "both sides of a same-host connection share one core: whoever waits"
                                    + " takes it from the one who works",
                            evidence,
                            "let this process use at least two cores (taskset, cpuset, the"
                                    + " container's CPU request)",
                            "telpher doctor shows two or more cores"));
        }
        return List.of(
                Finding.info(
                        name(),
                        cores == 0 ? "the number is not known" : cores + " can be used",
                        evidence));
    }

    /// @return how many cores this process may use, 0 when unknown
    static int usable(Host host) {
        return count(host.field(STATUS, FIELD).orElse(""));
    }

    /// @param list such as `0-3,8`
    private static int count(String list) {
        int count = 0;
        for (String part : list.split(",")) {
            if (part.matches("\\d{1,6}")) {
                count++;
            } else if (part.matches("\\d{1,6}-\\d{1,6}")) {
                String[] ends = part.split("-");
                count += Integer.parseInt(ends[1]) - Integer.parseInt(ends[0]) + 1;
            }
        }
        return count;
    }
}
