package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointMetrics;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Release;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.TransportEndpoint;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// An endpoint: its regions, transports, connections and published names.
public final class EndpointImpl implements Endpoint, EndpointContext {
    private final Platform platform;
    private final EndpointOptions options;
    private final long incarnation;
    private final byte[] secret;
    private final RegionTable regions = new RegionTable(this);
    private final Progress progress;
    private final ExecutorService control;
    private final Transports transports = new Transports();
    private final Connector connector;
    private final Connections connections = new Connections();

    /// Those that peers have made, by the id that they have chosen: they may add lanes.
    private final Map<Long, ConnectionCore> joinable = new ConcurrentHashMap<>();

    private final Queue<ConnectionCore> accepted = new ConcurrentLinkedQueue<>();
    private final Gate gate;
    private final Directory directory = new Directory();
    private final HostIdentity host;

    /// As it was when somebody asked last.
    private volatile EndpointAddress address;

    /// What [#introduction] says once all transports are open.
    private volatile byte @Nullable [] introduction;

    private volatile boolean closed;

    /// Who closes, or has, and whether that is over.
    private volatile @Nullable Thread closer;

    private volatile boolean gone;

    /// Why not everything could be closed; there before `gone` is.
    private @Nullable String busy;

    /// Opens an endpoint on this machine.
    ///
    /// @param options how it behaves
    public EndpointImpl(EndpointOptions options) {
        this(options, NativePlatform.HERE);
    }

    /// Opens an endpoint.
    ///
    /// @param options how it behaves
    /// @param platform where it runs
    public EndpointImpl(EndpointOptions options, Platform platform) {
        this.options = options;
        this.platform = platform;
        this.gate = new Gate(platform);
        this.host = platform.identity();
        byte[] given = options.secret();
        if (given == null) {
            given = new byte[32];
            platform.random().nextBytes(given);
        }
        this.secret = given.clone();
        long number;
        do {
            number = platform.random().nextLong();
        } while (number == 0);
        this.incarnation = number;
        this.progress = Progress.acquire(platform);
        this.control = platform.executor();
        this.connector = new Connector(this);
        try {
            transports.open(platform.transports(), this);
        } catch (Throwable e) {
            var unused =
                    Release.after(
                            e,
                            transports::close,
                            control::shutdownNow,
                            () -> Progress.release(progress));
            throw e;
        }
        this.address = addressNow();
        this.introduction = introduce();
        if (options.metrics()) {
            progress.observe(this);
        }
    }

    private EndpointAddress addressNow() {
        return EndpointAddress.ofBytes(
                AddressCodec.encode(new AddressCodec.Address(secret, self())));
    }

    PeerAddress self() {
        return new PeerAddress(incarnation, host, transports.locators());
    }

    /// What peers are told of this endpoint: everything but its secret. Read only; who comes while
    /// transports are still being opened hears of those that are.
    byte[] introduction() {
        byte[] whole = introduction;
        return whole != null ? whole : introduce();
    }

    private byte[] introduce() {
        return AddressCodec.encode(new AddressCodec.Address(new byte[0], self()));
    }

    // --- what the parts share -------------------------------------------------------------------

    Platform platform() {
        return platform;
    }

    Gate gate() {
        return gate;
    }

    byte[] secret() {
        return secret;
    }

    RegionTable regions() {
        return regions;
    }

    /// @return a region as one of this endpoint
    RegionImpl own(MemoryRegion region) {
        if (!(region instanceof RegionImpl mine) || mine.endpoint() != this) {
            throw new IllegalArgumentException(
                    "the local memory is not a region of the endpoint that this connection belongs"
                            + " to");
        }
        return mine;
    }

    Progress progress() {
        return progress;
    }

    Transports transports() {
        return transports;
    }

    Directory directory() {
        return directory;
    }

    List<ConnectionCore> connections() {
        return connections.all();
    }

    Map<Long, ConnectionCore> joinable() {
        return joinable;
    }

    Queue<ConnectionCore> acceptQueue() {
        return accepted;
    }

    boolean isClosed() {
        return closed;
    }

    void remember(ConnectionCore connection) {
        connections.add(connection);
    }

    void forget(ConnectionCore connection) {
        connections.remove(connection);
        joinable.remove(connection.id(), connection);
        directory.forget(connection);
    }

    private void checkOpen() {
        if (closed) {
            throw new TelpherException.Closed("the endpoint was closed");
        }
    }

    // --- context of the transports --------------------------------------------------------------

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
        if (closed) {
            channel.close();
            return;
        }
        connector.reception().accepted(from, channel);
    }

    @Override
    public Executor control() {
        return control;
    }

    @Override
    public @Nullable LocalRegion region(int index, int generation, long key) {
        RegionImpl region = regions.find(index, generation);
        return region != null && region.key() == key ? region : null;
    }

    @Override
    public boolean isOpen(int index, int generation) {
        return regions.find(index, generation) != null;
    }

    @Override
    public void watch(int descriptor, Runnable ready) {
        progress.sources().watch(descriptor, ready);
    }

    @Override
    public void unwatch(int descriptor) {
        progress.sources().unwatch(descriptor);
    }

    // --- the caller's side ----------------------------------------------------------------------

    @Override
    public EndpointMetrics metrics() {
        return connections.metrics(incarnation, regions);
    }

    @Override
    public EndpointAddress address() {
        if (!closed) {
            address = addressNow();
        }
        return address;
    }

    @Override
    public MemoryRegion allocate(long bytes) {
        return allocate(bytes, Access.READ_WRITE);
    }

    @Override
    public MemoryRegion allocate(long bytes, Access access) {
        checkOpen();
        if (bytes <= 0) {
            throw new IllegalArgumentException("cannot allocate " + bytes + " bytes");
        }
        SharedMemory memory =
                platform.share(
                        bytes,
                        access,
                        options.hugePages() ? SharedMemory.Pages.HUGE : SharedMemory.Pages.SMALL);
        MemorySegment segment =
                memory == null ? Arena.ofAuto().allocate(bytes, 4096) : memory.segment();
        return announceOwn(new HostMemory(segment, memory), access);
    }

    @Override
    public MemoryRegion register(MemorySegment memory) {
        return register(memory, memory.isReadOnly() ? Access.READ : Access.READ_WRITE);
    }

    @Override
    public MemoryRegion register(MemorySegment memory, Access access) {
        checkOpen();
        if (!memory.isNative()) {
            throw new IllegalArgumentException(
                    "heap memory cannot be registered, the collector moves it: use a native segment"
                            + " or a direct buffer");
        }
        if (!memory.isAccessibleBy(Thread.ofVirtual().unstarted(() -> {}))) {
            throw new IllegalArgumentException(
                    "this segment is confined to one thread, the engine uses several: take it"
                            + " from a shared, automatic or global arena");
        }
        if (memory.isReadOnly() && access.canWrite()) {
            throw new IllegalArgumentException(
                    "this segment is read-only; peers cannot be allowed to write it");
        }
        return announce(regions.add(new HostMemory(memory, null), access));
    }

    @Override
    public MemoryRegion allocate(Device device, long bytes, Access access) {
        checkOpen();
        if (bytes <= 0) {
            throw new IllegalArgumentException("cannot allocate " + bytes + " bytes");
        }
        return announceOwn(GpuMemory.allocate(device, bytes), access);
    }

    @Override
    public MemoryRegion register(DeviceMemory memory, Access access) {
        checkOpen();
        return announce(regions.add(GpuMemory.of(memory), access));
    }

    /// Makes a region of memory that is this endpoint's own: given back when there are too many.
    private MemoryRegion announceOwn(RegionMemory memory, Access access) {
        RegionImpl region;
        try {
            region = regions.add(memory, access);
        } catch (IllegalStateException e) {
            memory.close();
            throw e;
        }
        return announce(region);
    }

    private MemoryRegion announce(RegionImpl region) {
        transports.opened(region);
        return region;
    }

    /// Ends the operations of this process that use a region: those that nothing has come for at
    /// once, the others when a part of the time was not enough for them.
    void endUsers(RegionImpl region, Deadline deadline) {
        for (ConnectionCore connection : connections.all()) {
            connection.letGo(region);
            if (region.isUnused()) {
                return;
            }
        }
        endUsers(region, Operation::isUntouched);
        if (!region.awaitUsers(deadline.or(options.drainLimit().dividedBy(4)))) {
            endUsers(region, op -> true);
            boolean ignored = region.awaitUsers(deadline);
            assert ignored || !region.isOpen();
        }
    }

    private void endUsers(RegionImpl region, Predicate<Operation> which) {
        for (ConnectionCore connection : connections.all()) {
            connection.endUsers(region, which);
        }
    }

    /// Takes a region away from every lane and every peer; from all others when one holds it.
    ///
    /// @return who holds it beyond the deadline, or null
    @Nullable String revoke(RegionImpl region, Deadline deadline) {
        String holder = null;
        for (ConnectionCore connection : connections.all()) {
            String here = connection.keeper.letGo(region, deadline);
            holder = holder == null ? here : holder;
        }
        String there = transports.revoke(region, deadline);
        return holder == null ? there : holder;
    }

    @Override
    public int port() {
        return transports.port();
    }

    @Override
    public String explain() {
        return transports.explain();
    }

    @Override
    public void publish(String name, RemoteMemory memory) {
        checkOpen();
        for (ConnectionCore waiting : directory.publish(name, memory)) {
            control.execute(waiting::afterwards);
        }
    }

    @Override
    public Connection connect(EndpointAddress peer, Duration atMost) {
        checkOpen();
        return new ConnectionImpl(connector.connect(peer, platform.in(atMost)));
    }

    @Override
    public Connection accept(Duration atMost) {
        Deadline deadline = platform.in(atMost);
        BooleanSupplier news = () -> closed || !accepted.isEmpty();
        while (gate.await(news, deadline, "waiting for a connection")) {
            checkOpen();
            ConnectionCore connection = accepted.poll();
            if (connection != null) {
                return new ConnectionImpl(connection);
            } // else another thread was quicker
        }
        throw new TelpherException.TimedOut("nobody connected within " + Failures.seconds(atMost));
    }

    /// Whoever closes besides waits for the first, all of whose waits end, and hears the same; but
    /// not the threads that the first may wait for.
    @Override
    public void close() {
        if (beginClose()) {
            try {
                end();
            } finally {
                gone = true;
            }
            return;
        }
        int round = 0;
        while (!gone) {
            if (isWaitedFor()) {
                return;
            }
            platform.pause(round++);
        }
        String left = busy;
        if (round > 0 && left != null) {
            throw new TelpherException.RegionBusy(left);
        }
    }

    /// Whether the calling thread is the closer, or one that the closer waits for.
    private boolean isWaitedFor() {
        if (closer == Thread.currentThread() || progress.isCurrent()) {
            return true;
        }
        for (ConnectionCore connection : connections.all()) {
            if (connection.undertaker.isBurying()) {
                return true;
            }
        }
        return false;
    }

    private synchronized boolean beginClose() {
        boolean first = !closed;
        if (first) {
            closer = Thread.currentThread();
            closed = true;
        }
        return first;
    }

    private void end() {
        Release.each(
                gate::changed,
                () -> progress.hide(this),
                () -> Release.all(connections.all(), ConnectionCore::close),
                () -> Release.all(regions.all(), this::end),
                transports::close,
                control::shutdown,
                () -> connector.reception().close(),
                () -> Progress.release(progress));
    }

    private void end(RegionImpl region) {
        try {
            region.close();
        } catch (TelpherException.RegionBusy e) {
            busy = e.getMessage();
            throw e;
        }
    }

    @Override
    public String toString() {
        return "Endpoint[%016x]".formatted(incarnation);
    }
}
