package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ProcessesTest {
    private final Arena arena = Arena.ofShared();

    @AfterEach
    void close() {
        arena.close();
    }

    @Test
    void identity() throws Exception {
        assertThat(Processes.getpid()).isEqualTo((int) ProcessHandle.current().pid());
        int other = onOtherThread(Processes::gettid);
        assertThat(other).isPositive().isNotEqualTo(Processes.gettid());
        assertThat(Processes.kill(Processes.getpid(), 0)).isZero();
    }

    @Test
    void vectorsAreWrittenAndReadInThisProcess() {
        MemorySegment source = arena.allocateFrom("abcdefgh");
        MemorySegment target = arena.allocate(16);
        IoVec local = new IoVec(arena, 2);
        local.add(source.asSlice(0, 3));
        local.add(source.asSlice(5, 3));
        IoVec remote = new IoVec(arena, 1);
        remote.add(target.asSlice(1, 6));
        int pid = Processes.getpid();

        long written =
                Processes.processVmWritev(
                        pid,
                        local.segment(),
                        local.count(),
                        remote.segment(),
                        remote.count(),
                        source);
        assumeThat(written)
                .as("process_vm_writev is forbidden here")
                .isNotIn((long) -Errno.EPERM, (long) -Errno.ENOSYS);
        assertThat(written).isEqualTo(6);
        assertThat(target.getString(1)).isEqualTo("abcfgh");

        MemorySegment back = arena.allocate(8);
        IoVec into = new IoVec(arena, 1);
        into.add(back.asSlice(0, 6));
        assertThat(Processes.processVmReadv(pid, into.segment(), 1, remote.segment(), 1, back))
                .isEqualTo(6);
        assertThat(back.getString(0)).isEqualTo("abcfgh");

        remote.set(0, 8, 6);
        assertThat(Processes.processVmReadv(pid, into.segment(), 1, remote.segment(), 1, back))
                .isEqualTo(-Errno.EFAULT);
        assertThat(Processes.processVmReadv(1 << 30, into.segment(), 1, remote.segment(), 1, back))
                .isEqualTo(-Errno.ESRCH);
    }

    @Test
    void aChildIsWrittenAndItsEndIsNoticed() throws Exception {
        Process child = new ProcessBuilder("cat").start();
        try {
            int pid = (int) child.pid();
            // The last bytes of the stack: the name of the program, which it looks at no more.
            long address = endOfStack(pid) - 16;
            MemorySegment bytes = arena.allocateFrom(ValueLayout.JAVA_LONG, 0x1122334455667788L);
            IoVec local = new IoVec(arena, 1);
            IoVec remote = new IoVec(arena, 1);
            local.add(bytes);
            remote.add(address, 8);
            long written =
                    Processes.processVmWritev(pid, local.segment(), 1, remote.segment(), 1, bytes);
            assumeThat(written)
                    .as("process_vm_writev is forbidden here")
                    .isNotIn((long) -Errno.EPERM, (long) -Errno.ENOSYS);
            assertThat(written).isEqualTo(8);
            int memory = Descriptors.openProcessMemory(pid, Descriptors.O_RDONLY);
            MemorySegment back = arena.allocate(8);
            assertThat(Descriptors.pread(memory, back, 8, address)).isEqualTo(8);
            assertThat(back.get(ValueLayout.JAVA_LONG, 0)).isEqualTo(0x1122334455667788L);

            int pidfd = Processes.pidfdOpen(pid);
            assertThat(pidfd).isNotNegative();
            assertThat(Poll.poll(pidfd, Poll.POLLIN, 0)).isZero();
            assertThat(Processes.kill(pid, Processes.SIGKILL)).isZero();
            assertThat(Poll.poll(pidfd, Poll.POLLIN, 10_000) & Poll.POLLIN).isEqualTo(Poll.POLLIN);
            child.waitFor();
            assertThat(Descriptors.pread(memory, back, 8, address))
                    .as("the memory of an ended process")
                    .isNotEqualTo(8);
            assertThat(Processes.pidfdOpen(pid)).isEqualTo(-Errno.ESRCH);
            assertThat(Descriptors.close(pidfd)).isZero();
            assertThat(Descriptors.close(memory)).isZero();
        } finally {
            child.destroyForcibly().waitFor();
        }
    }

    private static long endOfStack(int pid) throws Exception {
        // Between fork and exec the child still has the memory of the JVM, or of its helper.
        Path executable = Path.of("/proc", Integer.toString(pid), "exe");
        while (!Files.readSymbolicLink(executable).endsWith("cat")
                && !Files.readSymbolicLink(executable).endsWith("busybox")
                && !Files.readSymbolicLink(executable).endsWith("coreutils")) {
            Thread.sleep(1);
        }
        try (var lines = Files.lines(Path.of("/proc", Integer.toString(pid), "maps"))) {
            String stack = lines.filter(line -> line.endsWith("[stack]")).findFirst().orElseThrow();
            String end = stack.substring(stack.indexOf('-') + 1, stack.indexOf(' '));
            return Long.parseUnsignedLong(end, 16);
        }
    }

    @Test
    void descriptorsOfAProcessAreCopied() {
        int pidfd = Processes.pidfdOpen(Processes.getpid());
        int event = EventFd.create();
        int copy = Processes.pidfdGetfd(pidfd, event);
        assumeThat(copy).as("pidfd_getfd is forbidden here").isNotIn(-Errno.EPERM, -Errno.ENOSYS);
        assertThat(EventFd.signal(copy, 3)).isZero();
        assertThat(EventFd.drain(event)).isEqualTo(3);
        assertThat(Processes.pidfdGetfd(pidfd, -1)).isEqualTo(-Errno.EBADF);
        for (int fd : new int[] {copy, event, pidfd}) {
            assertThat(Descriptors.close(fd)).isZero();
        }
    }

    @Test
    void processAttributes() {
        assertThat(Processes.prctl(Processes.PR_GET_DUMPABLE, 0)).isBetween(0, 2);
        assertThat(Processes.prctl(-1, 0)).isEqualTo(-Errno.EINVAL);
        assertThat(Processes.prctl(Processes.PR_SET_PTRACER, 0))
                .as("0, or EINVAL without Yama")
                .isIn(0, -Errno.EINVAL);
    }

    @Test
    void aThreadIsPinned() throws Exception {
        BitSet before = new BitSet();
        assertThat(Processes.getAffinity(before)).isZero();
        assertThat(before.isEmpty()).isFalse();

        BitSet pinned =
                onOtherThread(
                        () -> {
                            BitSet one = new BitSet();
                            one.set(before.length() - 1);
                            assertThat(Processes.setAffinity(one)).isZero();
                            BitSet after = new BitSet();
                            assertThat(Processes.getAffinity(after)).isZero();
                            return after;
                        });
        assertThat(pinned.cardinality()).isEqualTo(1);
        assertThat(pinned.get(before.length() - 1)).isTrue();

        BitSet after = new BitSet();
        assertThat(Processes.getAffinity(after)).isZero();
        assertThat(after).isEqualTo(before);
        assertThat(Processes.setAffinity(new BitSet())).isEqualTo(-Errno.EINVAL);
    }

    @Test
    void cpuTimeGrows() {
        long process = Processes.cpuMicros(Processes.RUSAGE_SELF);
        long thread = Processes.cpuMicros(Processes.RUSAGE_THREAD);
        while (Processes.cpuMicros(Processes.RUSAGE_THREAD) < thread + 20_000) {
            Thread.onSpinWait();
        }
        assertThat(Processes.cpuMicros(Processes.RUSAGE_SELF) - process)
                .isGreaterThanOrEqualTo(19_000);
        assertThat(Processes.cpuMicros(4711)).isEqualTo(-Errno.EINVAL);
    }

    @Test
    void environmentIsThatOfTheProcess() {
        assertThat(Environment.getenv("PATH")).isEqualTo(System.getenv("PATH"));
        assertThat(Environment.getenv("TELPHER_NO_SUCH_VARIABLE")).isNull();
    }

    private static <T> T onOtherThread(Callable<T> task) throws Exception {
        FutureTask<T> future = new FutureTask<>(task);
        Thread.ofPlatform().start(future);
        return future.get();
    }
}
