package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DescriptorsTest {
    private final Arena arena = Arena.ofShared();

    @AfterEach
    void close() {
        arena.close();
    }

    @Test
    void filesAreReadAndWritten(@TempDir Path folder) {
        String path = folder.resolve("file").toString();
        assertThat(Descriptors.open(path, Descriptors.O_RDONLY, 0)).isEqualTo(-Errno.ENOENT);
        int flags =
                Descriptors.O_RDWR
                        | Descriptors.O_CREAT
                        | Descriptors.O_EXCL
                        | Descriptors.O_CLOEXEC;
        int fd = Descriptors.open(path, flags, 0600);
        assertThat(fd).isNotNegative();
        assertThat(Descriptors.open(path, flags, 0600)).isEqualTo(-Errno.EEXIST);

        MemorySegment text = arena.allocateFrom("telpher");
        assertThat(Descriptors.write(fd, text, 7)).isEqualTo(7);
        assertThat(Descriptors.pwrite(fd, text, 7, 3)).isEqualTo(7);
        MemorySegment back = arena.allocate(16);
        assertThat(Descriptors.pread(fd, back, 16, 0)).isEqualTo(10);
        assertThat(back.getString(0)).isEqualTo("teltelpher");
        assertThat(Descriptors.read(fd, back, 16)).isEqualTo(3);
        assertThat(Descriptors.read(fd, back, 16)).isZero();
        assertThat(Memory.size(fd)).isEqualTo(10);

        assertThat(Descriptors.close(fd)).isZero();
        assertThat(Descriptors.close(fd)).isEqualTo(-Errno.EBADF);
    }

    @Test
    void whatADescriptorStandsForIsTold(@TempDir Path folder) {
        int event = EventFd.create();
        assertThat(Descriptors.target(event)).isEqualTo("anon_inode:[eventfd]");
        assertThat(Descriptors.close(event)).isZero();
        assertThat(Descriptors.target(event)).isNull();
        String path = folder.resolve("f".repeat(250)).toString();
        int file = Descriptors.open(path, Descriptors.O_RDWR | Descriptors.O_CREAT, 0600);
        assertThat(Descriptors.target(file)).hasSize(256).isSubstringOf(path);
        assertThat(Descriptors.close(file)).isZero();
    }

    @Test
    void ownMemoryIsReachedThroughProc() {
        MemorySegment target = arena.allocate(8);
        MemorySegment source = arena.allocateFrom(ValueLayout.JAVA_LONG, 99);
        int fd = Descriptors.openProcessMemory(Processes.getpid(), Descriptors.O_RDWR);
        assertThat(fd).isNotNegative();
        assertThat(Descriptors.pwrite(fd, source, 8, target.address())).isEqualTo(8);
        assertThat(target.get(ValueLayout.JAVA_LONG, 0)).isEqualTo(99);
        assertThat(Descriptors.close(fd)).isZero();
    }

    @Test
    void flagsAreChanged() {
        int fd = EventFd.create(0, 0);
        assertThat(Descriptors.fcntl(fd, Descriptors.F_GETFL, 0) & Descriptors.O_NONBLOCK).isZero();
        assertThat(Descriptors.setNonBlocking(fd, true)).isZero();
        assertThat(Descriptors.fcntl(fd, Descriptors.F_GETFL, 0) & Descriptors.O_NONBLOCK)
                .isEqualTo(Descriptors.O_NONBLOCK);
        assertThat(EventFd.drain(fd)).isEqualTo(-Errno.EAGAIN);
        assertThat(Descriptors.setNonBlocking(fd, false)).isZero();
        assertThat(Descriptors.fcntl(fd, Descriptors.F_GETFL, 0) & Descriptors.O_NONBLOCK).isZero();
        assertThat(Descriptors.close(fd)).isZero();
        assertThat(Descriptors.setNonBlocking(-1, true)).isEqualTo(-Errno.EBADF);
    }

    @Test
    void duplicatesShareTheFile() {
        int fd = EventFd.create();
        int copy = Descriptors.duplicate(fd);
        assertThat(copy).isNotNegative().isNotEqualTo(fd);
        assertThat(EventFd.signal(fd, 5)).isZero();
        assertThat(Descriptors.close(fd)).isZero();
        assertThat(EventFd.drain(copy)).isEqualTo(5);
        assertThat(Descriptors.fcntl(copy, Descriptors.F_GETFD, 0))
                .isEqualTo(Descriptors.FD_CLOEXEC);
        assertThat(Descriptors.close(copy)).isZero();
    }

    @Test
    void theKernelStaysInsideTheSegment() {
        MemorySegment buffer = arena.allocate(8);
        assertThatThrownBy(() -> Descriptors.read(0, buffer, 9))
                .isInstanceOf(IndexOutOfBoundsException.class);
        assertThatThrownBy(() -> Descriptors.write(1, buffer, -1))
                .isInstanceOf(IndexOutOfBoundsException.class);
    }
}
