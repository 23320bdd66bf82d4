package io.telpher.cli.doctor;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.linux.IoVec;
import io.telpher.internal.ffi.linux.Processes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;

/// A word of memory and a descriptor that another process is to reach, and reaching another's.
final class Reach implements AutoCloseable {
    private static final VarHandle WORD = JAVA_LONG.varHandle();

    private final Arena arena = Arena.ofShared();
    private final MemorySegment word = arena.allocate(JAVA_LONG);
    private final int descriptor = EventFd.create();

    /// @return how another process names the word and the descriptor
    String text() {
        return word.address() + " " + descriptor;
    }

    /// @return what is in the word
    long value() {
        return (long) WORD.getAcquire(word, 0L);
    }

    /// Writes into the word of another process.
    Probes.Result write(int pid, long address, long value) {
        MemorySegment source = arena.allocate(JAVA_LONG);
        source.set(JAVA_LONG, 0, value);
        IoVec local = new IoVec(arena, 1);
        IoVec remote = new IoVec(arena, 1);
        local.add(source);
        remote.add(address, Long.BYTES);
        long written =
                Processes.processVmWritev(pid, local.segment(), 1, remote.segment(), 1, source);
        int error = written < 0 ? (int) -written : written == Long.BYTES ? 0 : Errno.EFAULT;
        return new Probes.Result("process_vm_writev", error);
    }

    /// Copies a descriptor of another process into this one, and closes it.
    Probes.Result copyDescriptor(int pid, int theirs) {
        int pidfd = Processes.pidfdOpen(pid);
        if (pidfd < 0) {
            return new Probes.Result("pidfd_open", -pidfd);
        }
        int copy = Processes.pidfdGetfd(pidfd, theirs);
        int unused = Descriptors.close(pidfd);
        if (copy < 0) {
            return new Probes.Result("pidfd_getfd", -copy);
        }
        unused = Descriptors.close(copy);
        return new Probes.Result("pidfd_getfd", 0);
    }

    @Override
    public void close() {
        if (descriptor >= 0) {
            int unused = Descriptors.close(descriptor);
        }
        arena.close();
    }
}
