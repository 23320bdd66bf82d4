package io.telpher.python;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Runs the tests of the Python package, on the jars that were packaged just now.
@Timeout(600)
class PytestIT {
    /// Prints how many of these can be imported.
    private static final String COUNT =
            """
            import importlib.util, sys
            if sys.version_info < (3, 9) or not importlib.util.find_spec("pytest"): sys.exit(1)
            print(sum(bool(importlib.util.find_spec(m)) for m in ("numpy", "torch")))
            """;

    /// Exits with 0 where two files of tests can run at the same time.
    private static final String XDIST =
            "import importlib.util as u; exit(u.find_spec('xdist') is None)";

    @Test
    void theTestsOfThePythonPackagePass() throws Exception {
        Path tests = Path.of("tests").toAbsolutePath();
        assumeTrue(Files.exists(tests.resolve("conftest.py")), "this is no source tree");
        String python = python();
        assumeTrue(python != null, "no Python 3.9 or newer has pytest (package python3-pytest)");
        List<String> command =
                new ArrayList<>(
                        List.of(python, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider"));
        if (new ProcessBuilder(python, "-c", XDIST).start().waitFor() == 0) {
            command.addAll(List.of("-n", "2", "--dist", "loadfile"));
        }
        command.add(tests.toString());
        Process pytest = new ProcessBuilder(command).redirectErrorStream(true).start();
        try {
            pytest.getInputStream().transferTo(System.out);
            assertThat(pytest.waitFor()).as("exit code of pytest, see its output above").isZero();
        } finally {
            pytest.destroyForcibly();
        }
    }

    /// The interpreter with most of what the tests can use: the one on the path, or the system's,
    /// for which Debian's packages are; `TELPHER_PYTHON` chooses another.
    private static String python() throws IOException, InterruptedException {
        String chosen = System.getenv("TELPHER_PYTHON");
        String best = null;
        int most = -1;
        for (String python :
                chosen != null ? List.of(chosen) : List.of("python3", "/usr/bin/python3")) {
            int found = count(python);
            if (found > most) {
                best = python;
                most = found;
            }
        }
        return best;
    }

    private static int count(String python) throws InterruptedException {
        try {
            Process process = new ProcessBuilder(python, "-c", COUNT).start();
            String out =
                    new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return process.waitFor(30, TimeUnit.SECONDS) && process.exitValue() == 0
                    ? Integer.parseInt(out.strip())
                    : -1;
        } catch (IOException _) {
            return -1; // there is no such interpreter
        }
    }
}
