package io.telpher.internal.transport.shm;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.telpher.internal.ffi.linux.Processes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/// This process's memory, as another one sees it.
class ProcessMemoryTest {
    private static final long BYTES = 64 << 10;

    @Test
    void nothingIsWrittenOrReadOnceTheCookieHasGone() {
        byte[] cookie = "0123456789abcdef".getBytes(US_ASCII);
        try (Arena arena = Arena.ofShared()) {
            MemorySegment kept = arena.allocateFrom(ValueLayout.JAVA_BYTE, cookie);
            MemorySegment local = arena.allocate(BYTES).fill((byte) 1);
            MemorySegment there = arena.allocate(BYTES);
            try (ProcessMemory process =
                    new ProcessMemory(Processes.getpid(), kept.address(), cookie)) {
                assertThat(process.write(local, 0, there.address(), BYTES)).isEqualTo(BYTES);
                assertThat(there.mismatch(local)).isEqualTo(-1);

                kept.fill((byte) 0);
                assertThat(process.isThere()).isFalse();
                assertThat(process.read(local, 0, there.address(), BYTES)).isZero();
                await().atMost(Duration.ofSeconds(20))
                        .until(() -> process.write(local, 0, there.address(), BYTES) == 0);
                there.fill((byte) 2);
                assertThat(process.write(local, 0, there.address(), BYTES)).isZero();
                assertThat(there.mismatch(arena.allocate(BYTES).fill((byte) 2))).isEqualTo(-1);

                MemorySegment.copy(cookie, 0, kept, ValueLayout.JAVA_BYTE, 0, ProcessCookie.BYTES);
                assertThat(process.write(local, 0, there.address(), BYTES)).isEqualTo(BYTES);
            }
        }
    }
}
