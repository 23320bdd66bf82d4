package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ErrnoTest {
    @Test
    void everyConstantHasItsName() throws Exception {
        int constants = 0;
        for (Field field : Errno.class.getDeclaredFields()) {
            if (field.getType() == int.class) {
                int value = field.getInt(null);
                assertThat(Errno.name(value)).isEqualTo(field.getName());
                assertThat(Errno.name(-value)).isEqualTo(field.getName());
                constants++;
            }
        }
        assertThat(constants).isGreaterThan(60);
    }

    @Test
    void describesWithTheTextOfTheSystem() {
        assertThat(Errno.describe(-Errno.ECONNRESET)).matches("ECONNRESET \\(.+\\)");
        assertThat(Errno.describe(Errno.EAGAIN)).startsWith("EAGAIN (");
        assertThat(Errno.describe(4711)).startsWith("errno 4711 (");
    }

    /// Calls that fail for different reasons in many threads at a time: each must see its own
    /// errno.
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void eachThreadSeesItsOwnErrno(boolean virtual) throws Exception {
        int[] pair = new int[2];
        int type = Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC;
        assertThat(Sockets.socketpair(Sockets.AF_UNIX, type, 0, pair)).isZero();
        ThreadFactory threads =
                virtual ? Thread.ofVirtual().factory() : Thread.ofPlatform().daemon().factory();
        try (Arena arena = Arena.ofShared();
                var executor = Executors.newThreadPerTaskExecutor(threads)) {
            MemorySegment buffer = arena.allocate(8);
            List<Future<?>> tasks = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                tasks.add(
                        executor.submit(
                                () ->
                                        repeat(
                                                () -> Sockets.recv(pair[0], buffer, 8, 0),
                                                Errno.EAGAIN)));
                tasks.add(executor.submit(() -> repeat(() -> Descriptors.close(-1), Errno.EBADF)));
                tasks.add(
                        executor.submit(
                                () -> repeat(() -> Processes.kill(1 << 30, 0), Errno.ESRCH)));
                tasks.add(
                        executor.submit(() -> repeat(() -> Memory.munmap(1, 4096), Errno.EINVAL)));
            }
            for (Future<?> task : tasks) {
                task.get();
            }
        } finally {
            assertThat(Descriptors.close(pair[0])).isZero();
            assertThat(Descriptors.close(pair[1])).isZero();
        }
    }

    private static void repeat(LongSupplier call, int errno) {
        for (int i = 0; i < 3_000; i++) {
            long result = call.getAsLong();
            if (result != -errno) {
                throw new AssertionError(Errno.name(errno) + " expected, not " + result);
            }
            if (i % 100 == 0) {
                Thread.yield();
            }
        }
    }
}
