package io.telpher.spi;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// What tells hosts, processes and namespaces apart.
///
/// @param bootId the kernel's boot id, 36 characters; empty when unknown
/// @param pid process id in its own PID namespace
/// @param pidNamespace inode number of the PID namespace, 0 when unknown
/// @param netNamespace inode number of the network namespace, 0 when unknown
public record HostIdentity(String bootId, int pid, long pidNamespace, long netNamespace) {
    /// Nothing is known.
    public static final HostIdentity UNKNOWN = new HostIdentity("", 0, 0, 0);

    /// Reads who this process is. Reads anew each time: a process can change its network namespace.
    public static HostIdentity here() {
        return new HostIdentity(
                bootIdHere(),
                (int) ProcessHandle.current().pid(),
                namespaceHere("pid"),
                namespaceHere("net"));
    }

    private static String bootIdHere() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip();
        } catch (IOException e) {
            return "";
        }
    }

    /// The inode number in `net:[4026531840]`.
    private static long namespaceHere(String kind) {
        try {
            String link = Files.readSymbolicLink(Path.of("/proc/self/ns/" + kind)).toString();
            return Long.parseLong(link.replaceAll("\\D", ""));
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }

    /// @return whether both run under one kernel
    public boolean sameHost(HostIdentity other) {
        return !bootId.isEmpty() && bootId.equals(other.bootId);
    }

    /// @return whether both see the same network interfaces
    public boolean sameNetwork(HostIdentity other) {
        return sameHost(other) && netNamespace != 0 && netNamespace == other.netNamespace;
    }
}
