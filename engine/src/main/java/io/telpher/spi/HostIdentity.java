package io.telpher.spi;

/// What tells hosts, processes and namespaces apart.
///
/// @param bootId the kernel's boot id, or zeros when unknown; 36 characters
/// @param pid process id in its own PID namespace
/// @param pidNamespace inode number of the PID namespace
/// @param netNamespace inode number of the network namespace
public record HostIdentity(String bootId, int pid, long pidNamespace, long netNamespace) {
    /// Nothing is known.
    public static final HostIdentity UNKNOWN = new HostIdentity("", 0, 0, 0);

    /// @return whether both run under one kernel
    public boolean sameHost(HostIdentity other) {
        return !bootId.isEmpty() && bootId.equals(other.bootId);
    }
}
