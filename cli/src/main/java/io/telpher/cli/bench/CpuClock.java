package io.telpher.cli.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/// Processor time of this process, all threads together.
final class CpuClock {
    private static final OperatingSystemMXBean SYSTEM =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

    private CpuClock() {}

    /// @return nanoseconds in user and kernel mode since the process started
    static long nanos() {
        return SYSTEM.getProcessCpuTime();
    }
}
