package io.telpher.topology;

import io.telpher.internal.ffi.linux.Environment;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Looks at a machine.
final class Machine {
    /// NCCL's variable, and where clouds put such a file.
    private static final String VARIABLE = "NCCL_TOPO_FILE";

    private static final String VIRTUAL = "/var/run/nvidia-topologyd/virtualTopology.xml";

    private Machine() {}

    /// @return the machine that this runs on
    static Topology here() {
        // As NCCL sees it, whose own files may have set it after the JVM's start.
        String file = Environment.getenv(VARIABLE);
        return look(
                Path.of("/"), file == null ? Map.of() : Map.of(VARIABLE, file), new NvmlFacts());
    }

    /// @param root what stands for `/`
    static Topology look(Path root, Map<String, String> environment, GpuFacts facts) {
        List<String> remarks = new ArrayList<>();
        Element machine = new SysfsReader(root, facts).read();
        if (!hasGpu(machine, "")) {
            String why = facts.missing().map(text -> "; " + text).orElse("");
            remarks.add("no GPU: the PCI bus shows none of NVIDIA or AMD" + why);
        } else if (hasGpu(machine, SysfsReader.NVIDIA)) {
            facts.missing().ifPresent(remarks::add);
        }
        Element file = file(root, environment.getOrDefault(VARIABLE, ""), remarks);
        if (file != null) {
            try {
                return new Topology(Fusion.fuse(file, machine), remarks);
            } catch (IllegalArgumentException e) {
                remarks.add("the topology file is not used: " + e.getMessage());
            }
        }
        return new Topology(machine, remarks);
    }

    /// @param vendor empty for any
    private static boolean hasGpu(Element element, String vendor) {
        boolean here = element.child("gpu") != null && element.text("vendor").startsWith(vendor);
        return here || element.children.stream().anyMatch(child -> hasGpu(child, vendor));
    }

    /// Another program's variable: what it says wrongly is worth a remark and no more.
    private static @Nullable Element file(Path root, String named, List<String> remarks) {
        Path file = named.isBlank() ? root.resolve(VIRTUAL.substring(1)) : Path.of(named);
        String what = named.isBlank() ? file.toString() : VARIABLE + "=" + named;
        try {
            if (Files.exists(file) && !Files.isRegularFile(file)) {
                remarks.add(what + " is not used: it is no regular file"); // a pipe may say nothing
                return null;
            }
            if (Files.size(file) > XmlReader.MAX_CHARACTERS) {
                remarks.add(what + " is not used: it is too large for a topology");
                return null;
            }
            return XmlReader.parse(Files.readString(file));
        } catch (NoSuchFileException e) {
            if (!named.isBlank()) {
                remarks.add(what + " is not used: there is no such file");
            }
        } catch (IOException | IllegalArgumentException e) {
            remarks.add(what + " is not used: " + e.getMessage());
        }
        return null;
    }
}
