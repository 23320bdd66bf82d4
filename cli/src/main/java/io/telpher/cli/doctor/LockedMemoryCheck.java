package io.telpher.cli.doctor;

import java.util.List;
import java.util.Optional;

/// The limit on locked memory, which devices need that read and write memory by themselves.
final class LockedMemoryCheck implements Check {
    private static final String NAME = "Max locked memory";
    private static final String DEVICES = "/sys/class/infiniband";

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
            return List.of(
                    Finding.warning(
                            name(),
                            "registering memory with an RDMA device fails beyond this limit",
                            evidence,
                            "raise it: ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd"
                                    + " unit, --ulimit memlock=-1 for a container",
                            "telpher doctor shows 'unlimited'"));
        }
        return List.of(
                Finding.info(
                        name(),
                        devices.isEmpty()
                                ? "shared memory and TCP lock none"
                                : "no limit on what RDMA devices may register",
                        evidence));
    }
}
