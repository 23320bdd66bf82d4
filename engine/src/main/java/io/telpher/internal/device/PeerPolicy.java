package io.telpher.internal.device;

import io.telpher.internal.ffi.linux.Environment;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// How two GPUs copy between each other's memory, where the job says so: by
/// `NCCL_P2P_READ_ENABLE` and `NCCL_P2P_DIRECT_DISABLE`, which mean what they mean to NCCL, and by
/// the same names with `TELPHER_`, which win.
///
/// @param copier which of the two copies, where this process uses both
/// @param pointers whether endpoints of one process use each other's addresses; if not, they
///     export and import memory as two processes do
public record PeerPolicy(Copier copier, boolean pointers) {
    /// What NCCL takes for not set.
    private static final long AUTO = -2;

    /// Which GPU copies.
    public enum Copier {
        /// That of the memory here: what was measured to be as fast as the other.
        LOCAL,
        /// The one that the bytes are for: it reads.
        DESTINATION,
        /// The one that has the bytes: it writes.
        SOURCE
    }

    /// What the environment says now.
    ///
    /// @throws IllegalArgumentException for a value of a `TELPHER_` variable that makes no sense
    public static PeerPolicy current() {
        return of(Environment::getenv);
    }

    /// @param environment gives a variable's value, or null
    /// @throws IllegalArgumentException for a value of a `TELPHER_` variable that makes no sense
    public static PeerPolicy of(Function<String, @Nullable String> environment) {
        long read = GpuVariables.number(environment, "P2P_READ_ENABLE", AUTO, 1, AUTO);
        Copier copier =
                read == AUTO ? Copier.LOCAL : read == 0 ? Copier.SOURCE : Copier.DESTINATION;
        return new PeerPolicy(
                copier, GpuVariables.number(environment, "P2P_DIRECT_DISABLE", 0, 1, 0) == 0);
    }
}
