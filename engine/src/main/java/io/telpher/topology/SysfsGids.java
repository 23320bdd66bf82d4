package io.telpher.topology;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// Reads a port's table of GIDs.
final class SysfsGids {
    /// Tables have hundreds of entries, and the kernel takes the first free one.
    private static final int FREE_AT_THE_END = 32;

    private SysfsGids() {}

    /// @param port its folder, as in `/sys/class/infiniband/mlx5_0/ports/1`
    /// @return the entries that are in use
    static List<Gid> read(Sysfs sysfs, Path port, boolean infiniband) {
        List<Gid> gids = new ArrayList<>();
        int free = 0;
        for (int index = 0; free < FREE_AT_THE_END; index++) {
            String digits = sysfs.text(port.resolve("gids/" + index));
            if (digits.isEmpty()) {
                break;
            }
            var gid = Gid.of(index, type(sysfs, port, index, infiniband), digits);
            free = gid.isPresent() ? 0 : free + 1;
            gid.ifPresent(gids::add);
        }
        return gids;
    }

    /// The kernel writes `IB/RoCE v1`, which is InfiniBand's own on InfiniBand.
    private static Gid.Type type(Sysfs sysfs, Path port, int index, boolean infiniband) {
        if (infiniband) {
            return Gid.Type.INFINIBAND;
        }
        String text = sysfs.text(port.resolve("gid_attrs/types/" + index));
        return text.equals("RoCE v2") ? Gid.Type.ROCE_V2 : Gid.Type.ROCE_V1;
    }
}
