package io.telpher.topology;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/// Finds the ports of network cards: those of RDMA devices, and interfaces that have a device
/// behind them. An interface of an RDMA device is one port with it. Used once.
final class SysfsNics {
    private static final String RDMA = "/sys/class/infiniband";
    private static final String NET = "/sys/class/net";
    private static final Pattern RATE = Pattern.compile("(\\d{1,5}(?:\\.\\d)?) Gb/sec.*");

    /// What the kernel calls the port of a virtual function as the physical one sees it.
    private static final Pattern REPRESENTOR = Pattern.compile("(c\\d+)?pf\\d+(vf|sf)\\d+");

    private static final Set<Integer> TYPES = Set.of(1, 32); // Ethernet, InfiniBand

    private final Sysfs sysfs;
    private final Set<String> taken = new HashSet<>();
    private final List<Found> found = new ArrayList<>();

    SysfsNics(Sysfs sysfs) {
        this.sysfs = sysfs;
    }

    /// A port and where it is.
    ///
    /// @param chain empty when it is not on the PCI bus
    /// @param numa the NUMA node where that is so; -1 when unknown
    record Found(PciChain chain, int numa, Element net) {
        @Nullable PciAddress address() {
            return chain.size() == 0 ? null : chain.address(chain.size() - 1);
        }
    }

    /// @return all ports, by address and name
    List<Found> find() {
        sysfs.list(sysfs.at(RDMA)).forEach(this::rdma);
        sysfs.list(sysfs.at(NET)).forEach(this::ethernet);
        // Stable: ports of one function stay in the order in which they were found.
        found.sort(
                Comparator.comparing(
                        Found::address, Comparator.nullsLast(Comparator.naturalOrder())));
        number();
        return found;
    }

    /// Numbers the ports of each card, over its functions: together with the GUID this names the
    /// socket in the slot's bracket, also where two PCI devices share it.
    private void number() {
        Map<String, Integer> next = new HashMap<>();
        for (Found port : found) {
            PciAddress address = port.address();
            String card = address == null ? "" : address.withFunction(0).toString();
            int number = next.merge(card + port.net().text("guid"), 1, Integer::sum);
            port.net().with("port", number);
        }
    }

    private void rdma(Path link) {
        String name = link.getFileName().toString();
        List<String> path = sysfs.devicePath(link);
        PciChain chain = PciChain.of(path);
        if (chain.size() == 0) {
            software(link, name);
            return;
        }
        List<Path> ports = sysfs.list(link.resolve("ports"));
        for (Path port : ports) {
            String number = port.getFileName().toString();
            boolean infiniband = sysfs.text(port.resolve("link_layer")).equals("InfiniBand");
            String netdev = netdev(link, port, number);
            taken.add(netdev);
            Element net =
                    new Element("net")
                            .with("name", ports.size() == 1 ? name : name + ":" + number)
                            .withKnown("speed", megabits(sysfs.text(port.resolve("rate"))))
                            .withKnown("guid", guid(sysfs.text(link.resolve("sys_image_guid"))))
                            .withKnown("netdev", netdev)
                            .with("fabric", infiniband ? "infiniband" : "roce")
                            .with("state", active(port) ? "up" : "down")
                            .with("function", chain.address(chain.size() - 1).toString());
            found.add(new Found(chain, -1, net));
        }
    }

    private boolean active(Path port) {
        return sysfs.text(port.resolve("state")).endsWith("ACTIVE");
    }

    /// RDMA in software on top of an interface: a name of that interface's port.
    private void software(Path link, String name) {
        String netdev = sysfs.text(link.resolve("parent"));
        if (netdev.matches("[^/\\s]+")) {
            taken.add(netdev);
            interfacePort(sysfs.at(NET).resolve(netdev), name, "roce");
        }
    }

    private String netdev(Path device, Path port, String number) {
        String first = sysfs.text(port.resolve("gid_attrs/ndevs/0"));
        if (!first.isEmpty()) {
            return first;
        }
        for (Path netdev : sysfs.list(device.resolve("device/net"))) {
            int devPort = sysfs.number(netdev.resolve("dev_port"), 0);
            if (Integer.toString(devPort + 1).equals(number)) {
                return netdev.getFileName().toString();
            }
        }
        return "";
    }

    private void ethernet(Path link) {
        String name = link.getFileName().toString();
        boolean representor =
                REPRESENTOR.matcher(sysfs.text(link.resolve("phys_port_name"))).matches();
        if (!taken.contains(name) && !representor) {
            interfacePort(link, name, "ethernet");
        }
    }

    private void interfacePort(Path link, String name, String fabric) {
        List<String> device = sysfs.devicePath(link.resolve("device"));
        if (device.isEmpty() || !TYPES.contains(sysfs.number(link.resolve("type"), 0))) {
            return;
        }
        String netdev = link.getFileName().toString();
        PciChain chain = PciChain.of(device);
        int speed = sysfs.number(link.resolve("speed"), -1);
        int numa = sysfs.number(link.resolve("device/numa_node"), -1);
        Element net =
                new Element("net")
                        .with("name", name)
                        .withKnown("speed", speed > 0 ? "" + speed : "")
                        .withKnown("guid", guid(sysfs.text(link.resolve("phys_switch_id"))))
                        .with("netdev", netdev)
                        .with("fabric", fabric)
                        .withKnown("state", state(sysfs.text(link.resolve("operstate"))));
        if (chain.size() > 0) {
            net.with("function", chain.address(chain.size() - 1).toString());
        }
        found.add(new Found(chain, numa, net));
    }

    private static String state(String operstate) {
        return switch (operstate) {
            case "up" -> "up";
            case "down", "lowerlayerdown", "notpresent" -> "down";
            default -> "";
        };
    }

    /// Reads `400 Gb/sec (4X NDR)`.
    private static String megabits(String rate) {
        Matcher gigabits = RATE.matcher(rate);
        return gigabits.matches()
                ? "" + Math.round(Double.parseDouble(gigabits.group(1)) * 1000)
                : "";
    }

    /// Reads `506b:4b03:00ab:cdef`, with or without colons.
    private static String guid(String text) {
        String digits = text.replace(":", "");
        return digits.matches("\\p{XDigit}{1,16}") && !digits.matches("0+") ? "0x" + digits : "";
    }
}
