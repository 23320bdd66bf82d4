package io.telpher.internal.memory;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class SharedMemoryTest {
    @ParameterizedTest
    @ValueSource(longs = {0, 1, 4095, 4096, 5_000_000})
    void isZeroedAndHasTheSizeAskedFor(long bytes) {
        try (SharedMemory memory =
                SharedMemory.allocate(bytes, Access.READ_WRITE, SharedMemory.Pages.SMALL)) {
            MemorySegment segment = memory.segment();
            assertThat(segment.byteSize()).isEqualTo(bytes).isEqualTo(memory.bytes());
            assertThat(Memory.size(memory.memfd())).isGreaterThanOrEqualTo(Math.max(1, bytes));
            for (long i = 0; i < bytes; i++) {
                if (segment.get(JAVA_BYTE, i) != 0) {
                    throw new AssertionError("byte " + i);
                }
            }
            segment.fill((byte) 1);
        }
    }

    @ParameterizedTest
    @EnumSource(SharedMemory.Pages.class)
    void cannotBeResized(SharedMemory.Pages pages) {
        try (SharedMemory memory = SharedMemory.allocate(4 << 20, Access.READ_WRITE, pages)) {
            assertThat(Memory.ftruncate(memory.memfd(), 0)).isEqualTo(-Errno.EPERM);
            assertThat(Memory.ftruncate(memory.memfd(), 64 << 20)).isEqualTo(-Errno.EPERM);
            assertThat(memory.detail()).isNotEmpty();
        }
    }

    @ParameterizedTest
    @EnumSource(Access.class)
    void whoeverHasTheFileCannotRefuseItToOthers(Access access) {
        try (SharedMemory memory = SharedMemory.allocate(4096, access, SharedMemory.Pages.SMALL)) {
            assertThat(Memory.addSeals(memory.memfd(), Memory.F_SEAL_FUTURE_WRITE))
                    .isEqualTo(-Errno.EPERM);
            assertThat(Seals.fixSize(Memory.getSeals(memory.memfd()))).isTrue();
        }
    }

    @ParameterizedTest
    @EnumSource(Access.class)
    void othersMapItWritableOnlyIfTheyMayWrite(Access access) {
        try (SharedMemory memory = SharedMemory.allocate(4096, access, SharedMemory.Pages.SMALL)) {
            memory.segment().set(JAVA_BYTE, 0, (byte) 5);
            int both = Memory.PROT_READ | Memory.PROT_WRITE;
            long writable = Memory.mmap(0, 4096, both, Memory.MAP_SHARED, memory.memfd(), 0);
            if (access.canWrite()) {
                assertThat(writable).isPositive();
                Memory.munmap(writable, 4096);
            } else {
                assertThat(writable).isEqualTo(-Errno.EPERM);
            }
            long readable =
                    Memory.mmap(0, 4096, Memory.PROT_READ, Memory.MAP_SHARED, memory.memfd(), 0);
            assertThat(Memory.segment(readable, 1).get(JAVA_BYTE, 0)).isEqualTo((byte) 5);
            Memory.munmap(readable, 4096);
        }
    }

    @Test
    void theSegmentIsRefusedAfterClose() {
        SharedMemory memory = SharedMemory.allocate(100, Access.READ, SharedMemory.Pages.SMALL);
        memory.close();
        memory.close();
        assertThatThrownBy(() -> memory.segment().get(JAVA_BYTE, 0))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void moreThanTheMachineHasIsRefused() {
        assertThatThrownBy(
                        () ->
                                SharedMemory.allocate(
                                        1L << 50, Access.READ, SharedMemory.Pages.SMALL))
                .isInstanceOf(TelpherException.NativeFailure.class)
                .hasMessageContaining(Long.toString(1L << 50))
                .hasMessageContaining("smaller region");
        assertThatThrownBy(() -> SharedMemory.allocate(-1, Access.READ, SharedMemory.Pages.SMALL))
                .isInstanceOf(IllegalArgumentException.class);
    }
}
