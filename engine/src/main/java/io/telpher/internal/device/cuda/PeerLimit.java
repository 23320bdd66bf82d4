package io.telpher.internal.device.cuda;

import io.telpher.internal.device.NumaPlacement;
import io.telpher.internal.ffi.linux.Environment;
import io.telpher.topology.Gpu;
import io.telpher.topology.PathType;
import io.telpher.topology.Topology;
import java.util.Locale;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// How far apart two GPUs may be to reach each other's memory, where the job says so:
/// `TELPHER_P2P_DISABLE` and `TELPHER_P2P_LEVEL`, else `NCCL_P2P_DISABLE` and `NCCL_P2P_LEVEL`,
/// which mean what they mean to NCCL. Without them the driver and the attempt decide.
///
/// @param setting the variable and its value, for people; empty without one
/// @param most the longest path that is allowed, or null for any
/// @param machine asked only when a level between the extremes is set: it looks at all devices
record PeerLimit(String setting, @Nullable PathType most, Supplier<Topology> machine) {
    /// What NCCL took for levels before they had names.
    private static final PathType[] NUMBERS = {
        PathType.LOC, PathType.PIX, PathType.PXB, PathType.PHB, PathType.SYS
    };

    /// The limit that the environment sets now.
    static PeerLimit current() {
        return of(Environment::getenv, NumaPlacement::machine);
    }

    /// @param environment gives a variable's value, or null
    /// @throws IllegalArgumentException for a value of a `TELPHER_` variable that makes no sense
    static PeerLimit of(
            Function<String, @Nullable String> environment, Supplier<Topology> machine) {
        for (String prefix : new String[] {"TELPHER_", "NCCL_"}) {
            String disable = environment.apply(prefix + "P2P_DISABLE");
            if (disable != null && disable.strip().equals("1")) {
                return new PeerLimit(prefix + "P2P_DISABLE=1", PathType.LOC, machine);
            }
            String level = environment.apply(prefix + "P2P_LEVEL");
            PathType most = level == null ? null : level(level.strip());
            if (most != null) {
                return new PeerLimit(prefix + "P2P_LEVEL=" + level, most, machine);
            }
            if (level != null && prefix.equals("TELPHER_")) {
                throw new IllegalArgumentException(
                        "TELPHER_P2P_LEVEL=%s: LOC, NVL, PIX, PXB, PHB or SYS is needed"
                                .formatted(level));
            }
        }
        return new PeerLimit("", null, machine);
    }

    /// @return null when it is none; NCCL then goes on without, too
    private static @Nullable PathType level(String text) {
        try {
            int number = Integer.parseInt(text);
            return number < 0 ? null : NUMBERS[Math.min(number, NUMBERS.length - 1)];
        } catch (NumberFormatException e) {
            for (PathType type : PathType.values()) {
                if (type.compareTo(PathType.SYS) <= 0
                        && type.name().equals(text.toUpperCase(Locale.ROOT))) {
                    return type;
                }
            }
            return null;
        }
    }

    /// @return why the two may not reach each other, or null
    @Nullable String refuses(UUID one, UUID other) {
        PathType allowed = most;
        if (allowed == null || one.equals(other)) {
            return null;
        }
        if (allowed == PathType.LOC) {
            return "%s keeps GPUs from each other's memory".formatted(setting);
        }
        if (allowed == PathType.SYS) {
            return null;
        }
        Topology here = machine.get();
        Gpu first = find(here, one);
        Gpu second = find(here, other);
        if (first == null || second == null) {
            return "%s, and the topology does not know how %s and %s are connected"
                    .formatted(setting, one, other);
        }
        PathType type = here.directPath(first, second).type();
        return type.compareTo(allowed) <= 0
                ? null
                : "%s, and GPU %s and %s are connected by %s (%s)"
                        .formatted(setting, one, other, type, type.meaning());
    }

    /// NCCL takes a path over NVLink to a GPU in the middle and on from there for one of type NVB.
    ///
    /// @return why bytes may not go between two devices through a third, or null
    @Nullable String refuses(UUID one, UUID through, UUID other) {
        String leg = refuses(one, through);
        leg = leg == null ? refuses(through, other) : leg;
        PathType allowed = most;
        if (leg != null || allowed == null || allowed.compareTo(PathType.NVB) >= 0) {
            return leg;
        }
        return "%s, and the path through GPU %s is %s (%s)"
                .formatted(setting, through, PathType.NVB, PathType.NVB.meaning());
    }

    /// @return the device in a topology, or null where that does not know it
    static @Nullable Gpu find(Topology here, UUID uuid) {
        for (Gpu gpu : here.gpus()) {
            if (gpu.uuid().toLowerCase(Locale.ROOT).endsWith(uuid.toString())) {
                return gpu;
            }
        }
        return null;
    }
}
