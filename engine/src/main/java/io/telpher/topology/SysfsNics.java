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
            String netdev = netdev(link, port, number);
            taken.add(netdev);
            Element net =
                    rdmaPort(link, port)
                            .with("name", ports.size() == 1 ? name : name + ":" + number)
                            .withKnown("guid", guid(sysfs.text(link.resolve("sys_image_guid"))))
                            .withKnown("netdev", netdev)
                            .with("function", chain.address(chain.size() - 1).toString());
            found.add(new Found(chain, -1, net));
        }
    }

    /// What an RDMA device says of a port.
    private Element rdmaPort(Path device, Path port) {
        boolean infiniband = sysfs.text(port.resolve("link_layer")).equals("InfiniBand");
        int lid = infiniband ? sysfs.hexadecimal(port.resolve("lid")) : 0;
        return new Element("net")
                .withKnown("speed", megabits(sysfs.text(port.resolve("rate"))))
                .with("fabric", fabric(device, infiniband))
                .with("state", active(port) ? "up" : "down")
                .withKnown("lid", lid == 0 ? "" : "" + lid)
                .withKnown("gids", Gid.write(SysfsGids.read(sysfs, port, infiniband)));
    }

    /// Of the types of nodes only channel adapters, 1, have the queue pairs of InfiniBand: iWARP's
    /// are 4, usNIC's 5 and 6, EFA's 7.
    private String fabric(Path device, boolean infiniband) {
        String type = sysfs.text(device.resolve("node_type"));
        if (!type.isEmpty() && !type.startsWith("1:")) {
            return "rdma";
        }
        return infiniband ? "infiniband" : "roce";
    }

    private boolean active(Path port) {
        return sysfs.text(port.resolve("state")).endsWith("ACTIVE");
    }

    /// RDMA in software on top of an interface: a name of that interface's port, which counts also
    /// where the interface itself is software.
    private void software(Path link, String name) {
        String netdev = sysfs.text(link.resolve("parent"));
        if (!netdev.matches("[^/\\s]+")) {
            return;
        }
        taken.add(netdev);
        Path device = sysfs.at(NET).resolve(netdev);
        PciChain chain = PciChain.of(sysfs.devicePath(device.resolve("device")));
        Element net =
                rdmaPort(link, link.resolve("ports/1")).with("name", name).with("netdev", netdev);
        int speed = sysfs.number(device.resolve("speed"), -1);
        if (speed > 0) {
            net.with("speed", speed); // the device in software claims one of its own
        }
        if (chain.size() > 0) {
            net.with("function", chain.address(chain.size() - 1).toString());
        }
        found.add(new Found(chain, sysfs.number(device.resolve("device/numa_node"), -1), net));
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
            interfacePort(link, name);
        }
    }

    private void interfacePort(Path link, String name) {
        List<String> device = sysfs.devicePath(link.resolve("device"));
        if (device.isEmpty() || !TYPES.contains(sysfs.number(link.resolve("type"), 0))) {
            return;
        }
        PciChain chain = PciChain.of(device);
        int speed = sysfs.number(link.resolve("speed"), -1);
        int numa = sysfs.number(link.resolve("device/numa_node"), -1);
        Element net =
                new Element("net")
                        .with("name", name)
                        .withKnown("speed", speed > 0 ? "" + speed : "")
                        .withKnown("guid", guid(sysfs.text(link.resolve("phys_switch_id"))))
                        .with("netdev", name)
                        .with("fabric", "ethernet")
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
