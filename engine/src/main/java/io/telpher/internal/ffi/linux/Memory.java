package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Objects;

/// Shared memory and mappings. Addresses are plain longs here: valid ones are positive, negative
/// results are `-errno`.
public final class Memory {
    public static final int MFD_CLOEXEC = 1;
    public static final int MFD_ALLOW_SEALING = 2;
    public static final int MFD_HUGETLB = 4;

    public static final int F_ADD_SEALS = 1033;
    public static final int F_GET_SEALS = 1034;
    public static final int F_SEAL_SEAL = 1;
    public static final int F_SEAL_SHRINK = 2;
    public static final int F_SEAL_GROW = 4;
    public static final int F_SEAL_WRITE = 8;
    public static final int F_SEAL_FUTURE_WRITE = 16;

    public static final int PROT_NONE = 0;
    public static final int PROT_READ = 1;
    public static final int PROT_WRITE = 2;

    public static final int MAP_SHARED = 1;
    public static final int MAP_PRIVATE = 2;
    public static final int MAP_FIXED = 0x10;
    public static final int MAP_ANONYMOUS = 0x20;
    public static final int MAP_NORESERVE = 0x4000;
    public static final int MAP_POPULATE = 0x8000;

    public static final int MREMAP_MAYMOVE = 1;
    public static final int MREMAP_FIXED = 2;

    public static final int MADV_DONTNEED = 4;
    public static final int MADV_DONTFORK = 10;
    public static final int MADV_DOFORK = 11;
    public static final int MADV_HUGEPAGE = 14;
    public static final int MADV_NOHUGEPAGE = 15;
    public static final int MADV_DONTDUMP = 16;
    public static final int MADV_POPULATE_READ = 22;
    public static final int MADV_POPULATE_WRITE = 23;

    /// Pages come from a node where it has some, else from others.
    public static final int MPOL_PREFERRED = 1;

    public static final int SEEK_SET = 0;
    public static final int SEEK_END = 2;

    private static final int SYS_mbind = LibC.X86_64 ? 237 : 235;

    /// `int memfd_create(const char *name, unsigned int flags)`
    private static final MethodHandle MEMFD_CREATE =
            LibC.link("memfd_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));

    /// `int ftruncate(int fd, off_t length)`
    private static final MethodHandle FTRUNCATE =
            LibC.link("ftruncate", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG));

    /// `off_t lseek(int fd, off_t offset, int whence)`
    private static final MethodHandle LSEEK =
            LibC.link("lseek", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_INT));

    /// `void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)`
    private static final MethodHandle MMAP =
            LibC.link(
                    "mmap",
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT,
                            JAVA_LONG));

    /// `long syscall(SYS_mbind, void *addr, unsigned long len, int mode, const unsigned long
    /// *nodemask, unsigned long maxnode, unsigned int flags)`: glibc has no function for it
    private static final MethodHandle MBIND =
            LibC.linkVariadic(
                    "syscall",
                    1,
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS,
                            JAVA_LONG, JAVA_LONG));

    /// `int munmap(void *addr, size_t length)`
    private static final MethodHandle MUNMAP =
            LibC.link("munmap", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));

    /// `void *mremap(void *old_address, size_t old_size, size_t new_size, int flags, ...)`
    private static final MethodHandle MREMAP =
            LibC.linkVariadic(
                    "mremap",
                    4,
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG));

    /// `int mprotect(void *addr, size_t length, int prot)`
    private static final MethodHandle MPROTECT =
            LibC.link("mprotect", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT));

    /// `void *memcpy(void *dest, const void *src, size_t n)`, with the owners of both ranges as
    /// extra arguments that C does not see: their arenas cannot be closed meanwhile
    private static final MethodHandle MEMCPY =
            LibC.linkPlain(
                    "memcpy",
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, ADDRESS));

    /// `int madvise(void *addr, size_t length, int advice)`
    private static final MethodHandle MADVISE =
            LibC.link("madvise", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT));

    /// `int getpagesize(void)`
    private static final MethodHandle GETPAGESIZE =
            LibC.linkPlain("getpagesize", FunctionDescriptor.of(JAVA_INT));

    private Memory() {}

    /// Creates an anonymous shared-memory file; the name only shows in `/proc`. Returns the
    /// descriptor.
    public static int memfdCreate(String name, int flags) {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment cName = arena.allocateFrom(name);
            return call.result((int) MEMFD_CREATE.invokeExact(call.errno, cName, flags));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int ftruncate(int fd, long bytes) {
        CallState call = CallState.current();
        try {
            int result;
            do {
                result = call.result((int) FTRUNCATE.invokeExact(call.errno, fd, bytes));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// The size of the file behind a descriptor. Moves the file position to the end.
    public static long size(int fd) {
        CallState call = CallState.current();
        try {
            return call.result((long) LSEEK.invokeExact(call.errno, fd, 0L, SEEK_END));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int addSeals(int fd, int seals) {
        return Descriptors.fcntl(fd, F_ADD_SEALS, seals);
    }

    public static int getSeals(int fd) {
        return Descriptors.fcntl(fd, F_GET_SEALS, 0);
    }

    /// Maps memory and returns its address; `address` 0 lets the kernel choose.
    public static long mmap(long address, long length, int prot, int flags, int fd, long offset) {
        CallState call = CallState.current();
        try {
            return call.result(
                    (long) MMAP.invokeExact(call.errno, address, length, prot, flags, fd, offset));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Says from which NUMA node the pages of a range come that are not there yet.
    ///
    /// @param policy such as [#MPOL_PREFERRED]
    /// @return 0, or `-errno`: `ENOSYS` and `EPERM` where the kernel or a container has no such
    ///     call, `EINVAL` for a node that this process may not use
    public static int mbind(long address, long length, int policy, int node) {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            int words = node / Long.SIZE + 1;
            MemorySegment nodes = arena.allocate(JAVA_LONG, words);
            nodes.setAtIndex(JAVA_LONG, words - 1, 1L << node);
            // The kernel leaves out the last bit of those that it is told of.
            long bits = (long) words * Long.SIZE + 1;
            return (int)
                    call.result(
                            (long)
                                    MBIND.invokeExact(
                                            call.errno,
                                            (long) SYS_mbind,
                                            address,
                                            length,
                                            (long) policy,
                                            nodes,
                                            bits,
                                            0L));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int munmap(long address, long length) {
        CallState call = CallState.current();
        try {
            return call.result((int) MUNMAP.invokeExact(call.errno, address, length));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Resizes or moves a mapping and returns its new address; `newAddress` counts only with
    /// [#MREMAP_FIXED], and whatever was mapped there is gone.
    public static long mremap(
            long oldAddress, long oldLength, long newLength, int flags, long newAddress) {
        CallState call = CallState.current();
        try {
            return call.result(
                    (long)
                            MREMAP.invokeExact(
                                    call.errno,
                                    oldAddress,
                                    oldLength,
                                    newLength,
                                    flags,
                                    newAddress));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int mprotect(long address, long length, int prot) {
        CallState call = CallState.current();
        try {
            return call.result((int) MPROTECT.invokeExact(call.errno, address, length, prot));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Advises about a range; the address must be page-aligned. `EINTR` and `EAGAIN` of the
    /// populating kinds are reported, since a large range may take long.
    public static int madvise(long address, long length, int advice) {
        CallState call = CallState.current();
        try {
            return call.result((int) MADVISE.invokeExact(call.errno, address, length, advice));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int pageSize() {
        try {
            return (int) GETPAGESIZE.invokeExact();
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// A view of memory whose lifetime the caller watches over: never closed, never checked.
    public static MemorySegment segment(long address, long bytes) {
        return MemorySegment.ofAddress(address).reinterpret(bytes);
    }

    /// A view that is refused once `arena` is closed. The caller unmaps the memory after that.
    public static MemorySegment segment(long address, long bytes, Arena arena) {
        return MemorySegment.ofAddress(address).reinterpret(bytes, arena, null);
    }

    /// A view of a mapping that is unmapped when `arena` is closed.
    public static MemorySegment owned(long address, long bytes, Arena arena) {
        return MemorySegment.ofAddress(address)
                .reinterpret(
                        bytes,
                        arena,
                        mapping -> {
                            int unused = munmap(mapping.address(), bytes);
                        });
    }

    /// Copies by the C library, which picks non-temporal or wider instructions than the JVM's own
    /// copy: faster from 32 KiB to some MiB, slower outside of that.
    public static void copy(
            MemorySegment from, long fromAt, MemorySegment to, long toAt, long bytes) {
        Objects.checkFromIndexSize(fromAt, bytes, from.byteSize());
        Objects.checkFromIndexSize(toAt, bytes, to.byteSize());
        try {
            long unused =
                    (long)
                            MEMCPY.invokeExact(
                                    to.address() + toAt, from.address() + fromAt, bytes, to, from);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }
}
