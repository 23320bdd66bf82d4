package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The virtual environment of the Python peers, in the user's cache folder: makes it, and finds
/// what is in it. What is installed is pinned in `peers/NAME.txt`, and pip fetches it from the
/// index that it is set up for.
final class PeerInstall {
    private static final List<String> SCRIPTS =
            List.of(
                    "buffers.py",
                    "pair.py",
                    "nixl_peer.py",
                    "mooncake_peer.py",
                    "uccl_peer.py",
                    "nccl_peer.py",
                    "matmul_load.py");

    private static final int VENV_SECONDS = 180;
    private static final int PIP_SECONDS = 1800;
    private static final String VENV_REMEDY = "install it (Debian: apt-get install python3-venv)";

    private final Path folder;

    /// @param folder where the environment is, or is to be
    PeerInstall(Path folder) {
        this.folder = folder;
    }

    /// @return the user's
    static PeerInstall ofUser() {
        String cache = System.getenv("XDG_CACHE_HOME");
        Path base =
                cache == null || cache.isEmpty()
                        ? Path.of(System.getProperty("user.home"), ".cache")
                        : Path.of(cache);
        return new PeerInstall(base.resolve("telpher").resolve("peers"));
    }

    /// Checks names that a user wrote.
    ///
    /// @return them, or all for `all`
    /// @throws IllegalArgumentException when one is no Python peer
    static List<String> names(List<String> wanted) {
        if (wanted.equals(List.of("all"))) {
            return PythonPeer.NAMES;
        }
        for (String name : wanted) {
            if (!PythonPeer.NAMES.contains(name)) {
                throw new IllegalArgumentException(
                        "'%s' cannot be installed here, only %s, or all; %s"
                                .formatted(
                                        name,
                                        String.join(", ", PythonPeer.NAMES),
                                        "ucx and iperf3 are packages of the distribution"));
            }
        }
        return wanted;
    }

    private Path python() {
        return folder.resolve("bin").resolve("python");
    }

    /// Looks for a peer: in the environment, and where that was not made, in the `python3` on the
    /// `PATH`, which `PYTHONPATH` may lead to packages.
    ///
    /// @param missing gets the reason when it is not there
    /// @return the peer, or null
    @Nullable PythonPeer find(String name, List<Integer> cores, List<String> missing) {
        boolean own = !name.equals(PythonPeer.NCCL) && Files.isExecutable(python());
        String remedy =
                own || name.equals(PythonPeer.NCCL)
                        ? ""
                        : "; run telpher bench --install-peers " + name;
        String python = own ? python().toString() : Tool.find("python3");
        if (python == null) {
            missing.add(name + ": python3 is missing" + remedy);
            return null;
        }
        PythonPeer peer = new PythonPeer(name, Path.of(python), unpack(name + "_peer.py"), cores);
        String reason = peer.probe();
        if (reason != null) {
            missing.add(name + ": " + reason + remedy);
            return null;
        }
        return peer;
    }

    /// @return the script that keeps GPUs busy; it takes the `python3` on the `PATH`
    Path matrixProducts() {
        return unpack("matmul_load.py");
    }

    /// Installs peers, and tries whether they can run here. Can be repeated, also after it was
    /// interrupted.
    ///
    /// @param named whether the user named them, so that each of them must be there in the end
    /// @throws BenchFailure when one that was named cannot run here, or when none can
    void install(List<String> names, boolean named, Table table) {
        table.remark("virtual environment: " + folder);
        environment();
        List<String> ready = new ArrayList<>();
        List<String> missing = new ArrayList<>();
        for (String name : names) {
            String failure = pip(name, table);
            if (failure != null) {
                missing.add(name + ": " + failure);
            } else if (find(name, List.of(), missing) != null) {
                ready.add(name);
                table.remark(name + ": ready");
            }
        }
        if (ready.isEmpty() || (named && !missing.isEmpty())) {
            throw new BenchFailure("not ready: " + String.join("; ", missing));
        }
        missing.forEach(table::remark);
        table.remark("compare with: telpher bench --compare " + String.join(",", ready));
    }

    private void environment() {
        if (Files.isExecutable(python()) && run(10, "-m", "pip", "--version").exitCode() == 0) {
            return;
        }
        String python = Tool.find("python3");
        if (python == null) {
            throw new BenchFailure(
                    "python3 is missing: install it (Debian: apt-get install python3 python3-venv)");
        }
        List<String> old =
                List.of(python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))");
        if (Tool.run(old, Map.of(), VENV_SECONDS).exitCode() != 0) {
            throw new BenchFailure(python + " is older than 3.10: put a newer python3 on the PATH");
        }
        List<String> command =
                List.of(python, "-m", "venv", "--clear", folder.toAbsolutePath().toString());
        Tool.Output output = Tool.run(command, Map.of(), VENV_SECONDS);
        if (output.exitCode() != 0) {
            String text = output.text() + output.error();
            boolean module = text.contains("ensurepip") || text.contains("No module named venv");
            throw new BenchFailure(
                    module
                            ? "python3's module venv is missing: " + VENV_REMEDY
                            : "%s ended with exit code %d: %s"
                                    .formatted(
                                            String.join(" ", command),
                                            output.exitCode(),
                                            text.strip()));
        }
    }

    /// @return why it did not succeed, or null
    private @Nullable String pip(String name, Table table) {
        String pins = resource(name + ".txt");
        table.remark(
                "%s: pip installs %s"
                        .formatted(
                                name,
                                String.join(
                                        ", ",
                                        pins.lines().filter(l -> !l.startsWith("#")).toList())));
        Tool.Output output =
                run(
                        PIP_SECONDS,
                        "-m",
                        "pip",
                        "install",
                        "--disable-pip-version-check",
                        "--no-input",
                        "--quiet",
                        "--no-deps",
                        "--only-binary",
                        ":all:",
                        "-r",
                        unpack(name + ".txt").toString());
        if (output.exitCode() == 0) {
            return null;
        }
        if (output.exitCode() == 124) {
            return "pip did not end within " + PIP_SECONDS + " s";
        }
        String error =
                output.error()
                        .lines()
                        .filter(l -> l.startsWith("ERROR:"))
                        .reduce((a, b) -> b)
                        .orElse(output.error())
                        .strip();
        return "pip found no package that fits %s on %s: %s"
                .formatted(
                        run(10, "--version").text().strip(), System.getProperty("os.arch"), error);
    }

    private Tool.Output run(int seconds, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(python().toString());
        command.addAll(List.of(arguments));
        return Tool.run(command, Map.of(), seconds);
    }

    /// Puts the scripts beside the environment, unless they are there already.
    ///
    /// @return the path of the one that is asked for
    private Path unpack(String wanted) {
        Path scripts = folder.resolve("telpher");
        try {
            Files.createDirectories(scripts);
            for (String name : SCRIPTS) {
                put(scripts.resolve(name), resource(name));
            }
            Path file = scripts.resolve(wanted);
            put(file, resource(wanted));
            return file;
        } catch (IOException e) {
            throw new BenchFailure("cannot write to " + scripts + ": " + e.getMessage(), e);
        }
    }

    /// In one step: another run may be reading it.
    private static void put(Path file, String text) throws IOException {
        if (Files.exists(file) && Files.readString(file).equals(text)) {
            return;
        }
        Path fresh = Files.createTempFile(file.getParent(), ".telpher", "");
        Files.writeString(fresh, text);
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
    }

    private static String resource(String name) {
        try (InputStream in = PeerInstall.class.getResourceAsStream("peers/" + name)) {
            if (in == null) {
                throw new BenchFailure("this build lacks its resource peers/" + name);
            }
            return new String(in.readAllBytes(), UTF_8);
        } catch (IOException e) {
            throw new BenchFailure("cannot read the resource peers/" + name, e);
        }
    }
}
