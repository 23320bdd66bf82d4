package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/// Which NCCL libraries there are. Their versions come from the names of files and packages: a
/// library that is opened runs code.
final class NcclCheck implements Check {
    private static final String LIBRARY = "libnccl.so.2";
    private static final Pattern VERSION = Pattern.compile("libnccl\\.so\\.(\\d+\\.\\d+\\.\\d+)");
    private static final Pattern PACKAGE =
            Pattern.compile("nvidia_nccl_cu\\d+-(\\d+\\.\\d+\\.\\d+).*\\.dist-info");
    private static final List<String> SYSTEM =
            List.of(
                    "/usr/lib/x86_64-linux-gnu",
                    "/usr/lib/aarch64-linux-gnu",
                    "/usr/lib64",
                    "/usr/lib",
                    "/usr/local/lib",
                    "/usr/local/nccl/lib",
                    "/usr/local/cuda/lib64");

    @Override
    public String name() {
        return "nccl";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        Set<String> seen = new LinkedHashSet<>();
        for (String folder : folders(host)) {
            String file = folder + "/" + LIBRARY;
            if (host.exists(file) && seen.add(file)) {
                found.add(
                        Finding.info(
                                name(),
                                "NCCL " + version(host, folder, file).orElse("of unknown version"),
                                file));
            }
        }
        if (found.isEmpty()) {
            found.add(
                    Finding.info(
                            name(),
                            "no NCCL library found: not needed, but for comparisons and the plugin",
                            LIBRARY
                                    + " in LD_LIBRARY_PATH, the system's folders, Python's packages"
                                    + " (VIRTUAL_ENV, CONDA_PREFIX, ~/.local, /usr/local, /usr)"));
        }
        return found;
    }

    /// The loader's order, then what Python programs bring along.
    private static List<String> folders(Host host) {
        List<String> folders = new ArrayList<>();
        Stream.of(host.environment().getOrDefault("LD_LIBRARY_PATH", "").split(":"))
                .filter(folder -> folder.startsWith("/"))
                .forEach(folders::add);
        folders.addAll(SYSTEM);
        List<String> prefixes = new ArrayList<>();
        for (String variable : List.of("VIRTUAL_ENV", "CONDA_PREFIX")) {
            String prefix = host.environment().getOrDefault(variable, "");
            if (prefix.startsWith("/")) {
                prefixes.add(prefix);
                folders.add(prefix + "/lib");
            }
        }
        String home = host.environment().getOrDefault("HOME", "");
        if (home.startsWith("/")) {
            prefixes.add(home + "/.local");
        }
        prefixes.addAll(List.of("/usr/local", "/usr"));
        for (String prefix : prefixes) {
            for (String python : host.list(prefix + "/lib")) {
                if (python.startsWith("python3")) {
                    for (String packages : List.of("site-packages", "dist-packages")) {
                        folders.add(
                                prefix + "/lib/" + python + "/" + packages + "/nvidia/nccl/lib");
                    }
                }
            }
        }
        return folders;
    }

    private static Optional<String> version(Host host, String folder, String file) {
        Optional<String> linked = host.link(file).flatMap(name -> first(VERSION, name));
        if (linked.isPresent()) {
            return linked;
        }
        String packages = folder.replaceFirst("/nvidia/nccl/lib$", "");
        return host.list(packages).stream()
                .flatMap(name -> first(PACKAGE, name).stream())
                .findFirst();
    }

    private static Optional<String> first(Pattern pattern, String text) {
        Matcher match = pattern.matcher(text);
        return match.find() ? Optional.of(match.group(1)) : Optional.empty();
    }
}
