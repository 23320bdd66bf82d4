package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class IoVecTest {
    private final Arena arena = Arena.ofShared();
    private final IoVec iov = new IoVec(arena, 4);

    @BeforeEach
    void threePieces() {
        iov.add(0x1000, 10);
        iov.add(0x2000, 0);
        iov.add(0x3000, 30);
    }

    @AfterEach
    void close() {
        arena.close();
    }

    @Test
    void advancingInsideAnEntryShortensIt() {
        assertThat(iov.advance(4)).isEqualTo(3);
        assertThat(iov.address(0)).isEqualTo(0x1004);
        assertThat(iov.length(0)).isEqualTo(6);
        assertThat(iov.remaining()).isEqualTo(36);
    }

    @Test
    void advancingOverEntriesDropsThemAndTheEmptyOnesBehind() {
        assertThat(iov.advance(10)).isEqualTo(1);
        assertThat(iov.address(0)).isEqualTo(0x3000);
        assertThat(iov.length(0)).isEqualTo(30);
    }

    @Test
    void advancingOverEverythingLeavesNothing() {
        assertThat(iov.advance(40)).isZero();
        assertThat(iov.remaining()).isZero();
        iov.add(0x4000, 1);
        assertThat(iov.address(0)).isEqualTo(0x4000);
    }

    @Test
    void advancingByNothingChangesNothing() {
        assertThat(iov.advance(0)).isEqualTo(3);
        assertThat(iov.remaining()).isEqualTo(40);
    }

    @Test
    void advancingTooFarIsRefused() {
        assertThatThrownBy(() -> iov.advance(41)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void keepsToItsCapacity() {
        iov.add(MemorySegment.ofAddress(0x4000).reinterpret(5));
        assertThat(iov.isFull()).isTrue();
        assertThatThrownBy(() -> iov.add(1, 1)).isInstanceOf(IndexOutOfBoundsException.class);
        assertThatThrownBy(() -> iov.set(-1, 1, 1)).isInstanceOf(IndexOutOfBoundsException.class);
        iov.clear();
        assertThat(iov.count()).isZero();
        assertThatThrownBy(() -> iov.set(1, 1, 1)).isInstanceOf(IndexOutOfBoundsException.class);
        assertThatThrownBy(() -> new IoVec(arena, 1025))
                .isInstanceOf(IllegalArgumentException.class);
    }
}
