package io.telpher.internal.memory;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/// The control groups that this process is in, of either version.
public final class Cgroups {
    private static final String MEMBERSHIP = "/proc/self/cgroup";
    private static final String MOUNTS = "/proc/self/mountinfo";

    private Cgroups() {}

    /// A control group hierarchy's version.
    public enum Version {
        V1,
        V2
    }

    /// @param read gives the text of a file, such as of `/proc/self/cgroup`
    /// @param controller of version 1, such as `cpu`; version 2 has one hierarchy for all
    /// @return the folders of this process's group and of all groups around it, innermost first;
    ///     none when the hierarchy is not mounted here
    public static List<String> folders(
            Function<String, Optional<String>> read, Version version, String controller) {
        Optional<String> path = membership(read, version, controller);
        Optional<String[]> mount = mount(read, version, controller);
        if (path.isEmpty() || mount.isEmpty()) {
            return List.of();
        }
        String root = mount.get()[3];
        String point = mount.get()[4];
        String inside = path.get();
        // What is mounted may be a part of the tree: a container's own group.
        if (!root.equals("/") && inside.startsWith(root)) {
            inside = inside.substring(root.length());
        } else if (inside.startsWith("/..")) {
            inside = ""; // a group outside of what this namespace sees
        }
        List<String> folders = new ArrayList<>();
        while (!inside.isEmpty() && !inside.equals("/")) {
            folders.add(point + inside);
            inside = inside.substring(0, inside.lastIndexOf('/'));
        }
        folders.add(point);
        return folders;
    }

    private static Optional<String> membership(
            Function<String, Optional<String>> read, Version version, String controller) {
        return read.apply(MEMBERSHIP)
                .flatMap(
                        text ->
                                text.lines()
                                        .map(line -> line.split(":", 3))
                                        .filter(parts -> parts.length == 3)
                                        .filter(
                                                parts ->
                                                        version == Version.V2
                                                                ? parts[1].isEmpty()
                                                                : contains(parts[1], controller))
                                        .map(parts -> parts[2])
                                        .findFirst());
    }

    /// Lines are: id, parent, device, root, mount point, options, optional fields, `-`, type,
    /// source, options of the file system.
    private static Optional<String[]> mount(
            Function<String, Optional<String>> read, Version version, String controller) {
        return read.apply(MOUNTS)
                .flatMap(
                        text ->
                                text.lines()
                                        .filter(line -> carries(line, version, controller))
                                        .map(line -> line.split(" "))
                                        .findFirst());
    }

    private static boolean carries(String line, Version version, String controller) {
        int dash = line.indexOf(" - ");
        String[] parts = dash < 0 ? new String[0] : line.substring(dash + 3).split(" ");
        if (parts.length < 3) {
            return false;
        }
        return version == Version.V2
                ? parts[0].equals("cgroup2")
                : parts[0].equals("cgroup") && contains(parts[2], controller);
    }

    private static boolean contains(String list, String word) {
        return List.of(list.split(",")).contains(word);
    }
}
