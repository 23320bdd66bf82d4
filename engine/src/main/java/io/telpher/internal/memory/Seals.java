package io.telpher.internal.memory;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;

/// What fixes a memfd before anybody else sees it.
public final class Seals {
    private static final int SIZE = Memory.F_SEAL_SHRINK | Memory.F_SEAL_GROW;

    private Seals() {}

    /// Fixes a file's size, what others may do with it, and the seals themselves: whoever holds a
    /// descriptor could otherwise add some, and refuse the memory to those who come later.
    ///
    /// @param writable whether others may map it writable. Kernels before 5.1 do not enforce it;
    ///     importers then keep to it of their own accord
    /// @return 0 or a negative errno
    public static int seal(int fd, boolean writable) {
        int seals = SIZE | Memory.F_SEAL_SEAL;
        if (!writable) {
            int sealed = Memory.addSeals(fd, seals | Memory.F_SEAL_FUTURE_WRITE);
            if (sealed != -Errno.EINVAL) {
                return sealed;
            }
        }
        return Memory.addSeals(fd, seals);
    }

    /// What an importer needs: nothing more, since earlier versions did not fix the seals.
    ///
    /// @param seals what a peer's file has, or a negative errno
    /// @return whether that file can neither shrink nor grow
    public static boolean fixSize(int seals) {
        return seals >= 0 && (seals & SIZE) == SIZE;
    }
}
