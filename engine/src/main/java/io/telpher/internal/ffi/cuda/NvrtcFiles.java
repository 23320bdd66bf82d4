package io.telpher.internal.ffi.cuda;

import io.telpher.internal.ffi.linux.Environment;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Where NVRTC may be: in the loader's own places, in CUDA toolkits, and in the packages that PyPI
/// serves, which frameworks bring along.
final class NvrtcFiles {
    private static final List<Integer> MAJORS = List.of(13, 12, 11);

    private NvrtcFiles() {}

    /// Sonames and files, best first: of the newest major version that the driver takes.
    static List<String> candidates() {
        int driver =
                Cuda.availability() instanceof Availability.Available
                        ? Cuda.driverVersion() / 1000
                        : Integer.MAX_VALUE;
        List<Path> folders = folders();
        List<String> candidates = new ArrayList<>();
        for (int major : order(driver)) {
            String name = "libnvrtc.so." + (major == 11 ? "11.2" : major);
            candidates.add(name);
            folders.stream()
                    .map(folder -> folder.resolve(name))
                    .filter(Files::exists)
                    .map(Path::toString)
                    .forEach(candidates::add);
        }
        return candidates;
    }

    /// Majors that the driver takes before those that it does not, newer before older.
    static List<Integer> order(int driver) {
        return MAJORS.stream()
                .sorted(Comparator.comparing((Integer major) -> major > driver))
                .toList();
    }

    private static List<Path> folders() {
        List<Path> folders = new ArrayList<>();
        Stream.of("CUDA_HOME", "CUDA_PATH")
                .map(Environment::getenv)
                .filter(value -> value != null && !value.isEmpty())
                .forEach(value -> folders.add(Path.of(value, "lib64")));
        folders.add(Path.of("/usr/local/cuda/lib64"));
        for (Path toolkit : list(Path.of("/usr/local"), "cuda-*")) {
            folders.add(toolkit.resolve("lib64"));
        }
        folders.add(Path.of("/opt/cuda/lib64"));
        @Nullable String conda = Environment.getenv("CONDA_PREFIX");
        if (conda != null) {
            folders.add(Path.of(conda, "lib"));
        }
        for (Path packages : pythonPackages()) {
            folders.add(packages.resolve("nvidia/cu13/lib"));
            folders.add(packages.resolve("nvidia/cuda_nvrtc/lib"));
        }
        return folders;
    }

    /// Folders that Python packages are installed in, whether they exist or not.
    static List<Path> pythonPackages() {
        List<Path> prefixes = new ArrayList<>();
        Stream.of("VIRTUAL_ENV", "CONDA_PREFIX")
                .map(Environment::getenv)
                .filter(value -> value != null && !value.isEmpty())
                .forEach(value -> prefixes.add(Path.of(value)));
        prefixes.add(Path.of(System.getProperty("user.home"), ".local"));
        prefixes.add(Path.of("/usr/local"));
        prefixes.add(Path.of("/usr"));
        List<Path> packages = new ArrayList<>();
        for (Path prefix : prefixes) {
            for (Path python : list(prefix.resolve("lib"), "python3*")) {
                packages.add(python.resolve("site-packages"));
                packages.add(python.resolve("dist-packages"));
            }
        }
        return packages;
    }

    /// In order of name, so that the choice does not depend on the file system.
    private static List<Path> list(Path folder, String pattern) {
        List<Path> found = new ArrayList<>();
        if (Files.isDirectory(folder)) {
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder, pattern)) {
                entries.forEach(found::add);
            } catch (IOException e) {
                // A folder that may not be read has nothing for us.
                return List.of();
            }
        }
        found.sort(Comparator.reverseOrder());
        return found;
    }
}
