package io.telpher.internal.device.cuda;

import io.telpher.internal.device.GpuVariables;
import io.telpher.internal.device.NumaPlacement;
import io.telpher.internal.ffi.linux.Environment;
import io.telpher.topology.Gpu;
import io.telpher.topology.PathType;
import io.telpher.topology.Topology;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// How far apart two GPUs may be to reach each other's memory, where the job says so:
/// `TELPHER_P2P_DISABLE` and `TELPHER_P2P_LEVEL`, else `NCCL_P2P_DISABLE` and `NCCL_P2P_LEVEL`,
/// which mean what they mean to NCCL. `TELPHER_P2P_DISABLE=0` answers the first of NCCL's,
/// `TELPHER_P2P_LEVEL` both. Without them the driver and the attempt decide.
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
        OptionalLong own = GpuVariables.own(environment, "P2P_DISABLE", 0, 1);
        if (own.orElse(0) == 1) {
            return new PeerLimit("TELPHER_P2P_DISABLE=1", PathType.LOC, machine);
        }
        PeerLimit level = ofLevel(environment, "TELPHER_P2P_LEVEL", machine);
        if (level != null) {
            return level;
        }
        if (own.isEmpty() && GpuVariables.nccl(environment, "P2P_DISABLE").orElse(0) == 1) {
            return new PeerLimit("NCCL_P2P_DISABLE=1", PathType.LOC, machine);
        }
        level = ofLevel(environment, "NCCL_P2P_LEVEL", machine);
        return level != null ? level : new PeerLimit("", null, machine);
    }

    /// @return null when the variable is not set, or is NCCL's and NCCL goes on without it
    private static @Nullable PeerLimit ofLevel(
            Function<String, @Nullable String> environment,
            String variable,
            Supplier<Topology> machine) {
        String text = environment.apply(variable);
        if (text == null || text.isBlank()) {
            return null;
        }
        boolean own = variable.startsWith("TELPHER_");
        // NCCL knows them in capital letters only.
        PathType most = level(own ? text.strip().toUpperCase(Locale.ROOT) : text.strip());
        if (most != null) {
            return new PeerLimit(variable + "=" + text.strip(), most, machine);
        }
        if (own) {
            throw new IllegalArgumentException(
                    "%s=%s: LOC, NVL, PIX, PXB, PHB or SYS is needed; correct or unset it"
                            .formatted(variable, text));
        }
        return null;
    }

    /// @return null when it is none
    private static @Nullable PathType level(String text) {
        try {
            int number = Integer.parseInt(text);
            return number < 0 ? null : NUMBERS[Math.min(number, NUMBERS.length - 1)];
        } catch (NumberFormatException e) {
            for (PathType type : PathType.values()) {
                if (type.compareTo(PathType.SYS) <= 0 && type.name().equals(text)) {
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
        Gpu first = NumaPlacement.find(here, one);
        Gpu second = NumaPlacement.find(here, other);
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
}
