package io.telpher.cli.doctor;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.memory.Cgroups;
import java.util.ArrayList;
import java.util.List;

/// Whether memory for the `mapped` path can be made, and what bounds it: a memfd counts against the
/// control group's memory, not against the size of `/dev/shm`.
final class SharedMemoryCheck implements Check {
    private static final String NO_EXEC = "/proc/sys/vm/memfd_noexec";
    private static final String MOUNTS = "/proc/self/mountinfo";
    private static final long LITTLE = 256L << 20;

    /// What version 1 says when there is no limit: the largest number of whole pages.
    private static final long NO_LIMIT = Long.MAX_VALUE >> 12 << 12;

    @Override
    public String name() {
        return "shared-memory";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        Probes.Result made = host.probes().sealedMemory();
        if (made.worked()) {
            found.add(Finding.info(name(), "a sealed memfd can be made", made.toString()));
        } else {
            found.add(
                    Finding.warning(
                            name(),
                            "memory that peers can map cannot be made: same-host connections fall"
                                    + " back to TCP",
                            made + "; " + host.evidence(NO_EXEC),
                            remedy(host, made),
                            "telpher doctor shows 'a sealed memfd can be made'"));
        }
        for (String folder : Cgroups.folders(host::read, Cgroups.Version.V2, "")) {
            bounded(host, folder + "/memory.max", folder + "/memory.current", found);
        }
        for (String folder : Cgroups.folders(host::read, Cgroups.Version.V1, "memory")) {
            bounded(
                    host,
                    folder + "/memory.limit_in_bytes",
                    folder + "/memory.usage_in_bytes",
                    found);
        }
        found.add(devShm(host));
        return found;
    }

    private static String remedy(Host host, Probes.Result made) {
        return switch (made.error()) {
            case Errno.EACCES ->
                    host.number(NO_EXEC).orElse(0) == 2
                            ? "set vm.memfd_noexec to 1 or 0 (sysctl): 2 refuses every memfd that"
                                    + " could be executed"
                            : "allow memfd_create in the security module's policy";
            case Errno.ENOSYS, Errno.EPERM ->
                    "allow " + made.call() + " in the container's seccomp profile";
            case Errno.EMFILE, Errno.ENFILE -> "raise the limit on open files (ulimit -n)";
            default -> "free memory, or raise the control group's limit";
        };
    }

    private void bounded(Host host, String limitFile, String usedFile, List<Finding> found) {
        long limit = host.number(limitFile).orElse(Long.MAX_VALUE);
        if (limit >= NO_LIMIT) {
            return; // also where the file says "max" or is not there
        }
        long left = limit - host.number(usedFile).orElse(0);
        String evidence = host.evidence(limitFile) + "; " + host.evidence(usedFile);
        if (left < LITTLE) {
            found.add(
                    Finding.warning(
                            name(),
                            "%d MiB are left for this control group; a region beyond that ends in"
                                            .formatted(left >> 20)
                                    + " an error, or in the kernel's killing of a process",
                            evidence,
                            "raise the memory limit (docker run --memory, resources.limits.memory"
                                    + " in Kubernetes, MemoryMax= in a systemd unit)",
                            "cat " + limitFile));
        } else {
            found.add(
                    Finding.info(
                            name(),
                            "%d MiB are left for this control group, regions included"
                                    .formatted(left >> 20),
                            evidence));
        }
    }

    private Finding devShm(Host host) {
        String options =
                host.read(MOUNTS)
                        .orElse("")
                        .lines()
                        .filter(line -> line.contains(" /dev/shm "))
                        .map(line -> line.substring(line.indexOf(" - ") + 3))
                        .reduce((_, last) -> last)
                        .orElse("");
        return Finding.info(
                name(),
                "Telpher does not use /dev/shm, whatever its size; other libraries do",
                MOUNTS
                        + ": "
                        + (options.isEmpty() ? "/dev/shm is not mounted" : "/dev/shm " + options));
    }
}
