package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/// File descriptors: open, close, read, write, flags, what they stand for.
public final class Descriptors {
    public static final int O_RDONLY = 0;
    public static final int O_WRONLY = 1;
    public static final int O_RDWR = 2;
    public static final int O_CREAT = 0x40;
    public static final int O_EXCL = 0x80;
    public static final int O_TRUNC = 0x200;
    public static final int O_NONBLOCK = 0x800;
    public static final int O_CLOEXEC = 0x80000;

    public static final int F_GETFD = 1;
    public static final int F_SETFD = 2;
    public static final int F_GETFL = 3;
    public static final int F_SETFL = 4;
    public static final int F_DUPFD_CLOEXEC = 1030;
    public static final int FD_CLOEXEC = 1;

    private static final FunctionDescriptor TRANSFER =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG);
    private static final FunctionDescriptor TRANSFER_AT =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);

    private static final FunctionDescriptor TRANSFER_INSIDE =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS);

    /// `int open(const char *path, int flags, ...)`
    private static final MethodHandle OPEN =
            LibC.linkVariadic(
                    "open", 2, FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));

    /// `int close(int fd)`
    private static final MethodHandle CLOSE =
            LibC.link("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));

    /// `ssize_t read(int fd, void *buf, size_t count)`
    private static final MethodHandle READ = LibC.link("read", TRANSFER);

    /// `ssize_t write(int fd, const void *buf, size_t count)`
    private static final MethodHandle WRITE = LibC.link("write", TRANSFER);

    /// `ssize_t pread(int fd, void *buf, size_t count, off_t offset)`
    private static final MethodHandle PREAD = LibC.link("pread", TRANSFER_AT);

    /// `ssize_t pwrite(int fd, const void *buf, size_t count, off_t offset)`
    private static final MethodHandle PWRITE = LibC.link("pwrite", TRANSFER_AT);

    /// `pread` with the buffer as an address, and its owner as an extra argument that C does not
    /// see; without errno
    private static final MethodHandle PREAD_INSIDE = LibC.linkPlain("pread", TRANSFER_INSIDE);

    /// `pwrite` likewise
    private static final MethodHandle PWRITE_INSIDE = LibC.linkPlain("pwrite", TRANSFER_INSIDE);

    /// `int fcntl(int fd, int op, ...)`
    private static final MethodHandle FCNTL =
            LibC.linkVariadic(
                    "fcntl", 2, FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG));

    /// `ssize_t readlink(const char *path, char *buf, size_t bufsiz)`
    private static final MethodHandle READLINK =
            LibC.link("readlink", FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG));

    private Descriptors() {}

    /// Opens a file; `mode` counts only with [#O_CREAT]. Returns the descriptor.
    public static int open(String path, int flags, int mode) {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = arena.allocateFrom(path);
            int result;
            do {
                result = call.result((int) OPEN.invokeExact(call.errno, name, flags, mode));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Opens `/proc/PID/mem` for [#pread] and [#pwrite] at the process's own addresses. Unlike a
    /// pid, the descriptor stays with the program it was opened for: after that one's `exec` or
    /// exit it transfers nothing.
    public static int openProcessMemory(int pid, int flags) {
        return open("/proc/" + pid + "/mem", flags | O_CLOEXEC, 0);
    }

    /// Closes a descriptor. Linux frees the number even if the call is interrupted, so `EINTR`
    /// counts as success and is never repeated.
    public static int close(int fd) {
        CallState call = CallState.current();
        try {
            int result = call.result((int) CLOSE.invokeExact(call.errno, fd));
            return result == -Errno.EINTR ? 0 : result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static long read(int fd, MemorySegment buffer, long length) {
        LibC.checkLength(buffer, length);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result = call.result((long) READ.invokeExact(call.errno, fd, buffer, length));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static long write(int fd, MemorySegment buffer, long length) {
        LibC.checkLength(buffer, length);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result = call.result((long) WRITE.invokeExact(call.errno, fd, buffer, length));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static long pread(int fd, MemorySegment buffer, long length, long offset) {
        LibC.checkLength(buffer, length);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result =
                        call.result(
                                (long) PREAD.invokeExact(call.errno, fd, buffer, length, offset));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static long pwrite(int fd, MemorySegment buffer, long length, long offset) {
        LibC.checkLength(buffer, length);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result =
                        call.result(
                                (long) PWRITE.invokeExact(call.errno, fd, buffer, length, offset));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// As [#pread(int, MemorySegment, long, long)] into a part of a segment, without making a
    /// slice.
    ///
    /// @param at where the part starts in `owner`
    public static long pread(int fd, MemorySegment owner, long at, long length, long offset) {
        java.util.Objects.checkFromIndexSize(at, length, owner.byteSize());
        long result;
        try {
            result =
                    (long)
                            PREAD_INSIDE.invokeExact(
                                    fd, owner.address() + at, length, offset, owner);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
        // The same bytes to the same place: made again, it tells why.
        return result >= 0 ? result : pread(fd, owner.asSlice(at, length), length, offset);
    }

    /// As [#pwrite(int, MemorySegment, long, long)] from a part of a segment, without making a
    /// slice.
    ///
    /// @param at where the part starts in `owner`
    public static long pwrite(int fd, MemorySegment owner, long at, long length, long offset) {
        java.util.Objects.checkFromIndexSize(at, length, owner.byteSize());
        long result;
        try {
            result =
                    (long)
                            PWRITE_INSIDE.invokeExact(
                                    fd, owner.address() + at, length, offset, owner);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
        // The same bytes to the same place: made again, it tells why.
        return result >= 0 ? result : pwrite(fd, owner.asSlice(at, length), length, offset);
    }

    public static int fcntl(int fd, int operation, long argument) {
        CallState call = CallState.current();
        try {
            return call.result((int) FCNTL.invokeExact(call.errno, fd, operation, argument));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Switches [#O_NONBLOCK] on or off.
    public static int setNonBlocking(int fd, boolean nonBlocking) {
        int flags = fcntl(fd, F_GETFL, 0);
        if (flags < 0) {
            return flags;
        }
        return fcntl(fd, F_SETFL, nonBlocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
    }

    /// What `/proc` says that a descriptor stands for, such as `anon_inode:[eventfd]` or the path
    /// of a file, of which the first 256 bytes come. Returns null when there is no `/proc`.
    public static @Nullable String target(int fd) {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = arena.allocateFrom("/proc/self/fd/" + fd);
            MemorySegment into = arena.allocate(257); // ends with a 0 in any case
            long length = call.result((long) READLINK.invokeExact(call.errno, name, into, 256L));
            return length < 0 ? null : into.getString(0);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// A second descriptor for the same open file, close-on-exec.
    public static int duplicate(int fd) {
        return fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
}
