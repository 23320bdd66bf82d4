package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.IoVec;
import io.telpher.internal.ffi.linux.Processes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Another process's memory, as long as it is the same program. Thread-safe; nothing allocates
/// after a thread's first call.
///
/// Small ranges go through `/proc/PID/mem`: one system call, and the descriptor stands for the
/// program that it was opened for, so after `exec` it transfers nothing. The kernel copies twice
/// there, so larger ranges go through `process_vm_writev` and `process_vm_readv`, which name the
/// process by its pid: for those the cookie is read first.
final class ProcessMemory implements AutoCloseable {
    /// Up to here one call with two copies is faster than two calls with one.
    static final long SMALL = 8 << 10;

    private static final int NONE = -1;
    private static final int UNOPENED = -2;

    private static final ThreadLocal<Vectors> VECTORS = ThreadLocal.withInitial(Vectors::new);

    private final int pid;
    private final long cookieAddress;
    private final MemorySegment cookie;

    /// `/proc/PID/mem`, or one of the two above.
    private volatile int file = UNOPENED;

    /// @param pid the process as this one sees it
    /// @param cookieAddress where its cookie lies
    /// @param cookie what must be there
    ProcessMemory(int pid, long cookieAddress, byte[] cookie) {
        this.pid = pid;
        this.cookieAddress = cookieAddress;
        this.cookie = Arena.ofAuto().allocateFrom(JAVA_BYTE, cookie);
    }

    /// The arguments of one call, kept by each thread.
    private static final class Vectors {
        private final Arena arena = Arena.ofAuto();
        private final IoVec local = new IoVec(arena, 2);
        private final IoVec remote = new IoVec(arena, 2);
        private final MemorySegment seen = arena.allocate(ProcessCookie.BYTES, 8);
    }

    /// Tries to read the cookie.
    ///
    /// @return null when it works, else why not and what to do about it
    @Nullable String probe() {
        if (pid == 0) {
            return "the peer's process cannot be seen from this PID namespace; run both in one";
        }
        long result = readCookie(VECTORS.get());
        if (result == ProcessCookie.BYTES) {
            return null;
        }
        if (result == -Errno.EPERM) {
            return "process_vm_readv: EPERM: the peer runs as another user or in another user"
                    + " namespace, is not dumpable, or kernel.yama.ptrace_scope forbids it; set"
                    + " that to 0, add CAP_SYS_PTRACE, or use memory that Telpher allocates";
        }
        if (result == -Errno.ENOSYS) {
            return "process_vm_readv: ENOSYS: allow it in the container's seccomp profile";
        }
        return result < 0
                ? "process_vm_readv: " + Errno.describe((int) -result)
                : "process " + pid + " is not the peer: it does not have the peer's cookie";
    }

    /// @return whether the process is still the same program
    boolean isThere() {
        return readCookie(VECTORS.get()) == ProcessCookie.BYTES;
    }

    /// Opens `/proc/PID/mem` at the first small copy, and keeps it if it shows the cookie: the
    /// process may have become another program in between. Without it everything takes the longer
    /// way.
    private synchronized void openFile() {
        if (file != UNOPENED) {
            return;
        }
        file = NONE;
        int fd = Descriptors.openProcessMemory(pid, Descriptors.O_RDWR);
        if (fd < 0) {
            return;
        }
        MemorySegment seen = VECTORS.get().seen;
        long read = Descriptors.pread(fd, seen, ProcessCookie.BYTES, cookieAddress);
        if (read == ProcessCookie.BYTES && seen.mismatch(cookie) < 0) {
            file = fd;
        } else {
            Mapping.closeDescriptor(fd);
        }
    }

    private boolean hasFile() {
        if (file == UNOPENED) {
            openFile();
        }
        return file >= 0;
    }

    /// @return the cookie's length when the process is still the same program
    private long readCookie(Vectors vectors) {
        vectors.local.clear();
        vectors.remote.clear();
        vectors.local.add(vectors.seen);
        vectors.remote.add(cookieAddress, ProcessCookie.BYTES);
        long result =
                Processes.processVmReadv(
                        pid, vectors.local.segment(), 1, vectors.remote.segment(), 1, vectors.seen);
        return result == ProcessCookie.BYTES && vectors.seen.mismatch(cookie) >= 0 ? 0 : result;
    }

    /// Copies local bytes into the process.
    ///
    /// @param at where they start in `local`, which is native
    /// @param to address in the process
    /// @return bytes copied; 0 or less when the process cannot be reached any more
    long write(MemorySegment local, long at, long to, long bytes) {
        if (bytes <= SMALL && hasFile()) {
            return Descriptors.pwrite(file, local, at, bytes, to);
        }
        Vectors vectors = VECTORS.get();
        long seen = readCookie(vectors);
        if (seen != ProcessCookie.BYTES) {
            return Math.min(seen, 0);
        }
        vectors.local.clear();
        vectors.remote.clear();
        vectors.local.add(local.address() + at, bytes);
        vectors.remote.add(to, bytes);
        return Processes.processVmWritev(
                pid, vectors.local.segment(), 1, vectors.remote.segment(), 1, local);
    }

    /// Copies the process's bytes here. Cookie and bytes come in one call.
    ///
    /// @param at where they go in `local`, which is native
    /// @param from address in the process
    /// @return bytes copied; 0 or less when the process cannot be reached any more
    long read(MemorySegment local, long at, long from, long bytes) {
        if (bytes <= SMALL && hasFile()) {
            return Descriptors.pread(file, local, at, bytes, from);
        }
        Vectors vectors = VECTORS.get();
        vectors.local.clear();
        vectors.remote.clear();
        vectors.local.add(vectors.seen);
        vectors.local.add(local.address() + at, bytes);
        vectors.remote.add(cookieAddress, ProcessCookie.BYTES);
        vectors.remote.add(from, bytes);
        long result =
                Processes.processVmReadv(
                        pid, vectors.local.segment(), 2, vectors.remote.segment(), 2, local);
        if (result < 0) {
            return result;
        }
        if (result < ProcessCookie.BYTES || vectors.seen.mismatch(cookie) >= 0) {
            return 0;
        }
        return result - ProcessCookie.BYTES;
    }

    /// Nobody uses it any more.
    @Override
    public synchronized void close() {
        Mapping.closeDescriptor(file);
        file = NONE;
    }
}
