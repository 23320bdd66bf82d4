package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.BitSet;

/// Processes and threads: identity, other processes' memory and descriptors, CPUs, CPU time.
///
/// What is said of "the calling thread" holds for the carrier when called from a virtual thread.
public final class Processes {
    public static final int SYS_pidfd_open = 434;
    public static final int SYS_pidfd_getfd = 438;
    public static final int SYS_gettid = LibC.X86_64 ? 186 : 178;

    public static final int PR_GET_DUMPABLE = 3;
    public static final int PR_SET_DUMPABLE = 4;
    public static final int PR_SET_PTRACER = 0x59616d61;
    public static final long PR_SET_PTRACER_ANY = -1;

    public static final int RUSAGE_SELF = 0;
    public static final int RUSAGE_CHILDREN = -1;
    public static final int RUSAGE_THREAD = 1;

    public static final int SIGKILL = 9;
    public static final int SIGTERM = 15;
    public static final int SIGCONT = 18;
    public static final int SIGSTOP = 19;

    /// `struct rusage`: two `struct timeval` first, then 14 longs.
    static final int RUSAGE_BYTES = 144;

    static final int RUSAGE_USER_SECONDS = 0;
    static final int RUSAGE_USER_MICROS = 8;
    static final int RUSAGE_SYSTEM_SECONDS = 16;
    static final int RUSAGE_SYSTEM_MICROS = 24;

    /// Room for 8192 CPUs, the most that Linux can be built for.
    private static final int CPU_SET_BYTES = 1024;

    private static final FunctionDescriptor PROCESS_VM =
            FunctionDescriptor.of(
                    JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG,
                    ADDRESS);
    private static final FunctionDescriptor AFFINITY =
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS);

    /// `pid_t getpid(void)`
    private static final MethodHandle GETPID =
            LibC.linkPlain("getpid", FunctionDescriptor.of(JAVA_INT));

    /// `int kill(pid_t pid, int sig)`
    private static final MethodHandle KILL =
            LibC.link("kill", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));

    /// `long syscall(long number, ...)`: for what glibc 2.27 has no function for
    private static final MethodHandle SYSCALL =
            LibC.linkVariadic(
                    "syscall",
                    1,
                    FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    /// `ssize_t process_vm_readv(pid_t pid, const struct iovec *local_iov, unsigned long liovcnt,
    /// const struct iovec *remote_iov, unsigned long riovcnt, unsigned long flags)`
    private static final MethodHandle PROCESS_VM_READV =
            LibC.linkPlain("process_vm_readv", PROCESS_VM);

    /// The same with errno, for calls that have failed
    private static final MethodHandle PROCESS_VM_READV_AGAIN =
            LibC.link("process_vm_readv", PROCESS_VM);

    /// `ssize_t process_vm_writev(pid_t pid, const struct iovec *local_iov, unsigned long liovcnt,
    /// const struct iovec *remote_iov, unsigned long riovcnt, unsigned long flags)`
    private static final MethodHandle PROCESS_VM_WRITEV =
            LibC.linkPlain("process_vm_writev", PROCESS_VM);

    /// The same with errno, for calls that have failed
    private static final MethodHandle PROCESS_VM_WRITEV_AGAIN =
            LibC.link("process_vm_writev", PROCESS_VM);

    /// `int prctl(int option, ...)`
    private static final MethodHandle PRCTL =
            LibC.linkVariadic(
                    "prctl",
                    1,
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    /// `int sched_setaffinity(pid_t pid, size_t cpusetsize, const cpu_set_t *mask)`
    private static final MethodHandle SCHED_SETAFFINITY = LibC.link("sched_setaffinity", AFFINITY);

    /// `int sched_getaffinity(pid_t pid, size_t cpusetsize, cpu_set_t *mask)`
    private static final MethodHandle SCHED_GETAFFINITY = LibC.link("sched_getaffinity", AFFINITY);

    /// `int getrusage(int who, struct rusage *usage)`
    private static final MethodHandle GETRUSAGE =
            LibC.link("getrusage", FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS));

    private Processes() {}

    public static int getpid() {
        try {
            return (int) GETPID.invokeExact();
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// The kernel's number of the calling thread.
    public static int gettid() {
        return (int) syscall(SYS_gettid, 0, 0, 0);
    }

    /// Sends a signal; 0 only asks whether the process is there.
    public static int kill(int pid, int signal) {
        CallState call = CallState.current();
        try {
            return call.result((int) KILL.invokeExact(call.errno, pid, signal));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// A descriptor for a process (close-on-exec), readable in `poll` and `epoll` once it has
    /// ended.
    public static int pidfdOpen(int pid) {
        return (int) syscall(SYS_pidfd_open, pid, 0, 0);
    }

    /// Copies another process's descriptor into this one (close-on-exec). Needs the right to ptrace
    /// it.
    public static int pidfdGetfd(int pidfd, int targetFd) {
        return (int) syscall(SYS_pidfd_getfd, pidfd, targetFd, 0);
    }

    private static long syscall(int number, long first, long second, long third) {
        CallState call = CallState.current();
        try {
            return call.result(
                    (long) SYSCALL.invokeExact(call.errno, (long) number, first, second, third));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Reads another process's memory: `remote` into `local`, iovec arrays both. Returns the bytes
    /// transferred, which may be fewer than asked for; `keep` owns what `local` points at.
    public static long processVmReadv(
            int pid,
            MemorySegment local,
            int localCount,
            MemorySegment remote,
            int remoteCount,
            MemorySegment keep) {
        LibC.checkLength(local, (long) localCount * IoVec.BYTES);
        LibC.checkLength(remote, (long) remoteCount * IoVec.BYTES);
        long locals = localCount;
        long remotes = remoteCount;
        try {
            long result =
                    (long)
                            PROCESS_VM_READV.invokeExact(
                                    pid, local, locals, remote, remotes, 0L, keep);
            if (result >= 0) {
                return result;
            }
            CallState call = CallState.current();
            return call.result(
                    (long)
                            PROCESS_VM_READV_AGAIN.invokeExact(
                                    call.errno, pid, local, locals, remote, remotes, 0L, keep));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Writes another process's memory: `local` into `remote`, iovec arrays both. Returns the bytes
    /// transferred, which may be fewer than asked for; `keep` owns what `local` points at.
    public static long processVmWritev(
            int pid,
            MemorySegment local,
            int localCount,
            MemorySegment remote,
            int remoteCount,
            MemorySegment keep) {
        LibC.checkLength(local, (long) localCount * IoVec.BYTES);
        LibC.checkLength(remote, (long) remoteCount * IoVec.BYTES);
        long locals = localCount;
        long remotes = remoteCount;
        try {
            long result =
                    (long)
                            PROCESS_VM_WRITEV.invokeExact(
                                    pid, local, locals, remote, remotes, 0L, keep);
            if (result >= 0) {
                return result;
            }
            CallState call = CallState.current();
            return call.result(
                    (long)
                            PROCESS_VM_WRITEV_AGAIN.invokeExact(
                                    call.errno, pid, local, locals, remote, remotes, 0L, keep));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int prctl(int option, long argument) {
        CallState call = CallState.current();
        try {
            return call.result((int) PRCTL.invokeExact(call.errno, option, argument, 0L, 0L, 0L));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Lets the calling thread run on these CPUs only.
    public static int setAffinity(BitSet cpus) {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            byte[] bits = cpus.toByteArray();
            if (bits.length > CPU_SET_BYTES) {
                return -Errno.EINVAL;
            }
            MemorySegment mask = arena.allocate(CPU_SET_BYTES, 8);
            MemorySegment.copy(bits, 0, mask, ValueLayout.JAVA_BYTE, 0, bits.length);
            return call.result(
                    (int) SCHED_SETAFFINITY.invokeExact(call.errno, 0, mask.byteSize(), mask));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Fills `cpus` with the CPUs that the calling thread may run on. Returns 0.
    public static int getAffinity(BitSet cpus) {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment mask = arena.allocate(CPU_SET_BYTES, 8);
            int result =
                    call.result(
                            (int)
                                    SCHED_GETAFFINITY.invokeExact(
                                            call.errno, 0, mask.byteSize(), mask));
            if (result >= 0) {
                cpus.clear();
                cpus.or(BitSet.valueOf(mask.toArray(ValueLayout.JAVA_BYTE)));
            }
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// User and system time used so far, in microseconds, of the process, the calling thread or
    /// waited-for children.
    public static long cpuMicros(int who) {
        CallState call = CallState.current();
        MemorySegment usage = call.scratch;
        try {
            int result = call.result((int) GETRUSAGE.invokeExact(call.errno, who, usage));
            if (result < 0) {
                return result;
            }
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
        long seconds =
                usage.get(JAVA_LONG, RUSAGE_USER_SECONDS)
                        + usage.get(JAVA_LONG, RUSAGE_SYSTEM_SECONDS);
        return seconds * 1_000_000
                + usage.get(JAVA_LONG, RUSAGE_USER_MICROS)
                + usage.get(JAVA_LONG, RUSAGE_SYSTEM_MICROS);
    }
}
