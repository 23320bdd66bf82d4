package io.telpher.cli.bench;

import io.telpher.cli.Main;
import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/// What a reader of figures must know of the machine.
final class Machine {
    private Machine() {}

    /// @return processors, kernel, Java: one line
    static String describe() {
        return "%d x %s, %s GiB, Linux %s, Java %s"
                .formatted(
                        Cores.available().size(),
                        field("/proc/cpuinfo", "model name", System.getProperty("os.arch")),
                        memory(),
                        release(System.getProperty("os.version")),
                        Runtime.version());
    }

    /// @return the numbers of a kernel's release: the name of its build says nothing to others
    static String release(String version) {
        return version.replaceFirst("(?<=\\d)[^\\d.].*", "");
    }

    private static String memory() {
        String kib = field("/proc/meminfo", "MemTotal", "0 kB").replaceAll("\\D", "");
        return Long.toString(Math.round(Long.parseLong(kib) / 1048576.0));
    }

    /// @return the first value of a `name : value` file
    static String field(String file, String name, String otherwise) {
        try {
            for (String line : Files.readAllLines(Path.of(file))) {
                int colon = line.indexOf(':');
                if (colon > 0 && line.substring(0, colon).strip().equals(name)) {
                    return line.substring(colon + 1).strip();
                }
            }
        } catch (IOException e) {
            return otherwise;
        }
        return otherwise;
    }

    /// @return the version of this build
    static String version() {
        return Optional.ofNullable(Main.class.getModule().getDescriptor())
                .flatMap(ModuleDescriptor::rawVersion)
                .orElse("development");
    }
}
