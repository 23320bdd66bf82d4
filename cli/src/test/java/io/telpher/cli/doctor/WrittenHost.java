package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.doctor.Finding.Severity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.io.TempDir;

/// Tests of checks on a machine that the test writes, file by file.
abstract class WrittenHost {
    @TempDir Path folder;

    final FakeProbes probes = new FakeProbes();
    final Map<String, String> environment = new HashMap<>();
    List<Nic> nics = List.of();

    /// @return where a file of the machine is, in a folder that is there
    final Path at(String path) throws IOException {
        Path file = folder.resolve(path.substring(1));
        Files.createDirectories(file.getParent());
        return file;
    }

    final void write(String path, String text) throws IOException {
        Files.writeString(at(path), text);
    }

    /// Plugs a device in.
    ///
    /// @param kind its class, `0x030200` for a GPU
    /// @param config its configuration space
    final void pci(String address, String kind, String vendor, byte[] config) throws IOException {
        write("/sys/bus/pci/devices/" + address + "/class", kind + "\n");
        write("/sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
        Files.write(at("/sys/bus/pci/devices/" + address + "/config"), config);
    }

    final List<Finding> examine(Check check) {
        List<Finding> found =
                check.examine(new Host(folder, Map.copyOf(environment), nics, probes));
        assertThat(found).isNotEmpty().allMatch(f -> f.check().equals(check.name()));
        return found;
    }

    static List<Finding> wrong(List<Finding> all) {
        return all.stream().filter(f -> f.severity() != Severity.INFO).toList();
    }

    /// @return the one finding that is not info
    final Finding onlyWrong(Check check) {
        List<Finding> wrong = wrong(examine(check));
        assertThat(wrong).hasSize(1);
        assertThat(wrong.getFirst().remedy()).isNotBlank();
        assertThat(wrong.getFirst().verify()).isNotBlank();
        return wrong.getFirst();
    }
}
