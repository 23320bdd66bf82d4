package io.telpher.internal.ffi.linux;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/// Error numbers, the same on x86-64 and aarch64, and their names.
///
/// The methods take an errno or the `-errno` that a binding returned: only the magnitude counts.
public final class Errno {
    public static final int EPERM = 1;
    public static final int ENOENT = 2;
    public static final int ESRCH = 3;
    public static final int EINTR = 4;
    public static final int EIO = 5;
    public static final int ENXIO = 6;
    public static final int E2BIG = 7;
    public static final int EBADF = 9;
    public static final int ECHILD = 10;
    public static final int EAGAIN = 11;
    public static final int ENOMEM = 12;
    public static final int EACCES = 13;
    public static final int EFAULT = 14;
    public static final int EBUSY = 16;
    public static final int EEXIST = 17;
    public static final int EXDEV = 18;
    public static final int ENODEV = 19;
    public static final int ENOTDIR = 20;
    public static final int EISDIR = 21;
    public static final int EINVAL = 22;
    public static final int ENFILE = 23;
    public static final int EMFILE = 24;
    public static final int ENOTTY = 25;
    public static final int ETXTBSY = 26;
    public static final int EFBIG = 27;
    public static final int ENOSPC = 28;
    public static final int ESPIPE = 29;
    public static final int EROFS = 30;
    public static final int EMLINK = 31;
    public static final int EPIPE = 32;
    public static final int ERANGE = 34;
    public static final int EDEADLK = 35;
    public static final int ENAMETOOLONG = 36;
    public static final int ENOSYS = 38;
    public static final int ENOTEMPTY = 39;
    public static final int ELOOP = 40;
    public static final int ENODATA = 61;
    public static final int ETIME = 62;
    public static final int EPROTO = 71;
    public static final int EBADMSG = 74;
    public static final int EOVERFLOW = 75;
    public static final int ENOTSOCK = 88;
    public static final int EDESTADDRREQ = 89;
    public static final int EMSGSIZE = 90;
    public static final int EPROTOTYPE = 91;
    public static final int ENOPROTOOPT = 92;
    public static final int EPROTONOSUPPORT = 93;
    public static final int ESOCKTNOSUPPORT = 94;
    public static final int EOPNOTSUPP = 95;
    public static final int EAFNOSUPPORT = 97;
    public static final int EADDRINUSE = 98;
    public static final int EADDRNOTAVAIL = 99;
    public static final int ENETDOWN = 100;
    public static final int ENETUNREACH = 101;
    public static final int ENETRESET = 102;
    public static final int ECONNABORTED = 103;
    public static final int ECONNRESET = 104;
    public static final int ENOBUFS = 105;
    public static final int EISCONN = 106;
    public static final int ENOTCONN = 107;
    public static final int ESHUTDOWN = 108;
    public static final int ETOOMANYREFS = 109;
    public static final int ETIMEDOUT = 110;
    public static final int ECONNREFUSED = 111;
    public static final int EHOSTDOWN = 112;
    public static final int EHOSTUNREACH = 113;
    public static final int EALREADY = 114;
    public static final int EINPROGRESS = 115;
    public static final int ESTALE = 116;
    public static final int EREMOTEIO = 121;
    public static final int ECANCELED = 125;
    public static final int EOWNERDEAD = 130;
    public static final int ENOTRECOVERABLE = 131;

    private Errno() {}

    /// The symbolic name, such as `ECONNRESET`; `errno 4711` for a number that is not in the table.
    public static String name(int errno) {
        return switch (Math.abs(errno)) {
            case 0 -> "no error";
            case EPERM -> "EPERM";
            case ENOENT -> "ENOENT";
            case ESRCH -> "ESRCH";
            case EINTR -> "EINTR";
            case EIO -> "EIO";
            case ENXIO -> "ENXIO";
            case E2BIG -> "E2BIG";
            case EBADF -> "EBADF";
            case ECHILD -> "ECHILD";
            case EAGAIN -> "EAGAIN";
            case ENOMEM -> "ENOMEM";
            case EACCES -> "EACCES";
            case EFAULT -> "EFAULT";
            case EBUSY -> "EBUSY";
            case EEXIST -> "EEXIST";
            case EXDEV -> "EXDEV";
            case ENODEV -> "ENODEV";
            case ENOTDIR -> "ENOTDIR";
            case EISDIR -> "EISDIR";
            case EINVAL -> "EINVAL";
            case ENFILE -> "ENFILE";
            case EMFILE -> "EMFILE";
            case ENOTTY -> "ENOTTY";
            case ETXTBSY -> "ETXTBSY";
            case EFBIG -> "EFBIG";
            case ENOSPC -> "ENOSPC";
            case ESPIPE -> "ESPIPE";
            case EROFS -> "EROFS";
            case EMLINK -> "EMLINK";
            case EPIPE -> "EPIPE";
            case ERANGE -> "ERANGE";
            case EDEADLK -> "EDEADLK";
            case ENAMETOOLONG -> "ENAMETOOLONG";
            case ENOSYS -> "ENOSYS";
            case ENOTEMPTY -> "ENOTEMPTY";
            case ELOOP -> "ELOOP";
            case ENODATA -> "ENODATA";
            case ETIME -> "ETIME";
            case EPROTO -> "EPROTO";
            case EBADMSG -> "EBADMSG";
            case EOVERFLOW -> "EOVERFLOW";
            case ENOTSOCK -> "ENOTSOCK";
            case EDESTADDRREQ -> "EDESTADDRREQ";
            case EMSGSIZE -> "EMSGSIZE";
            case EPROTOTYPE -> "EPROTOTYPE";
            case ENOPROTOOPT -> "ENOPROTOOPT";
            case EPROTONOSUPPORT -> "EPROTONOSUPPORT";
            case ESOCKTNOSUPPORT -> "ESOCKTNOSUPPORT";
            case EOPNOTSUPP -> "EOPNOTSUPP";
            case EAFNOSUPPORT -> "EAFNOSUPPORT";
            case EADDRINUSE -> "EADDRINUSE";
            case EADDRNOTAVAIL -> "EADDRNOTAVAIL";
            case ENETDOWN -> "ENETDOWN";
            case ENETUNREACH -> "ENETUNREACH";
            case ENETRESET -> "ENETRESET";
            case ECONNABORTED -> "ECONNABORTED";
            case ECONNRESET -> "ECONNRESET";
            case ENOBUFS -> "ENOBUFS";
            case EISCONN -> "EISCONN";
            case ENOTCONN -> "ENOTCONN";
            case ESHUTDOWN -> "ESHUTDOWN";
            case ETOOMANYREFS -> "ETOOMANYREFS";
            case ETIMEDOUT -> "ETIMEDOUT";
            case ECONNREFUSED -> "ECONNREFUSED";
            case EHOSTDOWN -> "EHOSTDOWN";
            case EHOSTUNREACH -> "EHOSTUNREACH";
            case EALREADY -> "EALREADY";
            case EINPROGRESS -> "EINPROGRESS";
            case ESTALE -> "ESTALE";
            case EREMOTEIO -> "EREMOTEIO";
            case ECANCELED -> "ECANCELED";
            case EOWNERDEAD -> "EOWNERDEAD";
            case ENOTRECOVERABLE -> "ENOTRECOVERABLE";
            default -> "errno " + Math.abs(errno);
        };
    }

    /// Name and explanation, such as `ECONNRESET (Connection reset by peer)`.
    public static String describe(int errno) {
        return name(errno) + " (" + text(Math.abs(errno)) + ")";
    }

    /// The exception for a system call that failed.
    ///
    /// @param error an errno or minus errno
    /// @param call the call's name
    /// @param arguments what it was called with; large numbers are shown as addresses
    public static TelpherException.NativeFailure failure(
            long error, String call, Object... arguments) {
        int errno = (int) Math.abs(error);
        return new TelpherException.NativeFailure(
                call, errno, NativeLibrary.arguments(arguments), describe(errno));
    }

    private static String text(int errno) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(256);
            int rc = (int) Linked.STRERROR_R.invokeExact(errno, buffer, buffer.byteSize());
            return rc == 0 ? buffer.getString(0) : "unknown error";
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Apart, so that naming an errno links nothing.
    private static final class Linked {
        /// `int __xpg_strerror_r(int errnum, char *buf, size_t buflen)`: the POSIX form of
        /// `strerror_r`
        static final MethodHandle STRERROR_R =
                LibC.linkPlain(
                        "__xpg_strerror_r",
                        FunctionDescriptor.of(
                                ValueLayout.JAVA_INT,
                                ValueLayout.JAVA_INT,
                                ValueLayout.ADDRESS,
                                ValueLayout.JAVA_LONG));
    }
}
