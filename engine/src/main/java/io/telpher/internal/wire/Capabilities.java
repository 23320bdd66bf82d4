package io.telpher.internal.wire;

import io.telpher.EndpointOptions;

/// The bits by which an endpoint says in the handshake what it can do, and what it wants, beside
/// the basics of its version. A bit keeps its meaning for ever.
public final class Capabilities {
    /// It can check frames by CRC32C.
    private static final long CRC32C = 1;

    /// It wants that, if the other one can.
    private static final long WANTS_CRC32C = 2;

    /// It knows how to forget tags.
    private static final long FORGETS_TAGS = 4;

    private Capabilities() {}

    /// @return what an endpoint with these options says
    public static long of(EndpointOptions options) {
        return CRC32C | FORGETS_TAGS | (options.checksums() ? WANTS_CRC32C : 0);
    }

    /// @return whether frames between two that say so carry checksums: both can, and one wants it
    public static boolean check(long one, long other) {
        return (one & other & CRC32C) != 0 && ((one | other) & WANTS_CRC32C) != 0;
    }

    /// @return whether two that say so forget tags together
    public static boolean forget(long one, long other) {
        return (one & other & FORGETS_TAGS) != 0;
    }
}
