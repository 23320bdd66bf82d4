package io.telpher.internal.transport.shm;

import io.telpher.internal.ffi.linux.Processes;
import io.telpher.spi.HostIdentity;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// Where this process runs, as the kernel tells it.
final class LocalHost {
    private LocalHost() {}

    /// Reads the facts anew: a process can change its network namespace.
    static HostIdentity read() {
        return new HostIdentity(
                text("/proc/sys/kernel/random/boot_id"),
                Processes.getpid(),
                namespace("pid"),
                namespace("net"));
    }

    private static String text(String path) {
        try {
            return Files.readString(Path.of(path)).strip();
        } catch (IOException e) {
            return "";
        }
    }

    /// @return the inode number in `net:[4026531840]`, 0 when `/proc` is not there
    private static long namespace(String kind) {
        try {
            String link = Files.readSymbolicLink(Path.of("/proc/self/ns/" + kind)).toString();
            return Long.parseLong(link.replaceAll("\\D", ""));
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }
}
