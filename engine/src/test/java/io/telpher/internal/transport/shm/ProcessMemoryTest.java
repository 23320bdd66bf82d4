package io.telpher.internal.transport.shm;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.linux.Processes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;

/// This process's memory, as another one sees it.
class ProcessMemoryTest {
    private static final long BYTES = 64 << 10;

    /// Often, so that compiled code writes right before and right after: no look may be believed
    /// any longer than for the one write behind it.
    @Test
    void nothingIsWrittenOrReadOnceTheCookieHasGone() {
        byte[] cookie = "0123456789abcdef".getBytes(US_ASCII);
        try (Arena arena = Arena.ofShared()) {
            MemorySegment kept = arena.allocateFrom(ValueLayout.JAVA_BYTE, cookie);
            MemorySegment local = arena.allocate(BYTES).fill((byte) 1);
            MemorySegment there = arena.allocate(BYTES);
            MemorySegment untouched = arena.allocate(BYTES);
            try (ProcessMemory process =
                    new ProcessMemory(Processes.getpid(), kept.address(), cookie)) {
                for (int i = 0; i < 1000; i++) {
                    MemorySegment.copy(cookie, 0, kept, ValueLayout.JAVA_BYTE, 0, cookie.length);
                    there.fill((byte) 0);
                    long before = process.write(local, 0, there.address(), BYTES);
                    kept.fill((byte) 0);
                    long after = process.write(local, 0, untouched.address(), BYTES);
                    assertThat(before).isEqualTo(BYTES);
                    assertThat(after).isZero();
                }
                assertThat(there.mismatch(local)).isEqualTo(-1);
                assertThat(untouched.mismatch(arena.allocate(BYTES))).isEqualTo(-1);
                assertThat(process.isThere()).isFalse();
                assertThat(process.read(local, 0, there.address(), BYTES)).isZero();
            }
        }
    }
}
