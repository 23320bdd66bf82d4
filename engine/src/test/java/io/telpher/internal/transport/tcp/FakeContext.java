package io.telpher.internal.transport.tcp;

import io.telpher.EndpointOptions;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.spi.Channel;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.TransportEndpoint;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/// Stands in for the engine: one thread watches descriptors, channels end in a queue.
final class FakeContext implements EndpointContext, AutoCloseable {
    final BlockingQueue<Channel> channels = new LinkedBlockingQueue<>();

    private final EndpointOptions options;
    private final ExecutorService control = Executors.newCachedThreadPool();
    private final Map<Integer, Runnable> watched = new ConcurrentHashMap<>();
    private final Object turn = new Object();
    private final Thread progress;
    private volatile boolean over;

    FakeContext(EndpointOptions options) {
        this.options = options;
        progress = Thread.ofPlatform().daemon().start(this::progress);
    }

    private void progress() {
        while (!over) {
            synchronized (turn) {
                watched.forEach(
                        (fd, ready) -> {
                            if (Poll.poll(fd, Poll.POLLIN, 0) > 0) {
                                ready.run();
                            }
                        });
            }
            Thread.onSpinWait();
            Thread.yield();
        }
    }

    /// @return the next accepted channel
    Channel next() throws InterruptedException {
        Channel channel = channels.poll(10, TimeUnit.SECONDS);
        if (channel == null) {
            throw new AssertionError("nothing was accepted within 10 s");
        }
        return channel;
    }

    @Override
    public EndpointOptions options() {
        return options;
    }

    @Override
    public long incarnation() {
        return 1;
    }

    @Override
    public void accepted(TransportEndpoint from, Channel channel) {
        channels.add(channel);
    }

    @Override
    public Executor control() {
        return control;
    }

    @Override
    public @Nullable LocalRegion region(int index, int generation, long key) {
        return null;
    }

    @Override
    public boolean isOpen(int index, int generation) {
        return false;
    }

    @Override
    public void watch(int descriptor, Runnable ready) {
        watched.put(descriptor, ready);
    }

    @Override
    public void unwatch(int descriptor) {
        synchronized (turn) {
            watched.remove(descriptor);
        }
    }

    @Override
    public void close() {
        over = true;
        try {
            progress.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        control.shutdown();
        channels.forEach(Channel::close);
    }
}
