package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/// What the engine is to one endpoint of the transport, as little of it as the tests need: an epoll
/// loop, a table of regions, and links without authentication.
final class ShmHarness implements EndpointContext, AutoCloseable {
    private final EndpointOptions options;
    private final long incarnation = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
    private final int epoll = Epoll.create();
    private final int wake = EventFd.create();
    private final Map<Integer, Runnable> watched = new ConcurrentHashMap<>();
    private final Map<Integer, Region> regions = new ConcurrentHashMap<>();
    private final AtomicInteger nextRegion = new AtomicInteger();
    private final BlockingQueue<Channel> incoming = new LinkedBlockingQueue<>();
    private final ExecutorService executor = Executors.newCachedThreadPool();
    private final Thread progress = Thread.ofPlatform().daemon().unstarted(this::loop);
    private final ShmEndpoint endpoint;
    private volatile boolean closing;

    ShmHarness() {
        this(EndpointOptions.DEFAULTS);
    }

    ShmHarness(EndpointOptions options) {
        this.options = options;
        Epoll.add(epoll, wake, Epoll.EPOLLIN, wake);
        progress.start();
        endpoint = (ShmEndpoint) new ShmTransport().open(this);
    }

    static Deadline soon() {
        return Deadline.in(Duration.ofSeconds(20));
    }

    record Region(
            int index,
            int generation,
            long key,
            MemorySegment segment,
            Access access,
            int memfd,
            AtomicBoolean isUsed)
            implements LocalRegion {
        @Override
        public boolean mayLinger() {
            return memfd >= 0 && !isUsed.get();
        }
    }

    private void loop() {
        Epoll.Events events = new Epoll.Events(Arena.ofAuto(), 16);
        while (!closing) {
            int count = Epoll.await(epoll, events, -1);
            for (int i = 0; i < count; i++) {
                Runnable ready = watched.get((int) events.data(i));
                if (ready != null) {
                    ready.run();
                }
            }
        }
    }

    ShmEndpoint endpoint() {
        return endpoint;
    }

    PeerAddress address() {
        return new PeerAddress(incarnation, HostIdentity.here(), endpoint.locators());
    }

    /// Registers memory under the next index.
    Region register(MemorySegment segment, Access access) {
        return add(nextRegion.getAndIncrement(), 1, segment, access, -1);
    }

    Region register(SharedMemory memory) {
        return add(
                nextRegion.getAndIncrement(), 1, memory.segment(), memory.access(), memory.memfd());
    }

    Region add(int index, int generation, MemorySegment segment, Access access, int memfd) {
        long key = ThreadLocalRandom.current().nextLong();
        Region region =
                new Region(index, generation, key, segment, access, memfd, new AtomicBoolean());
        regions.put(index, region);
        endpoint.opened(region);
        return region;
    }

    /// Closes a region; the entry goes as the engine does it, after the transport has let go.
    String revoke(Region region, Duration atMost) {
        String holder = endpoint.revoke(region, Deadline.in(atMost));
        regions.remove(region.index(), region);
        return holder;
    }

    RemoteMemory remote(Region region) {
        return new RemoteMemory(
                incarnation,
                region.index(),
                region.generation(),
                region.key(),
                0,
                region.segment().byteSize(),
                region.access());
    }

    /// Dials a peer.
    Link connect(PeerAddress peer) {
        Route route = endpoint.routes(peer).getFirst();
        if (route.rejected() != null) {
            throw new IllegalStateException(route.rejected());
        }
        Channel channel = endpoint.dial(route, soon());
        return endpoint.link(channel, Role.INITIATOR, peer, soon());
    }

    /// Takes the next peer that dials, which nobody knows by address.
    Link accept(PeerAddress peer) throws InterruptedException {
        Channel channel = incoming.poll(20, TimeUnit.SECONDS);
        if (channel == null) {
            throw new IllegalStateException("nobody dialled");
        }
        return endpoint.link(channel, Role.ACCEPTOR, peer, soon());
    }

    /// Links two endpoints of this process.
    static Pair pair(ShmHarness left, ShmHarness right) throws Exception {
        PeerAddress toRight = right.address();
        PeerAddress toLeft = left.address();
        Future<Link> dialled = left.executor.submit(() -> left.connect(toRight));
        Link accepted = right.accept(toLeft);
        return new Pair(dialled.get(20, TimeUnit.SECONDS), accepted);
    }

    record Pair(Link left, Link right) implements AutoCloseable {
        @Override
        public void close() {
            for (Link link : new Link[] {left, right}) {
                if (link.windows() != null) {
                    link.windows().close();
                }
                link.lane().close();
            }
        }
    }

    @Override
    public EndpointOptions options() {
        return options;
    }

    @Override
    public long incarnation() {
        return incarnation;
    }

    @Override
    public void accepted(TransportEndpoint from, Channel channel) {
        incoming.add(channel);
    }

    @Override
    public Executor control() {
        return executor;
    }

    @Override
    public LocalRegion region(int index, int generation, long key) {
        Region region = regions.get(index);
        return region != null && region.generation() == generation && region.key() == key
                ? region
                : null;
    }

    @Override
    public boolean isOpen(int index, int generation) {
        Region region = regions.get(index);
        return region != null && region.generation() == generation;
    }

    @Override
    public void watch(int descriptor, Runnable ready) {
        watched.put(descriptor, ready);
        int result = Epoll.add(epoll, descriptor, Epoll.EPOLLIN, descriptor);
        if (result < 0) {
            throw new IllegalStateException("epoll_ctl: " + result);
        }
    }

    @Override
    public void unwatch(int descriptor) {
        if (watched.remove(descriptor) != null) {
            Epoll.remove(epoll, descriptor);
        }
    }

    @Override
    public void close() {
        endpoint.close();
        closing = true;
        EventFd.signal(wake);
        try {
            progress.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        executor.shutdownNow();
        for (Channel channel : incoming) {
            channel.close();
        }
        Mapping.closeDescriptor(epoll);
        Mapping.closeDescriptor(wake);
    }
}
