package io.telpher.internal.observe;

import org.jspecify.annotations.Nullable;

/// The library's log, `io.telpher`: silent unless its level is `DEBUG` or finer, whatever the
/// severity of a message. A logger that nobody has configured prints from `INFO` on, and a library
/// inside somebody's program has nothing to print; what callers must know they get as exceptions
/// and reasons.
public final class Log {
    private static final System.Logger LOGGER = System.getLogger("io.telpher");

    private Log() {}

    /// Something that should not happen.
    public static void error(String message, @Nullable Throwable cause) {
        log(System.Logger.Level.ERROR, message, cause);
    }

    /// Something that went wrong outside of the library.
    public static void warning(String message, @Nullable Throwable cause) {
        log(System.Logger.Level.WARNING, message, cause);
    }

    /// Something that explains what one sees.
    public static void debug(String message, @Nullable Throwable cause) {
        log(System.Logger.Level.DEBUG, message, cause);
    }

    private static void log(System.Logger.Level level, String message, @Nullable Throwable cause) {
        if (LOGGER.isLoggable(System.Logger.Level.DEBUG)) {
            LOGGER.log(level, message, cause);
        }
    }
}
