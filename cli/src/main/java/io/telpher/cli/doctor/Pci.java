package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;

/// A device or bridge on the PCI bus, as `/sys` shows it.
///
/// @param address such as `0000:3b:00.0`
/// @param kind class, subclass and interface: `0x030200`
/// @param vendor `0x10de`
/// @param config the configuration space: 64 bytes of it without `CAP_SYS_ADMIN`
record Pci(String address, String kind, String vendor, byte[] config) {
    static final String DEVICES = "/sys/bus/pci/devices";
    static final String INFINIBAND = "/sys/class/infiniband";
    static final String NVIDIA = "0x10de";

    /// What the kernel shows to everybody.
    static final int HEADER = 64;

    private static final String AMD = "0x1002";
    private static final int SECONDARY_BUS = 0x19;
    private static final int SUBORDINATE_BUS = 0x1a;
    private static final int EXTENDED = 0x100;
    private static final int MOST = 96;

    static List<Pci> all(Host host) {
        List<Pci> all = new ArrayList<>();
        for (String address : host.list(DEVICES)) {
            String at = DEVICES + "/" + address + "/";
            all.add(
                    new Pci(
                            address,
                            host.read(at + "class").orElse(""),
                            host.read(at + "vendor").orElse(""),
                            host.bytes(at + "config")));
        }
        return all;
    }

    static List<Pci> gpus(Host host) {
        return all(host).stream().filter(Pci::isGpu).toList();
    }

    /// @return GPUs, and the cards of RDMA devices: what reads and writes each other's memory
    static List<Pci> peers(Host host) {
        List<String> cards = new ArrayList<>();
        for (String device : host.list(INFINIBAND)) {
            host.link(INFINIBAND + "/" + device + "/device")
                    .map(link -> link.substring(link.lastIndexOf('/') + 1))
                    .ifPresent(cards::add);
        }
        return all(host).stream().filter(d -> d.isGpu() || cards.contains(d.address)).toList();
    }

    boolean isGpu() {
        return (kind.startsWith("0x03") || kind.startsWith("0x12"))
                && (vendor.equals(NVIDIA) || vendor.equals(AMD));
    }

    boolean isNvSwitch() {
        return kind.startsWith("0x0680") && vendor.equals(NVIDIA);
    }

    /// @return whether the other one is somewhere below this bridge
    boolean isAbove(Pci other) {
        if (!kind.startsWith("0x0604")
                || config.length < HEADER
                || !domain().equals(other.domain())) {
            return false;
        }
        int bus = Integer.parseInt(other.address.split(":")[1], 16);
        return bus >= Byte.toUnsignedInt(config[SECONDARY_BUS])
                && bus <= Byte.toUnsignedInt(config[SUBORDINATE_BUS]);
    }

    private String domain() {
        return address.substring(0, address.indexOf(':'));
    }

    /// @return whether the kernel shows more than the header to this process
    boolean isReadable() {
        return config.length > HEADER;
    }

    /// @param id of an extended capability
    /// @return its first byte in the configuration space, 0 when there is none
    int extended(int id) {
        int at = EXTENDED;
        for (int i = 0; i < MOST && at >= EXTENDED && at + 8 <= config.length; i++) {
            int header = word(at) | word(at + 2) << 16;
            if ((header & 0xffff) == id) {
                return at;
            }
            at = header >>> 20 & 0xffc;
        }
        return 0;
    }

    /// @return 16 bits of the configuration space
    int word(int at) {
        return Byte.toUnsignedInt(config[at]) | Byte.toUnsignedInt(config[at + 1]) << 8;
    }
}
