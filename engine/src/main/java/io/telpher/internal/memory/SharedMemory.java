package io.telpher.internal.memory;

import io.telpher.Access;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// Memory in a memfd of its own, so that peers on this host can map it and store straight into it.
///
/// The file is sealed against shrinking and growing before anybody else sees it: an importer that
/// checked its size can never run into a bus error. All pages are there from the start, so neither
/// side pays for page faults later, and a machine that is short of memory says so here and not in
/// the middle of a copy. Where peers may not write, the file is also sealed against new writable
/// mappings: the kernel then holds even a peer that does not keep the rules to reading.
///
/// The segment belongs to a shared arena of this object: after [#close()] every use of it throws.
/// Peers that still have the file mapped keep its pages, but nobody here sees them any more.
///
/// Thread-safe.
public final class SharedMemory implements AutoCloseable {
    private static final long HUGE_PAGE = 2L << 20;
    private static final Path SHMEM_ENABLED =
            Path.of("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    private static final long WORTH_ASKING = 1L << 20;
    private static final AtomicInteger NUMBER = new AtomicInteger();

    /// Which pages are wanted.
    public enum Pages {
        /// The kernel's small pages.
        SMALL,
        /// Huge pages from the pool, else transparent ones, else small ones.
        HUGE
    }

    private final Arena arena = Arena.ofShared();
    private final MemorySegment segment;
    private final Access access;
    private final int memfd;
    private final String detail;
    private boolean closed;

    /// Takes a mapping and its file over.
    private SharedMemory(
            long address, long length, long bytes, Access access, int memfd, String detail) {
        this.segment = Memory.owned(address, length, arena).asSlice(0, bytes);
        this.access = access;
        this.memfd = memfd;
        this.detail = detail;
    }

    /// Allocates zeroed memory.
    ///
    /// @param bytes how many; 0 is legal
    /// @param access what peers may do: decides about the seals
    /// @param pages which pages are wanted; [#detail()] tells what came of it
    /// @throws TelpherException.NativeFailure when the system does not give that much
    public static SharedMemory allocate(long bytes, Access access, Pages pages) {
        if (bytes < 0 || bytes > Long.MAX_VALUE - HUGE_PAGE) {
            throw new IllegalArgumentException("cannot allocate " + bytes + " bytes");
        }
        checkAvailable(bytes);
        if (pages == Pages.HUGE && bytes >= HUGE_PAGE) {
            SharedMemory pooled = ofPool(bytes, access);
            return pooled != null ? pooled : ofSmallPages(bytes, access, Pages.HUGE);
        }
        return ofSmallPages(bytes, access, Pages.SMALL);
    }

    /// Tries the pool of huge pages that the administrator reserved; mapping reserves the pages, so
    /// an empty pool fails here and not at the first touch.
    private static @Nullable SharedMemory ofPool(long bytes, Access access) {
        int flags = Memory.MFD_CLOEXEC | Memory.MFD_ALLOW_SEALING | Memory.MFD_HUGETLB;
        int fd = Memory.memfdCreate(name(), flags);
        if (fd < 0) {
            return null;
        }
        long length = roundUp(bytes, HUGE_PAGE);
        if (Memory.ftruncate(fd, length) == 0) {
            long address = map(fd, length);
            if (address > 0) {
                if (populate(address, length, fd) == 0 && Seals.seal(fd, access.canWrite()) >= 0) {
                    return new SharedMemory(
                            address, length, bytes, access, fd, "huge pages of the pool");
                }
                unmap(address, length);
            }
        }
        closeQuietly(fd);
        return null;
    }

    private static SharedMemory ofSmallPages(long bytes, Access access, Pages pages) {
        int fd = Memory.memfdCreate(name(), Memory.MFD_CLOEXEC | Memory.MFD_ALLOW_SEALING);
        if (fd < 0) {
            throw failure(-fd, bytes, "memfd_create");
        }
        long length = roundUp(Math.max(bytes, 1), Memory.pageSize());
        int sized = Memory.ftruncate(fd, length);
        if (sized < 0) {
            closeQuietly(fd);
            throw failure(-sized, bytes, "ftruncate");
        }
        long address = map(fd, length);
        if (address < 0) {
            closeQuietly(fd);
            throw failure((int) -address, bytes, "mmap");
        }
        String detail = "small pages";
        if (pages == Pages.HUGE) {
            int advised = Memory.madvise(address, length, Memory.MADV_HUGEPAGE);
            detail = advised < 0 ? "small pages: " + Errno.describe(-advised) : transparentDetail();
        }
        int populated = populate(address, length, fd);
        int sealed = populated < 0 ? populated : Seals.seal(fd, access.canWrite());
        if (sealed < 0) {
            unmap(address, length);
            closeQuietly(fd);
            throw populated < 0
                    ? failure(-populated, bytes, "madvise", "MADV_POPULATE_WRITE")
                    : failure(-sealed, bytes, "fcntl", "F_ADD_SEALS");
        }
        return new SharedMemory(address, length, bytes, access, fd, detail);
    }

    private static long map(int fd, long length) {
        int protection = Memory.PROT_READ | Memory.PROT_WRITE;
        return Memory.mmap(0, length, protection, Memory.MAP_SHARED, fd, 0);
    }

    /// Makes all pages exist. Kernels before 5.14 do not know the advice: a second, populating
    /// mapping of the same file does it there, without telling whether it was complete.
    private static int populate(long address, long length, int fd) {
        int result;
        do {
            result = Memory.madvise(address, length, Memory.MADV_POPULATE_WRITE);
        } while (result == -Errno.EINTR || result == -Errno.EAGAIN);
        if (result != -Errno.EINVAL) {
            return result;
        }
        int flags = Memory.MAP_SHARED | Memory.MAP_POPULATE;
        long second = Memory.mmap(0, length, Memory.PROT_READ | Memory.PROT_WRITE, flags, fd, 0);
        if (second < 0) {
            return (int) second;
        }
        unmap(second, length);
        return 0;
    }

    private static String transparentDetail() {
        try {
            String enabled = Files.readString(SHMEM_ENABLED);
            return enabled.contains("[never]") || enabled.contains("[deny]")
                    ? "small pages: the pool of huge pages is too small and "
                            + SHMEM_ENABLED
                            + " says never; write 'advise' there, or raise vm.nr_hugepages"
                    : "transparent huge pages where the kernel finds them";
        } catch (IOException e) {
            return "small pages: this kernel has no transparent huge pages for shared memory";
        }
    }

    /// Refuses what is not there: populating it would wake the kernel's OOM killer instead of
    /// failing. An estimate; others may take the memory in the meantime. Not for little memory:
    /// asking costs more than populating it.
    private static void checkAvailable(long bytes) {
        if (bytes < WORTH_ASKING) {
            return;
        }
        AvailableMemory available = AvailableMemory.of(Path.of("/"));
        if (bytes > available.bytes()) {
            throw new TelpherException.NativeFailure(
                    "allocate",
                    Errno.ENOMEM,
                    List.of(bytes + " bytes of shared memory"),
                    "only %d bytes are available %s; %sregister a smaller region"
                            .formatted(available.bytes(), available.where(), available.remedy()));
        }
    }

    private static TelpherException failure(
            int errno, long bytes, String call, String... arguments) {
        String remedy =
                switch (errno) {
                    case Errno.ENOMEM, Errno.ENOSPC, Errno.EFAULT ->
                            "; free memory, raise the container's memory limit (and vm.nr_hugepages"
                                    + " for huge pages), or register a smaller region";
                    case Errno.EMFILE, Errno.ENFILE ->
                            "; every region needs a file descriptor: raise the limit (ulimit -n)";
                    default -> "";
                };
        List<String> all = new ArrayList<>(List.of(arguments));
        all.add(bytes + " bytes of shared memory");
        return new TelpherException.NativeFailure(call, errno, all, Errno.describe(errno) + remedy);
    }

    private static String name() {
        return "telpher-region-" + NUMBER.incrementAndGet();
    }

    private static long roundUp(long bytes, long unit) {
        return (bytes + unit - 1) / unit * unit;
    }

    private static void unmap(long address, long length) {
        int unused = Memory.munmap(address, length);
    }

    private static void closeQuietly(int fd) {
        int unused = Descriptors.close(fd);
    }

    /// @return the bytes; every use after [#close()] throws
    public MemorySegment segment() {
        return segment;
    }

    /// @return how many bytes were asked for
    public long bytes() {
        return segment.byteSize();
    }

    /// @return what peers may do
    public Access access() {
        return access;
    }

    /// @return the file's descriptor, owned by this object; the file starts with the segment
    public int memfd() {
        return memfd;
    }

    /// @return what kind of pages it has, and why not others; for people
    public String detail() {
        return detail;
    }

    /// Unmaps the memory and closes the file. Closing again does nothing.
    ///
    /// @throws TelpherException.RegionBusy when a native call works on the segment at this moment;
    ///     nothing has happened then, close again later
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        try {
            arena.close();
        } catch (IllegalStateException e) {
            throw new TelpherException.RegionBusy(
                    "shared memory of "
                            + bytes()
                            + " bytes is in use by a native call; close it again after that");
        }
        closed = true;
        closeQuietly(memfd);
    }
}
