package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.DeviceMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Intermediates;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.memory.Release;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// One endpoint's share: its listener, its table of regions, its links.
final class ShmEndpoint implements TransportEndpoint {
    /// The endpoints of this process by incarnation, so that two of them can skip the kernel.
    private static final ConcurrentHashMap<Long, ShmEndpoint> LOCAL = new ConcurrentHashMap<>();

    /// Pause between attempts to connect to a listener whose queue is full.
    private static final Duration RETRY = Duration.ofMillis(2);

    private final EndpointContext context;
    private final HostIdentity host;
    private final ShmListener listener;
    private final RegionEntries entries = new RegionEntries();

    /// Every link whose peer may be inside a region of this endpoint: from before its first window
    /// to its hang-up.
    private final CopyOnWriteArrayList<ShmLink> links = new CopyOnWriteArrayList<>();

    /// Held while a region's descriptor or address is given out, and while a region is closed: a
    /// descriptor's number must not be used again in between.
    private final Object exports = new Object();

    /// Announcements of the regions that endpoints of this process were given: nobody can take
    /// those away from a thread that is inside.
    private final Set<Long> lent = ConcurrentHashMap.newKeySet();

    /// What other processes get of the regions of GPUs, by announcement.
    private final ConcurrentHashMap<Long, GpuExport> gpuExports = new ConcurrentHashMap<>();

    /// @param given what they get, or null
    /// @param reason why nothing, else empty
    private record GpuExport(Gpu.@Nullable Export given, String reason) {
        void close() {
            if (given != null) {
                given.close();
            }
        }
    }

    /// Guarded by [#exports]: the table of regions is unmapped after that.
    private boolean closed;

    private ShmEndpoint(EndpointContext context, HostIdentity host, ShmListener listener) {
        this.context = context;
        this.host = host;
        this.listener = listener;
    }

    /// Starts to listen. From then on the progress thread takes in who connects.
    static ShmEndpoint open(EndpointContext context) {
        HostIdentity host = HostIdentity.here();
        ShmListener listener =
                ShmListener.open(context.incarnation(), context.options().socketDirectory(), host);
        ShmEndpoint endpoint;
        try {
            endpoint = new ShmEndpoint(context, host, listener);
        } catch (TelpherException e) {
            listener.close();
            throw e;
        }
        LOCAL.put(context.incarnation(), endpoint);
        context.watch(listener.fd(), endpoint::accept);
        return endpoint;
    }

    /// @return the endpoint of this process with that incarnation
    static @Nullable ShmEndpoint local(long incarnation) {
        return LOCAL.get(incarnation);
    }

    private void accept() {
        listener.accept(channel -> context.accepted(this, channel));
    }

    EndpointContext context() {
        return context;
    }

    HostIdentity host() {
        return host;
    }

    RegionEntries entries() {
        return entries;
    }

    /// @return the lock that orders giving regions out and closing them
    Object exports() {
        return exports;
    }

    /// @return whether the options let bytes take that path
    boolean allows(String path) {
        List<String> paths = context.options().paths();
        return paths.isEmpty() || paths.contains(path);
    }

    /// @return whether the options let a GPU copy by that path, its own bytes or, in between, those
    ///     of others: who copies is the engine's to choose
    boolean allowsGpu(String path) {
        return allows(path) || allows(Intermediates.PATH);
    }

    @Override
    public List<Locator> locators() {
        return List.of(listener.locator().toLocator());
    }

    @Override
    public List<Route> routes(PeerAddress peer) {
        List<Route> routes = new ArrayList<>();
        for (Locator entry : peer.of(ShmTransport.NAME)) {
            ShmLocator locator = ShmLocator.of(entry);
            if (locator != null) {
                String text = entry.text();
                routes.add(
                        new Route(ShmTransport.NAME, text, 0, rejection(peer, locator), locator));
            }
        }
        return routes;
    }

    /// @return why a listener cannot be reached from here and what would help, or null
    private @Nullable String rejection(PeerAddress peer, ShmLocator locator) {
        if (!allows("self") && !allows("mapped") && !allows("cma") && !allows("shm-ring")) {
            return "the option 'paths' allows none of self, mapped, cma and shm-ring";
        }
        if (!peer.host().sameHost(host)) {
            return "other host";
        }
        if (locator.kind() == ShmLocator.Kind.ABSTRACT) {
            return locator.netNamespace() == host.netNamespace()
                    ? null
                    : "other network namespace and no shared socket folder; set the option"
                            + " 'socketDirectory' to a folder that both containers mount";
        }
        return Files.exists(Path.of(locator.name()))
                ? null
                : "the socket "
                        + locator.name()
                        + " cannot be seen from here; mount the socket folder under the same path";
    }

    /// A Unix socket is connected at once or not at all; only a full queue is worth waiting for.
    @Override
    public Channel dial(Route route, Deadline deadline) {
        ShmLocator locator = (ShmLocator) route.target();
        while (true) {
            int fd = ShmListener.connect(locator);
            if (fd >= 0) {
                return new UnixChannel(fd, locator.text());
            }
            if (fd != -Errno.EAGAIN) {
                throw new TelpherException.ConnectFailed(
                        locator.text() + ": " + Errno.describe(-fd), List.of());
            }
            if (deadline.passed()) {
                throw new TelpherException.TimedOut(
                        locator.text() + ": the queue of incoming connections stayed full");
            }
            LockSupport.parkNanos(Math.min(RETRY.toNanos(), Math.max(1, deadline.left())));
        }
    }

    /// Both roles do the same here. The link is listed before the peer can open its first region.
    @Override
    public Link link(Channel channel, Role initiator, PeerAddress peer, Deadline deadline) {
        ShmLink link = LinkSetup.run(this, (UnixChannel) channel, peer, deadline);
        links.add(link);
        boolean started = false;
        try {
            Link result = link.start(new ShmWindows(this, link, peer));
            started = true;
            return result;
        } finally {
            if (!started) {
                link.free();
            }
        }
    }

    /// @return whether a link's peer may be inside regions
    boolean hasLentTo(ShmLink link) {
        return link.reachesAny() || (!lent.isEmpty() && link.pid() == host.pid());
    }

    void remove(ShmLink link) {
        links.remove(link);
    }

    /// Decides how a peer may reach a region. Called under [#exports()], so that the region cannot
    /// be closed before its descriptor has been sent.
    ///
    /// @param paths what the peer wants, bits of [RegionMessage]
    RegionMessage.Answer export(int index, int generation, long key, int paths, ShmLink link) {
        LocalRegion region = closed ? null : context.region(index, generation, key);
        if (region == null || !entries.isOpen(index, generation)) {
            boolean wrongKey = region == null && !closed && context.isOpen(index, generation);
            return RegionMessage.Answer.only(
                    wrongKey ? RegionMessage.Status.DENIED : RegionMessage.Status.STALE);
        }
        Access access = region.access();
        if (!access.canRead() && !access.canWrite()) {
            return RegionMessage.Answer.only(RegionMessage.Status.DENIED);
        }
        if (region.deviceMemory() != null) {
            return exportGpu(region, paths, link);
        }
        MemorySegment segment = region.segment();
        boolean mapped = (paths & RegionMessage.MAPPED) != 0 && allows("mapped");
        if (mapped && region.memfd() >= 0) {
            link.map(index, generation);
            return new RegionMessage.Answer(
                    RegionMessage.Status.OK,
                    RegionMessage.MAPPED,
                    access,
                    segment.byteSize(),
                    0,
                    new int[] {region.memfd()},
                    new byte[0]);
        }
        if ((paths & RegionMessage.CMA) != 0 && allows("cma") && segment.isNative()) {
            link.borrow(index, generation);
            return new RegionMessage.Answer(
                    RegionMessage.Status.OK,
                    RegionMessage.CMA,
                    access,
                    segment.byteSize(),
                    segment.address(),
                    new int[0],
                    new byte[0]);
        }
        return RegionMessage.Answer.only(RegionMessage.Status.NO_PATH);
    }

    /// What was made ready when the region was opened: nothing here may wait for a driver.
    private RegionMessage.Answer exportGpu(LocalRegion region, int paths, ShmLink link) {
        long announcement = HazardPage.announcement(region.index(), region.generation());
        GpuExport kept = gpuExports.get(announcement);
        Gpu.Export export = kept == null ? null : kept.given();
        boolean tails = (paths & RegionMessage.KNOWS_TAILS) != 0;
        int path =
                export == null || (export.descriptors().length > 1 && !tails)
                        ? 0
                        : export.way() == Gpu.WAY_IPC ? RegionMessage.IPC : RegionMessage.CUMEM;
        if (export == null || (paths & path) == 0) {
            boolean understands = (paths & (RegionMessage.GPU | RegionMessage.KNOWS_GPUS)) != 0;
            return understands
                    ? RegionMessage.Answer.refusal(
                            RegionMessage.Status.DEVICE, tails && kept != null ? kept.reason() : "")
                    : RegionMessage.Answer.only(RegionMessage.Status.NO_PATH);
        }
        link.imported(announcement);
        if (path == RegionMessage.IPC) {
            link.borrow(region.index(), region.generation());
        }
        boolean through = tails && !allows(GpuWindow.path(export.way()));
        return new RegionMessage.Answer(
                RegionMessage.Status.OK,
                through ? path | RegionMessage.THROUGH : path,
                region.access(),
                region.size(),
                0,
                export.descriptors(),
                export.record());
    }

    /// Makes a region of a GPU ready to be given out, on the thread that registers it.
    private void exportGpu(LocalRegion region, DeviceMemory memory) {
        int ways =
                (allowsGpu("cuda-cumem") ? Gpu.WAY_DESCRIPTOR : 0)
                        | (allowsGpu("cuda-ipc") ? Gpu.WAY_IPC : 0);
        GpuExport made =
                ways == 0
                        ? new GpuExport(null, "not among its option 'paths'")
                        : exportGpu(memory, ways);
        synchronized (exports) {
            if (closed) {
                made.close();
            } else {
                gpuExports.put(HazardPage.announcement(region.index(), region.generation()), made);
            }
        }
    }

    /// What cannot be lent other processes reach by frames.
    private static GpuExport exportGpu(DeviceMemory memory, int ways) {
        try {
            Gpu gpu = Runtimes.open(memory.device());
            return new GpuExport(gpu.export(memory.address(), memory.size(), ways), "");
        } catch (TelpherException e) {
            Log.warning(memory + " cannot be lent to other processes", e);
            return new GpuExport(null, String.valueOf(e.getMessage()));
        }
    }

    /// Gives a region out to an endpoint of this process.
    ///
    /// @param wanted whether it is taken, or asked for in another way
    /// @return null when the descriptor does not name an open region
    @Nullable LocalRegion lend(int index, int generation, long key, Predicate<LocalRegion> wanted) {
        synchronized (exports) {
            LocalRegion region = closed ? null : context.region(index, generation, key);
            if (region == null || !entries.isOpen(index, generation)) {
                return null;
            }
            if (wanted.test(region)) {
                lent.add(HazardPage.announcement(index, generation));
            }
            return region;
        }
    }

    /// @return whether that life of the index is open to peers
    boolean isOpen(int index, int generation) {
        synchronized (exports) {
            return !closed && context.isOpen(index, generation);
        }
    }

    @Override
    public void opened(LocalRegion region) {
        DeviceMemory memory = region.deviceMemory();
        if (memory != null) {
            exportGpu(region, memory);
        }
        synchronized (exports) {
            if (!closed) {
                entries.open(region);
            }
        }
    }

    /// Closes the entry, so that nobody gets in any more, and waits for those inside. At the
    /// deadline a region that is only mapped, and may linger, counts as free: a stopped importer
    /// keeps the old pages to itself, and nobody uses them again. What somebody goes on using here,
    /// and what was lent by `cma` or inside the process, cannot be taken away, so its holder is
    /// named.
    @Override
    public @Nullable String revoke(LocalRegion region, Deadline deadline) {
        synchronized (exports) {
            if (closed) {
                return null;
            }
            entries.close(region);
        }
        long announcement = HazardPage.announcement(region.index(), region.generation());
        for (ShmLink link : links) {
            if (!link.awaitNobodyInside(announcement, deadline)
                    && (!region.mayLinger()
                            || link.hasBorrowed(announcement)
                            || lent.contains(announcement))) {
                return "process %d is in the middle of a copy (%s)".formatted(link.pid(), link);
            }
        }
        String holder = unmapped(region, announcement, deadline);
        if (holder != null) {
            return holder;
        }
        for (ShmLink link : links) {
            link.giveBack(announcement);
        }
        lent.remove(announcement);
        return null;
    }

    /// Waits until no importer has a GPU's region mapped: not only until it says that nobody is
    /// inside, for a process that has hung up and not ended yet says nothing.
    ///
    /// @return null, or who still has
    private @Nullable String unmapped(LocalRegion region, long announcement, Deadline deadline) {
        if (region.deviceMemory() == null) {
            return null;
        }
        for (ShmLink link : links) {
            if (link.hasImported(announcement)) {
                link.exchange().revoke(region.index(), region.generation());
            }
        }
        for (ShmLink link : links) {
            for (int spins = 0; link.hasImported(announcement); spins++) {
                if (deadline.passed()) {
                    if (!region.mayLinger() || link.hasBorrowed(announcement)) {
                        return "process %d still has it mapped (%s)".formatted(link.pid(), link);
                    }
                    break; // the memory is that process's until it unmaps it
                }
                Runtimes.poll();
                ShmLink.pause(spins);
            }
        }
        GpuExport export = gpuExports.remove(announcement);
        if (export != null) {
            export.close();
        }
        return null;
    }

    /// Stops listening, and gives up on peers that have not hung up yet. The regions were closed
    /// before.
    @Override
    public void close() {
        synchronized (exports) {
            if (closed) {
                return;
            }
            closed = true;
        }
        boolean unused = LOCAL.remove(context.incarnation(), this);
        context.unwatch(listener.fd());
        Release.each(
                listener::close,
                () -> Release.all(links, ShmLink::abandon),
                entries::close,
                () -> Release.all(gpuExports.values(), GpuExport::close),
                gpuExports::clear);
    }
}
