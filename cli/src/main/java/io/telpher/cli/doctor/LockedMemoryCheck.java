package io.telpher.cli.doctor;

import java.util.List;
import java.util.Optional;

/// The limit on locked memory, which devices need that read and write memory by themselves.
final class LockedMemoryCheck implements Check {
    private static final String NAME = "Max locked memory";
    private static final String DEVICES = "/sys/class/infiniband";
    private static final String STATUS = "/proc/self/status";
    private static final String EFFECTIVE = "CapEff";
    private static final int CAP_IPC_LOCK = 14;

    @Override
    public String name() {
        return "memlock";
    }

    @Override
    public List<Finding> examine(Host host) {
        Optional<Limit> limit = Limit.of(host, NAME);
        List<String> devices = host.list(DEVICES);
        long soft = limit.map(Limit::soft).orElse(0L);
        String evidence =
                "%s: %s = %s; %s: %s"
                        .formatted(
                                Limit.FILE,
                                NAME,
                                limit.isEmpty() ? "(not there)" : Limit.text(soft),
                                DEVICES,
                                devices.isEmpty() ? "no device" : String.join(", ", devices));
        if (limit.isPresent() && !devices.isEmpty() && soft != Long.MAX_VALUE) {
            if (isExempt(host)) {
                return List.of(
                        Finding.info(
                                name(),
                                "the limit does not bind this process, which has CAP_IPC_LOCK; it"
                                        + " binds one without",
                                evidence + "; " + capabilities(host)));
            }
            return List.of(
                    Finding.warning(
                            name(),
                            "registering memory with an RDMA device fails beyond this limit",
                            evidence + "; " + capabilities(host),
                            "raise it: ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd"
                                    + " unit, --ulimit memlock=-1 for a container",
                            "telpher doctor shows 'unlimited'"));
        }
        return List.of(
                Finding.info(
                        name(),
                        devices.isEmpty()
                                ? "shared memory and TCP lock none, and what NVIDIA's driver locks"
                                        + " does not count"
                                : "no limit on what RDMA devices may register",
                        evidence));
    }

    /// The kernel asks for the capability in the machine's own user namespace.
    private static boolean isExempt(Host host) {
        String capabilities = host.field(STATUS, EFFECTIVE).orElse("");
        return capabilities.matches("[0-9a-f]{1,16}")
                && (Long.parseUnsignedLong(capabilities, 16) >> CAP_IPC_LOCK & 1) != 0
                && NamespacesCheck.isMachines(host, "user");
    }

    private static String capabilities(Host host) {
        return STATUS + ": " + EFFECTIVE + " = " + host.field(STATUS, EFFECTIVE).orElse("?");
    }
}
