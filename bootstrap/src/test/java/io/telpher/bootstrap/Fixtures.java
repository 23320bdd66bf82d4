package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.EndpointAddress;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/// What tests of the rendezvous share.
final class Fixtures {
    static final String SECRET = "a secret of the bootstrap tests";
    static final Duration SOON = Duration.ofSeconds(30);

    /// How much later than promised something may come on a machine that has much to do.
    static final Duration BUSY = Duration.ofSeconds(3);

    private static final AtomicLong INCARNATIONS = new AtomicLong(1000);

    private Fixtures() {}

    static byte[] secret() {
        return SECRET.getBytes(StandardCharsets.UTF_8);
    }

    /// @return an address like an endpoint's, of an endpoint that is nowhere
    static EndpointAddress address() {
        // The host form with an incarnation in its place: magic, version, secret, incarnation.
        byte[] bytes = EndpointAddress.of("127.0.0.1", 9, secret()).toBytes();
        ByteBuffer.wrap(bytes)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(8 + secret().length, INCARNATIONS.incrementAndGet());
        return EndpointAddress.ofBytes(bytes);
    }

    /// @return a port that nobody listens on, and that nobody who asks for any port will get: Linux
    ///     gives those from 32768 on
    static int freePort() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10_000, 32_768);
            try (ServerSocket socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                continue;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    static <T> FutureTask<T> start(Callable<T> task) {
        FutureTask<T> future = new FutureTask<>(task);
        Thread.ofPlatform().daemon().start(future);
        return future;
    }

    static <T> T result(java.util.concurrent.Future<T> future) {
        try {
            return future.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new AssertionError(e.getCause());
        } catch (InterruptedException | TimeoutException e) {
            throw new AssertionError(e);
        }
    }

    /// @return what the task has thrown
    static Throwable failure(CompletableFuture<?> future) {
        assertThat(future).failsWithin(SOON);
        return future.exceptionNow();
    }

    /// @return dice whose seed the test's output shows
    static Random dice(String test) {
        long seed = Long.getLong("telpher.test.seed", System.nanoTime());
        System.out.println(test + ": -Dtelpher.test.seed=" + seed);
        return new Random(seed);
    }
}
