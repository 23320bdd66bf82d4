package io.telpher.topology;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// Builds what the kernel shows of a machine in a folder that stands for `/`.
public final class SysfsTree {
    private final Path root;

    public SysfsTree(Path root) {
        this.root = root;
        folder("/sys/devices/system/node");
    }

    Path root() {
        return root;
    }

    private Path at(String path) {
        return root.resolve(path.substring(1));
    }

    private Path folder(String path) {
        try {
            return Files.createDirectories(at(path));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    SysfsTree file(String path, String text) {
        try {
            Files.createDirectories(at(path).getParent());
            Files.writeString(at(path), text + "\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return this;
    }

    /// A relative link, as the kernel makes them.
    SysfsTree link(String path, String target) {
        try {
            Files.createDirectories(at(path).getParent());
            Files.createSymbolicLink(at(path), at(path).getParent().relativize(at(target)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return this;
    }

    public SysfsTree numaNode(int number, String cpus, String distances) {
        String folder = "/sys/devices/system/node/node" + number;
        return file(folder + "/cpulist", cpus).file(folder + "/distance", distances);
    }

    SysfsTree intel(int model) {
        return file(
                "/proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: "
                        + model
                        + "\nmodel name\t: Some Xeon\n\nprocessor\t: 1\nmodel\t\t: 1");
    }

    /// @param path below `/sys/devices`; ends in the device's address
    public Device pci(String path, String type, String vendor) {
        String address = path.substring(path.lastIndexOf('/') + 1);
        Device device = new Device("/sys/devices/" + path, address);
        device.file("class", type).file("vendor", vendor).file("device", "0x1234");
        device.file("subsystem_vendor", vendor).file("subsystem_device", "0x0001");
        return link("/sys/bus/pci/devices/" + address, device.folder).same(device);
    }

    private Device same(Device device) {
        return device;
    }

    Device bridge(String path) {
        return pci(path, "0x060400", "0x10b5");
    }

    /// A PCI device, and what it carries.
    public final class Device {
        private final String folder;
        private final String address;

        private Device(String folder, String address) {
            this.folder = folder;
            this.address = address;
        }

        Device file(String name, String text) {
            SysfsTree.this.file(folder + "/" + name, text);
            return this;
        }

        public Device numa(int node) {
            return file("numa_node", "" + node);
        }

        Device speed(String max, int maxWidth, String now, int width) {
            return file("max_link_speed", max)
                    .file("max_link_width", "" + maxWidth)
                    .file("current_link_speed", now)
                    .file("current_link_width", "" + width);
        }

        Device speed(String max, int width) {
            return speed(max, width, max, width);
        }

        /// @param below where in the device's folder: empty, or `/virtio2`
        Device netdev(String name, String below, int speed, String state) {
            String net = folder + below + "/net/" + name;
            SysfsTree.this
                    .file(net + "/type", "1")
                    .file(net + "/speed", "" + speed)
                    .file(net + "/operstate", state)
                    .file(net + "/dev_port", "0")
                    .link(net + "/device", folder + below)
                    .link("/sys/class/net/" + name, net);
            return this;
        }

        Device rdma(String name, String guid, String layer, String rate, String... states) {
            String device = folder + "/infiniband/" + name;
            SysfsTree.this.file(device + "/sys_image_guid", guid);
            for (int port = 1; port <= states.length; port++) {
                SysfsTree.this
                        .file(device + "/ports/" + port + "/link_layer", layer)
                        .file(device + "/ports/" + port + "/rate", rate)
                        .file(device + "/ports/" + port + "/state", states[port - 1]);
            }
            SysfsTree.this
                    .link(device + "/device", folder)
                    .link("/sys/class/infiniband/" + name, device);
            return this;
        }

        Device gid(String name, int port, int index, String gid, String type) {
            String at = folder + "/infiniband/" + name + "/ports/" + port;
            SysfsTree.this.file(at + "/gids/" + index, gid);
            if (!type.isEmpty()) { // the kernel refuses to read it then
                SysfsTree.this.file(at + "/gid_attrs/types/" + index, type);
            }
            return this;
        }

        PciAddress address() {
            return PciAddress.parse(address);
        }
    }
}
