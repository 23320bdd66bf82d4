package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointMetrics;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.Availability;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// An endpoint: its regions, transports, connections and published names.
public final class EndpointImpl implements Endpoint, EndpointContext {
    /// Names that are asked for before they are published, and questions for each.
    private static final int MOST_NAMES = 16_384;

    private static final int MOST_ASKED = 1024;

    /// A transport that is in use here.
    record Opened(Transport transport, TransportEndpoint endpoint) {}

    private record Asked(ConnectionCore connection, long token) {}

    private final Platform platform;
    private final EndpointOptions options;
    private final long incarnation;
    private final byte[] secret;
    private final RegionTable regions = new RegionTable(this);
    private final Progress progress;
    private final ExecutorService control;
    private final List<Opened> transports = new ArrayList<>();
    private final List<String> unavailable = new ArrayList<>();
    private final Connector connector;
    private final List<ConnectionCore> connections = new CopyOnWriteArrayList<>();

    /// Those that peers have made, by the id that they have chosen: they may add lanes.
    private final Map<Long, ConnectionCore> joinable = new ConcurrentHashMap<>();

    private final Queue<ConnectionCore> accepted = new ConcurrentLinkedQueue<>();
    private final Gate gate;
    private final Map<String, RemoteMemory> published = new ConcurrentHashMap<>();

    /// Who waits for a name; a list is touched inside the map's `compute` methods alone.
    final Map<String, List<Asked>> asked = new ConcurrentHashMap<>();
    private final HostIdentity host;
    private final EndpointAddress address;
    private volatile boolean closed;

    /// Who closes, or has, and whether that is over.
    private volatile @Nullable Thread closer;

    private volatile boolean gone;

    /// Why not everything could be closed; there before `gone` is.
    private @Nullable String busy;

    /// Guards what follows, and the order of counters and `connections`.
    private final Object counting = new Object();

    private long opened;
    private long closedOnes;
    private long lostOnes;
    private EndpointMetrics.Totals ended = EndpointMetrics.Totals.NONE;

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
        boolean opened = false;
        try {
            openTransports();
            opened = true;
        } finally {
            if (!opened) {
                closeTransports();
                control.shutdownNow();
                Progress.release(progress);
            }
        }
        this.address =
                EndpointAddress.ofBytes(
                        AddressCodec.encode(new AddressCodec.Address(secret, self())));
        if (options.metrics()) {
            progress.observe(this);
        }
    }

    private void openTransports() {
        List<Transport> found = new ArrayList<>(platform.transports());
        found.sort(Comparator.comparingInt(Transport::rank));
        for (Transport transport : found) {
            if (!options.transports().isEmpty()
                    && !options.transports().contains(transport.name())) {
                unavailable.add(transport.name() + ": not among the allowed transports");
                continue;
            }
            if (transport.probe() instanceof Availability.Missing missing) {
                unavailable.add(
                        "%s: %s; %s"
                                .formatted(transport.name(), missing.reason(), missing.remedy()));
                continue;
            }
            try {
                transports.add(new Opened(transport, transport.open(this)));
            } catch (TelpherException.Unsupported | TelpherException.NativeFailure e) {
                unavailable.add(transport.name() + ": " + e.getMessage());
            }
        }
        if (transports.isEmpty()) {
            throw new TelpherException.Unsupported(
                    "no transport can be used%s: %s"
                            .formatted(
                                    options.transports().isEmpty()
                                            ? ""
                                            : ", allowed are " + options.transports(),
                                    String.join("; ", unavailable)));
        }
    }

    private void closeTransports() {
        for (Opened opened : transports) {
            opened.endpoint().close();
        }
    }

    PeerAddress self() {
        List<Locator> locators = new ArrayList<>();
        for (Opened opened : transports) {
            locators.addAll(opened.endpoint().locators());
        }
        return new PeerAddress(incarnation, host, List.copyOf(locators));
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

    List<Opened> transports() {
        return transports;
    }

    List<String> unavailable() {
        return unavailable;
    }

    List<ConnectionCore> connections() {
        return connections;
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
        synchronized (counting) {
            connections.add(connection);
            opened++;
        }
    }

    void forget(ConnectionCore connection) {
        synchronized (counting) {
            if (connections.remove(connection)) {
                ended = ended.plus(connection.metrics());
                if (connection.wasClosed()) {
                    closedOnes++;
                } else {
                    lostOnes++;
                }
            }
        }
        joinable.remove(connection.id(), connection);
        for (String name : asked.keySet()) {
            asked.computeIfPresent(
                    name,
                    (n, waiting) -> {
                        waiting.removeIf(a -> a.connection == connection);
                        return waiting.isEmpty() ? null : waiting;
                    });
        }
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

    // --- the caller's side
    // ------------------------------------------------------------------------

    @Override
    public EndpointMetrics metrics() {
        // A connection that ends meanwhile is counted once.
        synchronized (counting) {
            List<ConnectionMetrics> each = new ArrayList<>();
            for (ConnectionCore connection : connections) {
                each.add(connection.metrics());
            }
            return new EndpointMetrics(
                    incarnation,
                    opened,
                    closedOnes,
                    lostOnes,
                    regions.count(),
                    regions.bytes(),
                    regions.sharedBytes(),
                    ended,
                    each);
        }
    }

    @Override
    public EndpointAddress address() {
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
        return announce(regions.add(new HostMemory(segment, memory), access));
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
        GpuMemory memory = GpuMemory.allocate(device, bytes);
        RegionImpl region;
        try {
            region = regions.add(memory, access);
        } catch (IllegalStateException e) {
            memory.close();
            throw e;
        }
        return announce(region);
    }

    @Override
    public MemoryRegion register(DeviceMemory memory, Access access) {
        checkOpen();
        return announce(regions.add(GpuMemory.of(memory), access));
    }

    private MemoryRegion announce(RegionImpl region) {
        for (Opened opened : transports) {
            opened.endpoint().opened(region);
        }
        return region;
    }

    /// Ends the operations of this process that use a region: those that nothing has come for at
    /// once, the others when a part of the time was not enough for them.
    void endUsers(RegionImpl region, Deadline deadline) {
        if (region.isUnused()) {
            return;
        }
        endUsers(region, Operation::isUntouched);
        if (!region.awaitUsers(deadline.or(options.drainLimit().dividedBy(4)))) {
            endUsers(region, op -> true);
            boolean ignored = region.awaitUsers(deadline);
            assert ignored || !region.isOpen();
        }
    }

    private void endUsers(RegionImpl region, Predicate<Operation> which) {
        for (ConnectionCore connection : connections) {
            connection.endUsers(region, which);
        }
    }

    /// Takes a region away from every lane and every peer.
    @Nullable String revoke(RegionImpl region, Deadline deadline) {
        for (ConnectionCore connection : connections) {
            connection.keeper.letGo(region);
        }
        for (Opened opened : transports) {
            String holder = opened.endpoint().revoke(region, deadline);
            if (holder != null) {
                return holder;
            }
        }
        return null;
    }

    @Override
    public int port() {
        return transports.stream()
                .mapToInt(opened -> opened.endpoint().port())
                .filter(port -> port != 0)
                .findFirst()
                .orElse(0);
    }

    @Override
    public String explain() {
        StringBuilder text = new StringBuilder();
        for (Opened opened : transports) {
            List<String> places = new ArrayList<>();
            opened.endpoint().locators().forEach(locator -> places.add(locator.text()));
            text.append(opened.transport().name())
                    .append(": in use, ")
                    .append(String.join(", ", places))
                    .append('\n');
        }
        unavailable.forEach(reason -> text.append(reason).append('\n'));
        return text.toString();
    }

    @Override
    public void publish(String name, RemoteMemory memory) {
        checkOpen();
        if (name.isEmpty() || name.length() > ControlFrame.MAX_PAYLOAD / 4) {
            throw new IllegalArgumentException(
                    "a name has 1 to " + ControlFrame.MAX_PAYLOAD / 4 + " characters");
        }
        published.put(name, memory);
        List<Asked> due = asked.remove(name);
        if (due == null) {
            return;
        }
        for (Asked one : due) {
            one.connection.names.published(one.token, memory);
            control.execute(one.connection::afterwards);
        }
    }

    /// @return the memory of that name, or null: then the answer follows when it is published
    @Nullable RemoteMemory published(String name, ConnectionCore connection, long token) {
        RemoteMemory memory = published.get(name);
        if (memory != null) {
            return memory;
        }
        if (asked.size() >= MOST_NAMES && !asked.containsKey(name)) {
            return null; // whoever asks runs into its deadline
        }
        asked.compute(
                name,
                (n, before) -> {
                    List<Asked> waiting = before == null ? new ArrayList<>() : before;
                    if (waiting.size() >= MOST_ASKED) {
                        waiting.removeFirst(); // the oldest has most likely given up
                    }
                    waiting.add(new Asked(connection, token));
                    return waiting;
                });
        // Published between the two looks: answer now; the second answer of a race is ignored as
        // stale.
        memory = published.get(name);
        if (memory != null) {
            asked.remove(name);
        }
        return memory;
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
        for (ConnectionCore connection : connections) {
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
        gate.changed();
        progress.hide(this);
        for (ConnectionCore connection : List.copyOf(connections)) {
            connection.close();
        }
        TelpherException failure = null;
        for (RegionImpl region : regions.all()) {
            try {
                region.close();
            } catch (TelpherException.RegionBusy e) {
                failure = e;
                busy = e.getMessage();
            }
        }
        closeTransports();
        control.shutdown();
        connector.reception().close();
        Progress.release(progress);
        if (failure != null) {
            throw failure;
        }
    }

    @Override
    public String toString() {
        return "Endpoint[%016x]".formatted(incarnation);
    }
}
