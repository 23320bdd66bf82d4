package io.telpher.topology;

import io.telpher.topology.SysfsNics.Found;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// Walks the kernel's tree of PCI devices and makes the elements that NCCL would make of it: GPUs,
/// network cards, and the switches above them. Used once, by one thread.
final class SysfsReader {
    private static final String DEVICES = "/sys/bus/pci/devices";
    static final String NVIDIA = "0x10de";
    private static final String AMD = "0x1002";

    /// What NCCL writes for the end of an NVLink that a virtual machine does not show.
    private static final String HIDDEN = "fffffff:ffff:ff";

    private final Sysfs sysfs;
    private final GpuFacts facts;
    private final Element system = Element.system();
    private final SysfsCpus cpus;
    private final Map<PciAddress, Element> made = new LinkedHashMap<>();

    SysfsReader(Path root, GpuFacts facts) {
        sysfs = new Sysfs(root);
        this.facts = facts;
        cpus = new SysfsCpus(sysfs, system);
    }

    Element read() {
        Map<PciAddress, GpuFacts.Fact> known = new TreeMap<>();
        facts.gpus().forEach(fact -> known.put(fact.address(), fact));
        Map<PciAddress, GpuFacts.@Nullable Fact> gpus = new TreeMap<>();
        for (Path device : sysfs.list(sysfs.at(DEVICES))) {
            String name = device.getFileName().toString();
            if (PciAddress.matches(name) && isGpu(device)) {
                gpus.put(PciAddress.parse(name), null);
            }
        }
        gpus.putAll(known);
        gpus.forEach((address, fact) -> gpu(pci(address), fact));
        for (Found port : new SysfsNics(sysfs).find()) {
            nicOf(port).add(port.net());
        }
        sort(system);
        return system;
    }

    private static void sort(Element parent) {
        List<Element> sorted = new ArrayList<>(parent.children);
        // By address, as NCCL does; what has none stays in front.
        sorted.sort((one, other) -> order(one, other));
        parent.children.clear();
        parent.children.addAll(sorted);
        parent.children.forEach(SysfsReader::sort);
    }

    private static int order(Element one, Element other) {
        String left = one.text("busid");
        String right = other.text("busid");
        if (left.isEmpty() || right.isEmpty()) {
            return Boolean.compare(!left.isEmpty(), !right.isEmpty());
        }
        return PciAddress.parse(left).compareTo(PciAddress.parse(right));
    }

    /// Displays and accelerators (`0x1200`) of vendors whose GPUs compute; not the VGA console of a
    /// server's management controller.
    private boolean isGpu(Path device) {
        String type = sysfs.text(device.resolve("class"));
        String vendor = sysfs.text(device.resolve("vendor"));
        return (type.startsWith("0x03") || type.startsWith("0x1200"))
                && (vendor.equals(NVIDIA) || vendor.equals(AMD));
    }

    private Element pci(PciAddress address) {
        List<String> path = sysfs.devicePath(sysfs.at(DEVICES).resolve(address.toString()));
        Element element = pci(PciChain.of(path));
        if (element != null) {
            return element;
        }
        // The library knows it although the bus does not show it.
        Element alone =
                new Element("pci")
                        .with("busid", address.toString())
                        .with("class", "0x030000")
                        .with("link_speed", "")
                        .with("link_width", 0);
        return made.computeIfAbsent(address, key -> cpus.of(-1, "").add(alone));
    }

    /// @return the element of the chain's last device, with all that is above it
    private @Nullable Element pci(PciChain chain) {
        Element parent = null;
        for (int i = 0; i < chain.size(); i++) {
            if (i < chain.size() - 1 && !PciChain.isSwitch(i)) {
                continue;
            }
            PciAddress address = chain.address(i);
            Element element = made.get(address);
            if (element == null) {
                element = device(chain, i);
                made.put(address, element);
                if (parent == null) {
                    element.withKnown("root", chain.root());
                    numaNode(chain).add(element);
                } else {
                    parent.add(element);
                }
            }
            parent = element;
        }
        return parent;
    }

    private Element numaNode(PciChain chain) {
        Path device = folder(chain, chain.size() - 1);
        int numa = sysfs.number(folder(chain, 0).resolve("numa_node"), -1);
        if (numa < 0) {
            numa = sysfs.number(device.resolve("numa_node"), -1);
        }
        return cpus.of(numa, sysfs.text(device.resolve("local_cpulist")));
    }

    private Path folder(PciChain chain, int i) {
        return sysfs.at(DEVICES).resolve(chain.address(i).toString());
    }

    private Element device(PciChain chain, int i) {
        Path folder = folder(chain, i);
        Element element = new Element("pci").with("busid", chain.address(i).toString());
        for (String name :
                List.of("class", "vendor", "device", "subsystem_vendor", "subsystem_device")) {
            element.with(name, sysfs.text(folder.resolve(name)));
        }
        double speed = SysfsText.speed(sysfs.text(folder.resolve("max_link_speed")));
        int width = SysfsText.width(sysfs.text(folder.resolve("max_link_width")));
        if (i > 0) {
            Path port = folder(chain, i - 1);
            speed = least(speed, SysfsText.speed(sysfs.text(port.resolve("max_link_speed"))));
            width = (int) least(width, SysfsText.width(sysfs.text(port.resolve("max_link_width"))));
        }
        element.with("link_speed", SysfsText.speed(speed)).with("link_width", width);
        double now = SysfsText.speed(sysfs.text(folder.resolve("current_link_speed")));
        int lanes = SysfsText.width(sysfs.text(folder.resolve("current_link_width")));
        element.withKnown("current_link_speed", SysfsText.speed(now));
        element.withKnown("current_link_width", lanes == 0 ? "" : "" + lanes);
        return element.withKnown("port", i == 0 ? "" : chain.address(i - 1).toString());
    }

    /// 0 is unknown.
    private static double least(double one, double other) {
        return one == 0 || other == 0 ? Math.max(one, other) : Math.min(one, other);
    }

    private Element nicOf(Found port) {
        Element place = null;
        for (int function = 0;
                function < 8 && place == null && port.address() != null;
                function++) {
            PciAddress sibling = port.address().withFunction(function);
            Element known = made.get(sibling);
            if (known != null && known.child("nic") != null) {
                place = known;
            }
        }
        if (place == null) {
            place = pci(port.chain());
        }
        if (place == null) {
            place = port.numa() < 0 ? cpus.first() : cpus.of(port.numa(), "");
        }
        Element nic = place.child("nic");
        return nic == null ? place.add(new Element("nic")) : nic;
    }

    private void gpu(Element pci, GpuFacts.@Nullable Fact fact) {
        Element gpu = pci.add(new Element("gpu"));
        if (fact == null) {
            return;
        }
        gpu.with("dev", fact.index());
        if (fact.computeCapability() > 0) {
            gpu.with("sm", fact.computeCapability());
        }
        gpu.withKnown("uuid", fact.uuid()).withKnown("name", fact.name());
        Map<String, Element> links = new TreeMap<>();
        int down = 0;
        for (GpuFacts.NvLinkFact link : fact.links()) {
            if (!link.up()) {
                down++;
                continue;
            }
            String target = link.remote() == null ? HIDDEN : link.remote().toString();
            Element element =
                    links.computeIfAbsent(
                            target,
                            key -> new Element("nvlink").with("target", key).with("count", 0));
            element.with("count", element.number("count", 0) + 1).with("tclass", targetClass(link));
            if (link.version() > 0) {
                element.with("version", link.version());
            }
        }
        links.values().forEach(gpu::add);
        if (down > 0) {
            gpu.with("nvlinks_down", down);
        }
        C2c c2c = fact.c2c();
        if (c2c != null) {
            gpu.add(new Element("c2c").with("bw", c2c.megabytes()).with("count", c2c.count()));
        }
    }

    /// The bus knows it best; what it does not show is what the library takes it for.
    private String targetClass(GpuFacts.NvLinkFact link) {
        if (link.remote() != null) {
            Path target = sysfs.at(DEVICES).resolve(link.remote().toString());
            String shown = sysfs.text(target.resolve("class"));
            if (shown.startsWith("0x03") || shown.startsWith("0x0680")) {
                return shown;
            }
        }
        return switch (link.kind()) {
            case GPU -> "0x030200";
            case SWITCH -> "0x068000";
            case CPU -> "0x068001";
        };
    }
}
