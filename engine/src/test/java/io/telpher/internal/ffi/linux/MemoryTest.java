package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class MemoryTest {
    private static final int READ_WRITE = Memory.PROT_READ | Memory.PROT_WRITE;

    private final int page = Memory.pageSize();
    private int fd;

    @BeforeEach
    void create() {
        fd = Memory.memfdCreate("telpher-test", Memory.MFD_CLOEXEC | Memory.MFD_ALLOW_SEALING);
        assertThat(fd).isNotNegative();
        assertThat(Memory.ftruncate(fd, 4L * page)).isZero();
    }

    @AfterEach
    void close() {
        assertThat(Descriptors.close(fd)).isZero();
    }

    @Test
    void sealedMemoryKeepsItsSize() {
        int seals = Memory.F_SEAL_SHRINK | Memory.F_SEAL_GROW | Memory.F_SEAL_SEAL;
        assertThat(Memory.addSeals(fd, seals)).isZero();

        assertThat(Memory.getSeals(fd)).isEqualTo(seals);
        assertThat(Memory.ftruncate(fd, page)).isEqualTo(-Errno.EPERM);
        assertThat(Memory.ftruncate(fd, 8L * page)).isEqualTo(-Errno.EPERM);
        assertThat(Memory.addSeals(fd, Memory.F_SEAL_WRITE)).isEqualTo(-Errno.EPERM);
        assertThat(Memory.size(fd)).isEqualTo(4L * page);
    }

    @Test
    void readOnlyRegionRefusesNewWritableMappings() {
        long owner = map();
        assumeThat(Memory.addSeals(fd, Memory.F_SEAL_FUTURE_WRITE))
                .as("F_SEAL_FUTURE_WRITE needs Linux 5.1")
                .isZero();

        assertThat(Memory.mmap(0, page, READ_WRITE, Memory.MAP_SHARED, fd, 0))
                .isEqualTo(-Errno.EPERM);
        long reader = Memory.mmap(0, page, Memory.PROT_READ, Memory.MAP_SHARED, fd, 0);
        assertThat(reader).isPositive();
        Memory.segment(owner, page).set(ValueLayout.JAVA_INT, 0, 42);
        assertThat(Memory.segment(reader, page).get(ValueLayout.JAVA_INT, 0)).isEqualTo(42);

        assertThat(Memory.munmap(reader, page)).isZero();
        assertThat(Memory.munmap(owner, 4L * page)).isZero();
    }

    @Test
    void twoMappingsShareTheMemory() {
        long first = map();
        long second = map();
        assertThat(second).isNotEqualTo(first);

        Memory.segment(first, 4L * page).set(ValueLayout.JAVA_LONG, page, 0x1234_5678_9abc_def0L);
        assertThat(Memory.segment(second, 4L * page).get(ValueLayout.JAVA_LONG, page))
                .isEqualTo(0x1234_5678_9abc_def0L);

        assertThat(Memory.munmap(first, 4L * page)).isZero();
        assertThat(Memory.munmap(second, 4L * page)).isZero();
    }

    @Test
    void aPrivateCopyCanReplaceASharedView() {
        long owner = map();
        long view = map();
        long copy =
                Memory.mmap(
                        0, 4L * page, READ_WRITE, Memory.MAP_PRIVATE | Memory.MAP_ANONYMOUS, -1, 0);
        Memory.segment(copy, 4L * page).set(ValueLayout.JAVA_INT, 0, 7);

        assertThat(
                        Memory.mremap(
                                copy,
                                4L * page,
                                4L * page,
                                Memory.MREMAP_MAYMOVE | Memory.MREMAP_FIXED,
                                view))
                .isEqualTo(view);

        MemorySegment abandoned = Memory.segment(view, 4L * page);
        assertThat(abandoned.get(ValueLayout.JAVA_INT, 0)).isEqualTo(7);
        abandoned.set(ValueLayout.JAVA_INT, 0, 8);
        assertThat(Memory.segment(owner, 4L * page).get(ValueLayout.JAVA_INT, 0)).isZero();
        assertThat(isMapped(copy)).isFalse();

        assertThat(Memory.munmap(view, 4L * page)).isZero();
        assertThat(Memory.munmap(owner, 4L * page)).isZero();
    }

    @Test
    void advice() {
        long address = map();
        assertThat(Memory.madvise(address, 4L * page, Memory.MADV_DONTFORK)).isZero();
        assertThat(Memory.madvise(address, 4L * page, Memory.MADV_POPULATE_WRITE))
                .as("0, or EINVAL before Linux 5.14")
                .isIn(0, -Errno.EINVAL);
        assertThat(Memory.madvise(address + 1, page, Memory.MADV_DONTFORK))
                .isEqualTo(-Errno.EINVAL);
        assertThat(Memory.mprotect(address, page, Memory.PROT_READ)).isZero();
        assertThat(Memory.munmap(address, 4L * page)).isZero();
    }

    @Test
    void failuresAreNegative() {
        assertThat(Memory.mmap(0, 0, READ_WRITE, Memory.MAP_SHARED, fd, 0))
                .isEqualTo(-Errno.EINVAL);
        assertThat(Memory.mmap(0, page, READ_WRITE, Memory.MAP_SHARED, -1, 0))
                .isEqualTo(-Errno.EBADF);
        assertThat(Memory.mmap(0, 1L << 60, READ_WRITE, Memory.MAP_SHARED, fd, 0))
                .isEqualTo(-Errno.ENOMEM);
        assertThat(Memory.munmap(1, page)).isEqualTo(-Errno.EINVAL);
        assertThat(Memory.size(-1)).isEqualTo(-Errno.EBADF);
        assertThat(Memory.memfdCreate("x".repeat(300), 0)).isEqualTo(-Errno.EINVAL);
    }

    @Test
    void ownedMappingEndsWithItsArena() {
        long address = map();
        MemorySegment mapping;
        try (Arena arena = Arena.ofShared()) {
            mapping = Memory.owned(address, 4L * page, arena);
            mapping.set(ValueLayout.JAVA_INT, 0, 1);
            assertThat(isMapped(address)).isTrue();
        }
        assertThat(isMapped(address)).isFalse();
        assertThatThrownBy(() -> mapping.get(ValueLayout.JAVA_INT, 0))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void viewInAnArenaOutlivesItsMappingByNothing() {
        long address = map();
        MemorySegment view;
        try (Arena arena = Arena.ofShared()) {
            view = Memory.segment(address, 4L * page, arena);
            assertThat(view.byteSize()).isEqualTo(4L * page);
        }
        assertThat(isMapped(address)).isTrue();
        assertThatThrownBy(() -> view.get(ValueLayout.JAVA_INT, 0))
                .isInstanceOf(IllegalStateException.class);
        assertThat(Memory.munmap(address, 4L * page)).isZero();
    }

    private long map() {
        long address = Memory.mmap(0, 4L * page, READ_WRITE, Memory.MAP_SHARED, fd, 0);
        assertThat(address).isPositive();
        return address;
    }

    private boolean isMapped(long address) {
        return Memory.madvise(address, page, Memory.MADV_DOFORK) != -Errno.ENOMEM;
    }
}
