package io.telpher.cli.doctor;

import io.telpher.internal.ffi.linux.Clocks;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/// The clock's source: the engine reads the time for each operation. And whether the clock follows
/// another: nothing in Telpher depends on it, but comparing the logs of two hosts does.
final class ClockCheck implements Check {
    private static final String SOURCE =
            "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    private static final String OTHERS =
            "/sys/devices/system/clocksource/clocksource0/available_clocksource";

    /// Those that cost a system call, or a slow read of a device.
    private static final Set<String> SLOW = Set.of("hpet", "acpi_pm", "jiffies", "refined-jiffies");

    @Override
    public String name() {
        return "clock";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        Optional<String> source = host.read(SOURCE);
        String evidence = host.evidence(SOURCE) + "; " + host.evidence(OTHERS);
        if (source.isPresent() && SLOW.contains(source.get())) {
            found.add(
                    Finding.warning(
                            name(),
                            "reading the time from "
                                    + source.get()
                                    + " takes a microsecond or so, and small messages read it",
                            evidence,
                            "echo tsc > "
                                    + SOURCE
                                    + " where tsc is available (clocksource=tsc at"
                                    + " boot)",
                            "cat " + SOURCE));
        } else {
            found.add(Finding.info(name(), "source: " + source.orElse("not known"), evidence));
        }
        int state = host.probes().clockState();
        String call = "adjtimex = " + state;
        found.add(
                Finding.info(
                        name(),
                        state < 0
                                ? "whether it follows another clock is not known"
                                : state == Clocks.TIME_ERROR
                                        ? "follows no other clock: logs of two hosts may not"
                                                + " compare; deadlines do not depend on it"
                                        : "follows another clock",
                        call));
        return found;
    }
}
