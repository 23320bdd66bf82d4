package io.telpher.topology;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/// A machine that nobody would build: whatever the XML can say, at random.
final class RandomMachine {
    private static final List<String> SPEEDS =
            List.of("", "2.5 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe");
    private static final int[] CAPABILITIES = {0, 61, 70, 80, 86, 90, 100, 121};

    private final Random random;
    private final Element system = Element.system();
    private final List<Element> gpus = new ArrayList<>();
    private final List<String> gpuAddresses = new ArrayList<>();
    private final List<Element> switches = new ArrayList<>();
    private int bus;
    private int nets;

    RandomMachine(Random random) {
        this.random = random;
    }

    Element system() {
        int numaNodes = 1 + random.nextInt(3);
        for (int numa = 0; numa < numaNodes; numa++) {
            Element cpu =
                    system.add(new Element("cpu"))
                            .with("numaid", numa - (random.nextInt(6) == 0 ? 1 : 0) * 10)
                            .with("affinity", Integer.toHexString(random.nextInt()))
                            .with("arch", random.nextBoolean() ? "x86_64" : "arm64")
                            .with("vendor", random.nextBoolean() ? "GenuineIntel" : "AuthenticAMD")
                            .with("familyid", 6)
                            .with("modelid", random.nextInt(256));
            if (random.nextInt(5) == 0) {
                cpu.with("host_hash", "0x" + random.nextInt(2));
            }
            devices(cpu, 2);
        }
        gpus.forEach(this::links);
        for (Element bridge : switches) {
            if (random.nextInt(8) == 0) {
                String target = pick(switches).text("busid");
                bridge.add(new Element("pcilink").with("target", target));
            }
        }
        return system;
    }

    private <T> T pick(List<T> all) {
        return all.get(random.nextInt(all.size()));
    }

    private void devices(Element parent, int depth) {
        int count = random.nextInt(4);
        for (int i = 0; i < count; i++) {
            Element pci =
                    parent.add(new Element("pci"))
                            .with("busid", "0000:%02x:00.0".formatted(++bus))
                            .with("class", "0x000000")
                            .with("link_speed", pick(SPEEDS))
                            .with("link_width", 1 << random.nextInt(5));
            switch (random.nextInt(depth > 0 ? 4 : 2)) {
                case 0 -> gpu(pci);
                case 1 -> nic(pci);
                default -> {
                    switches.add(pci);
                    devices(pci, depth - 1);
                }
            }
        }
    }

    private void gpu(Element pci) {
        Element gpu = pci.add(new Element("gpu")).with("dev", gpus.size());
        gpu.with("sm", CAPABILITIES[random.nextInt(CAPABILITIES.length)]);
        gpus.add(gpu);
        gpuAddresses.add(pci.text("busid"));
        if (random.nextInt(10) == 0) {
            pci.add(new Element("gpu")).with("dev", 100 + gpus.size());
        }
    }

    private void nic(Element pci) {
        Element nic = pci.add(new Element("nic"));
        int ports = 1 + random.nextInt(2);
        for (int i = 0; i < ports; i++) {
            nic.add(new Element("net"))
                    .with("name", "mlx5_" + nets++)
                    .with("speed", 1000L * random.nextInt(400));
        }
    }

    private void links(Element gpu) {
        int count = random.nextInt(3);
        for (int i = 0; i < count; i++) {
            Element link = gpu.add(new Element("nvlink")).with("count", 1 + random.nextInt(6));
            switch (random.nextInt(6)) {
                case 0 -> link.with("target", "fffffff:ffff:ff").with("tclass", "0x068000");
                case 1 -> link.with("target", "0000:ff:00.0").with("tclass", "0x068001");
                default -> link.with("target", pick(gpuAddresses)).with("tclass", "0x030200");
            }
        }
        if (random.nextInt(4) == 0) {
            gpu.add(new Element("c2c").with("bw", 20_000).with("count", 10));
        }
    }
}
