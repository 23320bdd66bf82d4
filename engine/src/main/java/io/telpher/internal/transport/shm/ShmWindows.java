package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.DeviceMemory;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.PeerPolicy;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.spi.Adverts;
import io.telpher.spi.Deadline;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// Opens a peer's regions, and lists them ([OpenWindows]): inside this process directly, else by
/// mapping the owner's memfd, else by `process_vm_writev`. What is possible was found out once,
/// when the link came to be.
final class ShmWindows implements Windows {
    /// Page tables are filled in pieces of this size, with a look at the deadline in between.
    private static final long POPULATE_STEP = 64 << 20;

    /// So many reasons are kept for [#explain()].
    private static final int MOST_REASONS = 8;

    private final ShmEndpoint endpoint;
    private final ShmLink link;
    private final PeerAddress peer;

    /// The peer when it lives in this process, else null. Incarnation and pid must both fit: a
    /// process that was forked off this one knows the same incarnations.
    private final @Nullable ShmEndpoint local;

    private final ProcessMemory process;

    // Why a path is not possible, null when it is: decided once, and shown by explain().
    private final @Nullable String noSelf;
    private final @Nullable String noMapped;
    private final @Nullable String noCma;

    private final OpenWindows open;
    private final @Nullable Adverts adverts;

    // Guarded by this.
    /// Why memory of the owner's GPUs is not lent, as it says.
    private final Set<String> notLent = new LinkedHashSet<>();

    /// Written by whoever opens a region; the owner may count it among what this side has mapped.
    private volatile boolean askedForGpus;

    /// Finds out what is possible. Costs one or two system calls, for `cma`.
    ShmWindows(ShmEndpoint endpoint, ShmLink link, PeerAddress peer) {
        this.endpoint = endpoint;
        this.link = link;
        this.open = new OpenWindows(link);
        this.peer = peer;
        LinkSetup.Greeting greeting = link.greeting();
        ShmEndpoint found = ShmEndpoint.local(greeting.incarnation());
        local = link.pid() == endpoint.host().pid() ? found : null;
        process = new ProcessMemory(link.pid(), greeting.cookieAddress(), greeting.cookie());
        adverts = link.adverts();
        noSelf = local == null ? "other process" : forbidden("self");
        noMapped = forbidden("mapped");
        String cma = forbidden("cma");
        String probed = cma != null ? cma : process.probe();
        noCma = probed == null || greeting.dumpable() ? probed : probed + " (it is not dumpable)";
    }

    /// @return whether a path to any of the peer's memory is left
    boolean reachAnything() {
        return noSelf == null
                || noMapped == null
                || noCma == null
                || endpoint.allows("hip-direct")
                || endpoint.allowsGpu("cuda-direct")
                || endpoint.allowsGpu("cuda-cumem")
                || endpoint.allowsGpu("cuda-ipc");
    }

    /// Instead of [#close()] for those that no connection has taken over.
    void discard() {
        process.close();
    }

    /// @return null when this side's options allow the path; the owner's are asked when it answers
    private @Nullable String forbidden(String path) {
        return endpoint.allows(path) ? null : "not among the option 'paths'";
    }

    @Override
    public @Nullable Adverts adverts() {
        return adverts;
    }

    /// The owner's progress thread answers, which never waits: this thread waits for it.
    @Override
    public CompletableFuture<Window> open(RemoteMemory memory, Deadline deadline) {
        return CompletableFuture.completedFuture(opened(memory, deadline));
    }

    /// Tries `self`, then whichever of `mapped` and `cma` the owner chooses; a file that cannot be
    /// mapped here is asked for again by `cma`.
    private Window opened(RemoteMemory memory, Deadline deadline) {
        if (memory.incarnation() != link.greeting().incarnation()) {
            throw new TelpherException.StaleRegion(
                    memory + " belongs to an endpoint that has restarted since");
        }
        if (!RegionEntries.holds(memory.region())) {
            throw new TelpherException.Unsupported(
                    "region %d: only the first %d regions are reached directly"
                            .formatted(memory.region(), RegionEntries.CAPACITY));
        }
        ShmWindow inside = local == null ? null : openLocal(local, memory);
        if (inside != null) {
            return open.add(inside);
        }
        int paths =
                (noMapped == null ? RegionMessage.MAPPED : 0)
                        | (noCma == null ? RegionMessage.CMA : 0);
        try {
            return open.add(ask(memory, paths | gpuPaths(false), deadline));
        } catch (OnDevice e) {
            // Only now: loading a driver takes a while, and most peers have no device.
            return open.add(askForGpu(memory, deadline));
        } catch (TelpherException.NativeFailure e) {
            // The mapping failed, for want of address space or of map entries.
            if ((paths & RegionMessage.CMA) == 0) {
                throw new TelpherException.Unsupported(link.text() + ": " + e.getMessage());
            }
            try {
                return open.add(ask(memory, RegionMessage.CMA, deadline));
            } catch (OnDevice onDevice) {
                throw new TelpherException.Unsupported(link.text() + ": " + e.getMessage());
            }
        }
    }

    private boolean goesInside(ShmEndpoint owner, LocalRegion region) {
        DeviceMemory device = region.deviceMemory();
        boolean onHost = device == null;
        String path = device == null ? "self" : GpuWindow.direct(device);
        return onHost
                ? endpoint.allows(path) && owner.allows(path)
                : endpoint.allowsGpu(path) && owner.allowsGpu(path) && usesPointers();
    }

    private static boolean usesPointers() {
        try {
            return PeerPolicy.current().pointers();
        } catch (IllegalArgumentException e) {
            throw new TelpherException.Unsupported(String.valueOf(e.getMessage()));
        }
    }

    /// The owner's segment itself. The hazard slots work as between processes, through the same two
    /// mappings, so there is one way to close a region.
    ///
    /// @return null when the options do not let bytes go this way
    private @Nullable ShmWindow openLocal(ShmEndpoint owner, RemoteMemory memory) {
        LocalRegion region =
                owner.lend(
                        memory.region(),
                        memory.generation(),
                        memory.key(),
                        wanted -> goesInside(owner, wanted));
        if (region == null) {
            throw refusal(
                    memory,
                    owner.isOpen(memory.region(), memory.generation())
                            ? RegionMessage.Status.DENIED
                            : RegionMessage.Status.STALE,
                    "");
        }
        Access access = region.access();
        if (!access.canRead() && !access.canWrite()) {
            throw refusal(memory, RegionMessage.Status.DENIED, "");
        }
        DeviceMemory device = region.deviceMemory();
        if (!goesInside(owner, region)) {
            return null;
        }
        if (device != null) {
            boolean through = !owner.allows(GpuWindow.direct(device));
            return GpuWindow.of(open, link, memory, through, region, device);
        }
        return new DirectWindow(open, link, "self", memory, access, region.segment(), region, null);
    }

    /// The region is a device's, and this side has not said how it could reach that.
    private static final class OnDevice extends RuntimeException {
        private static final long serialVersionUID = 1L;

        OnDevice() {
            super(null, null, false, false);
        }
    }

    /// @param load whether the driver may be loaded to find out
    /// @return the ways to memory of GPUs that this side can go, bits of [RegionMessage]
    private int gpuPaths(boolean load) {
        askedForGpus = true;
        boolean any = load ? !Runtimes.devices().isEmpty() : Runtimes.isOpen();
        int understood = RegionMessage.KNOWS_GPUS | RegionMessage.KNOWS_TAILS;
        return !any
                ? understood
                : understood
                        | (endpoint.allowsGpu("cuda-cumem") ? RegionMessage.CUMEM : 0)
                        | (endpoint.allowsGpu("cuda-ipc") ? RegionMessage.IPC : 0);
    }

    private ShmWindow askForGpu(RemoteMemory memory, Deadline deadline) {
        int paths = gpuPaths(true);
        if ((paths & RegionMessage.GPU) == 0) {
            throw new TelpherException.Unsupported(
                    "%s is memory of a GPU: %s".formatted(memory, Runtimes.describe()));
        }
        try {
            return ask(memory, paths, deadline);
        } catch (OnDevice e) {
            throw new TelpherException.ProtocolViolation(
                    link.text() + ": does not understand how GPUs are reached");
        }
    }

    private ShmWindow importGpu(RemoteMemory memory, RegionMessage.Answer answer) {
        ExportRecord record = ExportRecord.ofBytes(answer.tail());
        if (record == null
                || record.size() != answer.size()
                || (record.way() == Gpu.WAY_IPC) != ((answer.path() & RegionMessage.IPC) != 0)) {
            throw new TelpherException.ProtocolViolation(
                    link.text() + ": a record of device memory that makes no sense");
        }
        return GpuWindow.of(
                open,
                link,
                memory,
                answer.access(),
                (answer.path() & RegionMessage.THROUGH) != 0,
                record,
                answer.descriptors());
    }

    /// Asks the owner over the socket and does what it answers, if that was asked for.
    private ShmWindow ask(RemoteMemory memory, int paths, Deadline deadline) {
        RegionMessage.Answer answer = link.exchange().ask(memory, paths, deadline);
        boolean given = false;
        try {
            if (answer.status() == RegionMessage.Status.DEVICE
                    && (paths & RegionMessage.GPU) == 0) {
                throw new OnDevice();
            }
            if (answer.status() != RegionMessage.Status.OK) {
                throw refusal(memory, answer.status(), answer.reason());
            }
            if (answer.size() < 0) {
                throw new TelpherException.ProtocolViolation(
                        link.text() + ": a region of " + answer.size() + " bytes");
            }
            if (answer.path() == RegionMessage.MAPPED && (paths & RegionMessage.MAPPED) != 0) {
                return map(memory, answer, deadline);
            }
            int gpuPath = answer.path() & RegionMessage.GPU;
            if (gpuPath != 0 && (paths & gpuPath) == gpuPath) {
                ShmWindow window = importGpu(memory, answer);
                given = true;
                return window;
            }
            if (answer.path() == RegionMessage.CMA && (paths & RegionMessage.CMA) != 0) {
                return new CmaWindow(
                        open,
                        link,
                        memory,
                        answer.access(),
                        process,
                        answer.address(),
                        answer.size());
            }
            throw new TelpherException.ProtocolViolation(
                    link.text() + ": path " + answer.path() + " was not asked for");
        } finally {
            if (!given) {
                UnixChannel.closeAll(answer.descriptors());
            }
        }
    }

    /// Maps the owner's file and makes the page tables, as far as the deadline allows: the first
    /// copy then runs at the speed of all others.
    private ShmWindow map(RemoteMemory memory, RegionMessage.Answer answer, Deadline deadline) {
        Access access = answer.access();
        int protection = Memory.PROT_READ | (access.canWrite() ? Memory.PROT_WRITE : 0);
        int advice = access.canWrite() ? Memory.MADV_POPULATE_WRITE : Memory.MADV_POPULATE_READ;
        // The whole file: huge pages can be mapped and unmapped in whole pages only.
        Mapping.checkFile(answer.descriptor(), answer.size(), "region");
        long bytes = Memory.size(answer.descriptor());
        Mapping mapping = Mapping.open(answer.descriptor(), bytes, protection, "region");
        for (long at = 0; at < bytes && !deadline.passed(); at += POPULATE_STEP) {
            mapping.populate(at, Math.min(POPULATE_STEP, bytes - at), advice);
        }
        return new DirectWindow(
                open,
                link,
                "mapped",
                memory,
                access,
                mapping.segment().asSlice(0, answer.size()),
                null,
                mapping);
    }

    /// @param reason as the owner says, or empty
    /// @return what a refusal means to the program
    private TelpherException refusal(
            RemoteMemory memory, RegionMessage.Status status, String reason) {
        return switch (status) {
            case STALE -> new TelpherException.StaleRegion(memory + " was closed by its owner");
            case DENIED ->
                    new TelpherException.AccessDenied(
                            memory + ": wrong key, or its owner allows peers nothing");
            case DEVICE -> {
                if (!reason.isEmpty()) {
                    notLent(reason);
                }
                yield new TelpherException.Unsupported(
                        "%s is memory of a GPU that its owner cannot lend%s%s"
                                .formatted(memory, reason.isEmpty() ? "" : ": ", reason));
            }
            case NO_PATH, OK ->
                    new TelpherException.Unsupported(
                            "%s: its owner lends it neither as a file nor for cma; here %s"
                                    .formatted(memory, explain()));
        };
    }

    private synchronized void notLent(String reason) {
        if (notLent.size() < MOST_REASONS) {
            notLent.add(reason);
        }
    }

    /// The owner wants back the memory of a device. On the control executor.
    void revoked(int index, int generation) {
        open.revoked(index, generation);
    }

    @Override
    public String explain() {
        return "self: %s; mapped: %s; cma: %s%s"
                .formatted(answer(noSelf), answer(noMapped), answer(noCma), gpus());
    }

    /// What is in use: what would be possible is not found out before it is needed.
    private synchronized String gpus() {
        Set<String> paths = open.gpuPaths();
        return (paths.isEmpty() ? "" : "; GPUs: " + String.join(", ", paths))
                + (notLent.isEmpty()
                        ? ""
                        : "; memory of a GPU that its owner does not lend: "
                                + String.join("; ", notLent));
    }

    private static String answer(@Nullable String reason) {
        return reason == null ? "yes" : "no, " + reason;
    }

    /// Closes every window, which waits for the threads inside, before the link is let go: when the
    /// peer sees the hang-up, nobody here touches its memory any more.
    @Override
    public void close() {
        if (!open.close()) {
            return;
        }
        if (askedForGpus) {
            link.exchange().releasedAll();
        }
        process.close();
        link.windowsClosed();
    }

    @Override
    public String toString() {
        return "windows to endpoint %016x".formatted(peer.incarnation());
    }
}
