package io.telpher.cli.doctor;

import io.telpher.internal.ffi.linux.Errno;
import java.util.ArrayList;
import java.util.List;

/// System calls that filters of containers often refuse. Not believed from the mode, which says
/// that there is a filter and nothing of what it lets through: each is tried on a child process,
/// which every process may do in any case.
final class SeccompCheck implements Check {
    private static final String STATUS = "/proc/self/status";

    @Override
    public String name() {
        return "seccomp";
    }

    @Override
    public List<Finding> examine(Host host) {
        String mode = STATUS + ": Seccomp = " + host.field(STATUS, "Seccomp").orElse("(not there)");
        boolean filtered = host.field(STATUS, "Seccomp").orElse("0").equals("2");
        Probes.Neighbour neighbour = host.probes().neighbour();
        if (neighbour.failure() != null) {
            return List.of(Finding.info(name(), "not tried", mode + "; " + neighbour.failure()));
        }
        List<Probes.Result> refused = new ArrayList<>();
        for (Probes.Result result :
                List.of(
                        neighbour.writeToChild(),
                        neighbour.descriptorOfChild(),
                        host.probes().sealedMemory())) {
            if (result.error() == Errno.ENOSYS || (filtered && result.error() == Errno.EPERM)) {
                refused.add(result);
            }
        }
        if (refused.isEmpty()) {
            return List.of(
                    Finding.info(
                            name(),
                            filtered
                                    ? "a filter is there and lets through what Telpher calls"
                                    : "no system call is refused",
                            mode
                                    + "; "
                                    + neighbour.writeToChild()
                                    + "; "
                                    + neighbour.descriptorOfChild()));
        }
        List<Finding> found = new ArrayList<>();
        for (Probes.Result result : refused) {
            found.add(
                    Finding.warning(
                            name(),
                            result.call() + " is refused to a process and its own child",
                            mode + "; " + result,
                            "allow "
                                    + result.call()
                                    + " in the seccomp profile (docker run --security-opt"
                                    + " seccomp=PROFILE, seccompProfile in Kubernetes)",
                            "telpher doctor does not show this any more"));
        }
        return found;
    }
}
