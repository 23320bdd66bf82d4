package io.telpher.cli.doctor;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Stream;

/// A machine as the checks see it: the real one, or a folder with what was recorded of another.
///
/// @param root what stands for `/`
/// @param environment the environment variables
/// @param nics the network interfaces that are up
/// @param probes what can only be known by trying
record Host(Path root, Map<String, String> environment, List<Nic> nics, Probes probes) {
    /// @return the machine that this runs on
    static Host here() {
        return new Host(Path.of("/"), System.getenv(), Nic.here(), new LiveProbes());
    }

    private Path at(String path) {
        return root.resolve(path.substring(1));
    }

    /// @param path an absolute path
    /// @return the stripped text; empty when there is no such file or it cannot be read
    Optional<String> read(String path) {
        try {
            return Optional.of(new String(content(path), StandardCharsets.UTF_8).strip());
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    /// @return the file's bytes, as many as the kernel shows; none when it cannot be read
    byte[] bytes(String path) {
        try {
            return content(path);
        } catch (IOException e) {
            return new byte[0];
        }
    }

    /// Begins with a large read. Of a list such as `tcp_rmem` the kernel shows whoever reads a byte
    /// first that byte alone, and [Files#readString] begins so where a file seems to be empty.
    private byte[] content(String path) throws IOException {
        try (InputStream in = Files.newInputStream(at(path))) {
            return in.readAllBytes();
        }
    }

    /// @return whether there is such a file or folder
    boolean exists(String path) {
        return Files.exists(at(path));
    }

    /// @return the number that the file holds; empty when it holds anything else
    OptionalLong number(String path) {
        String text = read(path).orElse("");
        return text.matches("-?\\d{1,18}")
                ? OptionalLong.of(Long.parseLong(text))
                : OptionalLong.empty();
    }

    /// @return sorted names in a folder; none when there is no such folder
    List<String> list(String folder) {
        try (Stream<Path> files = Files.list(at(folder))) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        } catch (IOException e) {
            return List.of();
        }
    }

    /// @return where a symbolic link leads
    Optional<String> link(String path) {
        try {
            return Optional.of(Files.readSymbolicLink(at(path)).toString());
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    /// @return the value of a line `name: value` of a file such as `/proc/self/status`
    Optional<String> field(String path, String name) {
        return read(path)
                .flatMap(
                        text ->
                                text.lines()
                                        .filter(line -> line.startsWith(name + ":"))
                                        .map(line -> line.substring(name.length() + 1).strip())
                                        .findFirst());
    }

    /// @return `file = value`, the form of evidence
    String evidence(String path) {
        return path + " = " + read(path).map(Host::onOneLine).orElse("(not there)");
    }

    private static String onOneLine(String text) {
        return text.replaceAll("\\s+", " ");
    }
}
