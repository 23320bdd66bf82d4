package io.telpher.topology;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// Makes the elements of NUMA nodes. Used once, by one thread.
final class SysfsCpus {
    private static final String NODES = "/sys/devices/system/node";

    private final Sysfs sysfs;
    private final Map<Integer, Element> nodes = new TreeMap<>();
    private final Element system;

    SysfsCpus(Sysfs sysfs, Element system) {
        this.sysfs = sysfs;
        this.system = system;
        List<Integer> online = online();
        for (int node : online) {
            // Memory alone, as that of a GPU, is no place for threads.
            if (!cpus(node).isEmpty()) {
                element(node);
            }
        }
        if (nodes.isEmpty()) {
            element(0); // a kernel without NUMA, or a container without /sys
        }
    }

    private List<Integer> online() {
        List<Integer> numbers = new ArrayList<>();
        for (Path folder : sysfs.list(sysfs.at(NODES))) {
            String name = folder.getFileName().toString();
            if (name.matches("node\\d{1,5}")) {
                numbers.add(Integer.parseInt(name.substring(4)));
            }
        }
        return numbers.stream().sorted().toList();
    }

    private CpuSet cpus(int node) {
        return list(sysfs.text(NODES + "/node" + node + "/cpulist"));
    }

    private static CpuSet list(String text) {
        try {
            return CpuSet.parseList(text);
        } catch (IllegalArgumentException e) {
            return CpuSet.NONE;
        }
    }

    /// @param numa the node's number, or -1 for devices whose node nobody knows
    private Element element(int numa) {
        CpuSet cpus = cpus(numa);
        if (cpus.isEmpty() && nodes.isEmpty()) {
            cpus = list(sysfs.text("/sys/devices/system/cpu/online"));
        }
        Element cpu =
                new Element("cpu")
                        .with("numaid", numa)
                        .with("affinity", cpus.mask())
                        .with("arch", arch());
        if (arch().equals("x86_64")) {
            int family = cpuinfo("cpu family");
            cpu.with("vendor", sysfs.field("/proc/cpuinfo", "vendor_id").orElse(""))
                    .with("familyid", cpuidFamily(family))
                    .with("modelid", cpuinfo("model"));
        }
        cpu.withKnown("modelname", sysfs.field("/proc/cpuinfo", "model name").orElse(""));
        cpu.withKnown("distances", distances(numa));
        nodes.put(numa, cpu);
        system.children.clear();
        system.children.addAll(nodes.values());
        return cpu;
    }

    /// The kernel adds CPUID's extended family to the base family, NCCL shifts it.
    private static int cpuidFamily(int family) {
        return family > 15 ? 15 + ((family - 15) << 4) : family;
    }

    private int cpuinfo(String name) {
        String text = sysfs.field("/proc/cpuinfo", name).orElse("");
        return text.matches("\\d{1,6}") ? Integer.parseInt(text) : 0;
    }

    /// By what the kernel says, which may be that of another machine.
    private String arch() {
        if (sysfs.field("/proc/cpuinfo", "vendor_id").isPresent()) {
            return "x86_64";
        }
        if (sysfs.field("/proc/cpuinfo", "CPU implementer").isPresent()) {
            return "arm64";
        }
        String here = System.getProperty("os.arch");
        return switch (here) {
            case "amd64" -> "x86_64";
            case "aarch64" -> "arm64";
            case "ppc64le" -> "ppc64";
            default -> here;
        };
    }

    private String distances(int numa) {
        String[] values = sysfs.text(NODES + "/node" + numa + "/distance").split("\\s+");
        List<Integer> online = online();
        if (values.length != online.size()) {
            return "";
        }
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < values.length; i++) {
            text.append(i == 0 ? "" : " ").append(online.get(i)).append(':').append(values[i]);
        }
        return text.toString();
    }

    /// @return the element of the node that a device is attached to. Where the kernel does not
    ///     know it: the only one, or the one whose CPUs are the device's, or else -1
    Element of(int numa, String localCpus) {
        Element known = nodes.get(numa);
        if (known != null) {
            return known;
        }
        if (numa < 0) {
            if (nodes.size() == 1) {
                return nodes.values().iterator().next();
            }
            String mask = list(localCpus).mask();
            for (Element node : nodes.values()) {
                if (node.text("affinity").equals(mask)) {
                    return node;
                }
            }
        }
        return element(Math.max(-1, numa));
    }

    /// @return the first node
    Element first() {
        return nodes.values().iterator().next();
    }
}
