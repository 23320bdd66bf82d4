package io.telpher.internal.transport.shm;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.memory.Seals;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A shared mapping of a sealed memfd: the engine's own pages, and views of a peer's.
///
/// Most segments are not tied to an arena, since a check on each access would cost more than the
/// access: whoever closes such a mapping makes sure that nobody is inside. Children do not inherit
/// it.
final class Mapping implements AutoCloseable {
    /// What others may do with a file of this process.
    enum Others {
        /// They may map it writable.
        WRITE,
        /// They can only read; the kernel enforces it.
        READ
    }

    private final MemorySegment segment;
    private int fd;

    /// Refuses accesses that come after [#close()], or null.
    private final @Nullable Arena arena;

    private boolean closed;

    private Mapping(long address, long bytes, int fd, @Nullable Arena arena) {
        this.segment =
                arena == null
                        ? Memory.segment(address, bytes)
                        : Memory.segment(address, bytes, arena);
        this.fd = fd;
        this.arena = arena;
    }

    /// Creates a zeroed file and maps it writable.
    ///
    /// @param name for `/proc`
    /// @param bytes a multiple of the page size; pages come to be when they are touched
    /// @param others what whoever gets the descriptor may do
    static Mapping create(String name, long bytes, Others others) {
        return create(name, bytes, others, null);
    }

    /// As [#create(String, long, Others)]; accesses after [#close()] throw
    /// [IllegalStateException], and `close` waits for those that are running.
    @SuppressWarnings("MustBeClosedChecker") // The mapping closes it.
    static Mapping createGuarded(String name, long bytes, Others others) {
        return create(name, bytes, others, Arena.ofShared());
    }

    private static Mapping create(String name, long bytes, Others others, @Nullable Arena arena) {
        int fd = createFile(name, bytes);
        long address =
                Memory.mmap(
                        0, bytes, Memory.PROT_READ | Memory.PROT_WRITE, Memory.MAP_SHARED, fd, 0);
        int sealed = address < 0 ? (int) address : seal(fd, others);
        if (sealed < 0) {
            if (address > 0) {
                int unused = Memory.munmap(address, bytes);
            }
            closeDescriptor(fd);
            throw unusable(address, sealed, name, bytes);
        }
        int unused = Memory.madvise(address, bytes, Memory.MADV_DONTFORK);
        return new Mapping(address, bytes, fd, arena);
    }

    /// @return another descriptor of the file that this process created, the caller's: while it is
    ///     used this object may be closed, and the number of its own one be another file's
    synchronized int duplicate() {
        if (fd < 0) {
            throw new TelpherException.Closed("the mapping was closed, and its file with it");
        }
        return duplicate(fd);
    }

    /// @return another descriptor of the same file, the caller's; -1 for none
    static int duplicate(int fd) {
        if (fd < 0) {
            return -1;
        }
        int copy = Descriptors.fcntl(fd, Descriptors.F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            throw failure(copy, "fcntl", "F_DUPFD_CLOEXEC");
        }
        return copy;
    }

    /// @return descriptor of a new file, not sealed yet
    static int createFile(String name, long bytes) {
        int fd = Memory.memfdCreate(name, Memory.MFD_CLOEXEC | Memory.MFD_ALLOW_SEALING);
        if (fd < 0) {
            throw failure(fd, "memfd_create", name);
        }
        int sized = Memory.ftruncate(fd, bytes);
        if (sized < 0) {
            closeDescriptor(fd);
            throw failure(sized, "ftruncate", name, bytes);
        }
        return fd;
    }

    /// Fixes a file's size, and what others may do with it.
    static int seal(int fd, Others others) {
        return Seals.seal(fd, others == Others.WRITE);
    }

    /// Maps a peer's file after checking that it can neither shrink under this process nor be
    /// shorter than promised. The descriptor stays the caller's.
    ///
    /// @param protection `PROT_` flags
    static Mapping open(int fd, long bytes, int protection, String what) {
        return open(fd, bytes, protection, what, null);
    }

    /// As [#open(int, long, int, String)]; accesses after [#close()] throw
    /// [IllegalStateException], and `close` waits for those that are running.
    @SuppressWarnings("MustBeClosedChecker") // The mapping closes it.
    static Mapping openGuarded(int fd, long bytes, int protection, String what) {
        return open(fd, bytes, protection, what, Arena.ofShared());
    }

    private static Mapping open(
            int fd, long bytes, int protection, String what, @Nullable Arena arena) {
        checkFile(fd, bytes, what);
        long address = Memory.mmap(0, bytes, protection, Memory.MAP_SHARED, fd, 0);
        if (address < 0) {
            throw failure(address, "mmap", "the peer's " + what, bytes + " bytes");
        }
        int unused = Memory.madvise(address, bytes, Memory.MADV_DONTFORK);
        return new Mapping(address, bytes, -1, arena);
    }

    static void checkFile(int fd, long bytes, String what) {
        int seals = Memory.getSeals(fd);
        long size = seals < 0 ? seals : Memory.size(fd);
        if (!Seals.fixSize(seals) || size < bytes) {
            throw new TelpherException.Unsupported(
                    "the peer's %s is not a sealed file of %d bytes: seals %s, size %d"
                            .formatted(what, bytes, seals < 0 ? Errno.name(-seals) : seals, size));
        }
    }

    /// @return the bytes
    MemorySegment segment() {
        return segment;
    }

    /// @return descriptor of a file that this process created, owned by this object, else -1
    synchronized int fd() {
        return fd;
    }

    /// Makes page-table entries for a range so that copies meet no page faults.
    ///
    /// @param advice [Memory#MADV_POPULATE_READ] or [Memory#MADV_POPULATE_WRITE]
    void populate(long offset, long bytes, int advice) {
        // Only saves time: an error here shows again, with its reason, at the first touch.
        int unused = Memory.madvise(segment.address() + offset, bytes, advice);
    }

    /// Closes the descriptor once the peer has it: the mapping stays.
    synchronized void forgetDescriptor() {
        closeDescriptor(fd);
        fd = -1;
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            if (arena != null) {
                arena.close();
            }
            int unused = Memory.munmap(segment.address(), segment.byteSize());
            forgetDescriptor();
        }
    }

    static void closeDescriptor(int fd) {
        if (fd >= 0) {
            int unused = Descriptors.close(fd);
        }
    }

    /// What a new file came to that could not be mapped, or was mapped and could not be sealed.
    static TelpherException unusable(long address, int sealed, String name, long bytes) {
        return address < 0
                ? failure(address, "mmap", name, bytes + " bytes")
                : failure(sealed, "fcntl", "F_ADD_SEALS", name);
    }

    /// @param result minus errno
    static TelpherException failure(long result, String call, Object... arguments) {
        int errno = (int) -result;
        return new TelpherException.NativeFailure(
                call, errno, NativeLibrary.arguments(arguments), describe(errno));
    }

    /// @return an error's name and text, and the remedy where one is known
    static String describe(int errno) {
        return Errno.describe(errno)
                + switch (errno) {
                    case Errno.EMFILE, Errno.ENFILE ->
                            "; raise the limit on open files (ulimit -n)";
                    case Errno.ETOOMANYREFS ->
                            "; as many descriptors as the limit on open files allows are on their"
                                    + " way to peers: raise it (ulimit -n)";
                    case Errno.ENOMEM, Errno.ENOSPC ->
                            "; free memory, or raise the container's memory limit or"
                                    + " vm.max_map_count";
                    default -> "";
                };
    }
}
