package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/// Whether processes may copy from and into each other's memory: what the `cma` path takes, for
/// memory that Telpher has not allocated. Tried in both directions: Yama's first level lets a
/// process into its own descendants, so only the child's way back tells of unrelated processes.
final class ProcessAccessCheck implements Check {
    static final String SCOPE = "/proc/sys/kernel/yama/ptrace_scope";
    private static final String WITHOUT =
            "; memory that Telpher allocates is not affected, all other goes through the ring, at"
                    + " two copies";

    @Override
    public String name() {
        return "ptrace";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        Probes.Neighbour neighbour = host.probes().neighbour();
        if (neighbour.failure() != null) {
            found.add(
                    Finding.warning(
                            name(),
                            "not tried: a second process could not be had",
                            neighbour.failure(),
                            "make room for a second JVM (memory, number of processes)",
                            "telpher doctor shows this check's result"));
        } else if (neighbour.writeToChild().worked() && neighbour.writeToParent().worked()) {
            found.add(
                    Finding.info(
                            name(),
                            "processes of one user reach each other's memory: path cma works",
                            evidence(host, neighbour)));
        } else {
            found.add(
                    Finding.warning(
                            name(),
                            "processes of one user do not reach each other's memory: no path cma"
                                    + WITHOUT,
                            evidence(host, neighbour),
                            remedy(host, neighbour),
                            "telpher explain says 'cma: yes'"));
        }
        if (host.probes().dumpable() != 1) {
            found.add(
                    Finding.warning(
                            name(),
                            "this process is not dumpable: only root reaches its memory" + WITHOUT,
                            dumpability(host) + "; " + host.evidence("/proc/sys/fs/suid_dumpable"),
                            "start java without setuid, file capabilities or a change of user"
                                    + " (setpriv, su) in the same process",
                            "telpher doctor does not show this any more"));
        }
        return found;
    }

    private static String evidence(Host host, Probes.Neighbour neighbour) {
        return "%s; %s; into a child, %s; from the child, %s"
                .formatted(
                        host.evidence(SCOPE),
                        dumpability(host),
                        neighbour.writeToChild(),
                        neighbour.writeToParent());
    }

    private static String dumpability(Host host) {
        return "prctl(PR_GET_DUMPABLE) = " + host.probes().dumpable();
    }

    private static String remedy(Host host, Probes.Neighbour neighbour) {
        Optional<String> scope = host.read(SCOPE);
        if (scope.isPresent() && !scope.get().equals("0")) {
            return "sysctl -w kernel.yama.ptrace_scope=0"
                    + (scope.get().equals("3") ? " (3 lasts until the next boot)" : "")
                    + ", or give the processes CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)";
        }
        return neighbour.writeToChild().worked()
                ? "run both processes as the same user, without setuid or file capabilities"
                : "allow process_vm_readv and process_vm_writev in the container's seccomp profile"
                        + " or security module";
    }
}
