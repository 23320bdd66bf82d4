package io.telpher.internal.device.cuda;

import io.telpher.internal.ffi.linux.Environment;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/// Where what was found out about devices is kept for other processes of the user.
final class CacheFolder {
    private CacheFolder() {}

    /// @return `$XDG_CACHE_HOME/telpher` or `~/.cache/telpher`, which may not exist; null where the
    ///     user has no home
    static @Nullable Path path() {
        String cache = Environment.getenv("XDG_CACHE_HOME");
        String home = System.getProperty("user.home");
        if (cache != null && cache.startsWith("/")) {
            return Path.of(cache, "telpher");
        }
        return home != null && home.startsWith("/") && home.length() > 1
                ? Path.of(home, ".cache", "telpher")
                : null;
    }
}
