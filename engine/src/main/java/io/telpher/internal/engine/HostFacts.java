package io.telpher.internal.engine;

import io.telpher.spi.HostIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Reads who this process is from procfs.
final class HostFacts {
    private static final Pattern NAMESPACE = Pattern.compile("\\[(\\d+)]");

    private HostFacts() {}

    static HostIdentity read() {
        String boot;
        try {
            boot = Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip();
        } catch (IOException e) {
            boot = "";
        }
        return new HostIdentity(
                boot, (int) ProcessHandle.current().pid(), namespace("pid"), namespace("net"));
    }

    private static long namespace(String kind) {
        try {
            String link = Files.readSymbolicLink(Path.of("/proc/self/ns/" + kind)).toString();
            Matcher number = NAMESPACE.matcher(link);
            return number.find() ? Long.parseLong(number.group(1)) : 0;
        } catch (IOException e) {
            return 0;
        }
    }
}
