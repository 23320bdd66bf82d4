package io.telpher.topology;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/// Reads what the kernel says in small files. Whatever cannot be read says nothing: containers
/// hide parts, and devices come and go.
///
/// @param root what stands for `/`
record Sysfs(Path root) {
    /// @param path an absolute path
    Path at(String path) {
        return root.resolve(path.substring(1));
    }

    /// @return the file's stripped text; empty when it cannot be read
    String text(Path file) {
        try {
            return Files.readString(file).strip();
        } catch (IOException | UnsupportedOperationException e) {
            return ""; // also where the driver answers "not supported"
        }
    }

    String text(String path) {
        return text(at(path));
    }

    /// @return the number in a file; the fallback when there is none
    int number(Path file, int fallback) {
        String text = text(file);
        return text.matches("-?\\d{1,9}") ? Integer.parseInt(text) : fallback;
    }

    /// @return the number in a file such as `0x1f`; 0 when there is none
    int hexadecimal(Path file) {
        String text = text(file);
        return text.matches("0x\\p{XDigit}{1,7}") ? Integer.decode(text) : 0;
    }

    /// @return the entries of a folder by name; none when it cannot be read
    List<Path> list(Path folder) {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted().toList();
        } catch (IOException e) {
            return List.of();
        }
    }

    /// @return names in the kernel's tree of devices from `/sys/devices` down to where a link
    ///     leads; empty when it leads elsewhere
    List<String> devicePath(Path link) {
        try {
            Path devices = at("/sys/devices").toRealPath();
            Path real = link.toRealPath();
            if (!real.startsWith(devices) || real.equals(devices)) {
                return List.of();
            }
            List<String> names = new ArrayList<>();
            devices.relativize(real).forEach(name -> names.add(name.toString()));
            return names;
        } catch (IOException | InvalidPathException e) {
            return List.of();
        }
    }

    /// @return the value of the first line `name : value`, as in `/proc/cpuinfo`
    Optional<String> field(String path, String name) {
        return text(path)
                .lines()
                .filter(line -> line.contains(":"))
                .filter(line -> line.substring(0, line.indexOf(':')).strip().equals(name))
                .map(line -> line.substring(line.indexOf(':') + 1).strip())
                .findFirst();
    }
}
