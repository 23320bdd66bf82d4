package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Deadline;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.util.HashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Opens a peer's regions: inside this process directly, else by mapping the owner's memfd, else by
/// `process_vm_writev`. What is possible was found out once, when the link came to be.
final class ShmWindows implements Windows {
    /// Page tables are filled in pieces of this size, with a look at the deadline in between.
    private static final long POPULATE_STEP = 64 << 20;

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

    // Guarded by this. Windows that have not been closed yet; whoever takes one out closes it.
    private final Set<ShmWindow> open = new HashSet<>();
    private boolean closed;

    /// Windows that are being closed one by one.
    private int forgetting;

    /// Some thread never left a window: the link's pages, where it is still announced, must stay.
    private boolean leaking;

    private ShmWindows(ShmEndpoint endpoint, ShmLink link, PeerAddress peer) {
        this.endpoint = endpoint;
        this.link = link;
        this.peer = peer;
        LinkSetup.Greeting greeting = link.greeting();
        ShmEndpoint found = ShmEndpoint.local(greeting.incarnation());
        local = link.pid() == endpoint.host().pid() ? found : null;
        process = new ProcessMemory(link.pid(), greeting.cookieAddress(), greeting.cookie());
        noSelf = local == null ? "other process" : forbidden("self");
        noMapped = forbidden("mapped");
        String cma = forbidden("cma");
        String probed = cma != null ? cma : process.probe();
        noCma = probed == null || greeting.dumpable() ? probed : probed + " (it is not dumpable)";
    }

    /// Finds out what is possible. Costs one or two system calls, for `cma`.
    ///
    /// @return null when no path to the peer's memory is left
    static @Nullable ShmWindows of(ShmEndpoint endpoint, ShmLink link, PeerAddress peer) {
        ShmWindows windows = new ShmWindows(endpoint, link, peer);
        boolean none = windows.noSelf != null && windows.noMapped != null && windows.noCma != null;
        if (none) {
            windows.process.close();
            return null;
        }
        return windows;
    }

    /// @return null when this side's options allow the path; the owner's are asked when it answers
    private @Nullable String forbidden(String path) {
        return endpoint.allows(path) ? null : "not among the option 'paths'";
    }

    /// Tries `self`, then whichever of `mapped` and `cma` the owner chooses; a file that cannot be
    /// mapped here is asked for again by `cma`.
    @Override
    public Window open(RemoteMemory memory, Deadline deadline) {
        if (memory.incarnation() != link.greeting().incarnation()) {
            throw new TelpherException.StaleRegion(
                    memory + " belongs to an endpoint that has restarted since");
        }
        if (!RegionEntries.holds(memory.region())) {
            throw new TelpherException.Unsupported(
                    "region %d: only the first %d regions are reached directly"
                            .formatted(memory.region(), RegionEntries.CAPACITY));
        }
        if (local != null && noSelf == null && local.allows("self")) {
            return add(openLocal(local, memory));
        }
        int paths =
                (noMapped == null ? RegionExchange.MAPPED : 0)
                        | (noCma == null ? RegionExchange.CMA : 0);
        try {
            return add(ask(memory, paths, deadline));
        } catch (TelpherException.NativeFailure e) {
            // The mapping failed, for want of address space or of map entries.
            if ((paths & RegionExchange.CMA) == 0) {
                throw new TelpherException.Unsupported(link.text() + ": " + e.getMessage());
            }
            return add(ask(memory, RegionExchange.CMA, deadline));
        }
    }

    /// The owner's segment itself. The hazard slots work as between processes, through the same two
    /// mappings, so there is one way to close a region.
    private ShmWindow openLocal(ShmEndpoint owner, RemoteMemory memory) {
        LocalRegion region = owner.lend(memory.region(), memory.generation(), memory.key());
        if (region == null) {
            throw refusal(
                    memory,
                    owner.isOpen(memory.region(), memory.generation())
                            ? RegionExchange.Status.DENIED
                            : RegionExchange.Status.STALE);
        }
        Access access = region.access();
        if (!access.canRead() && !access.canWrite()) {
            throw refusal(memory, RegionExchange.Status.DENIED);
        }
        return new DirectWindow(this, link, "self", memory, access, region.segment(), null);
    }

    /// Asks the owner over the socket and does what it answers, if that was asked for.
    private ShmWindow ask(RemoteMemory memory, int paths, Deadline deadline) {
        if (paths == 0) {
            throw new TelpherException.Unsupported(memory + ": " + explain());
        }
        RegionExchange.Answer answer = link.exchange().ask(memory, paths, deadline);
        try {
            if (answer.status() != RegionExchange.Status.OK) {
                throw refusal(memory, answer.status());
            }
            if (answer.size() < 0) {
                throw new TelpherException.ProtocolViolation(
                        link.text() + ": a region of " + answer.size() + " bytes");
            }
            if (answer.path() == RegionExchange.MAPPED && (paths & RegionExchange.MAPPED) != 0) {
                return map(memory, answer, deadline);
            }
            if (answer.path() == RegionExchange.CMA && (paths & RegionExchange.CMA) != 0) {
                return new CmaWindow(
                        this,
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
            Mapping.closeDescriptor(answer.descriptor());
        }
    }

    /// Maps the owner's file and makes the page tables, as far as the deadline allows: the first
    /// copy then runs at the speed of all others.
    private ShmWindow map(RemoteMemory memory, RegionExchange.Answer answer, Deadline deadline) {
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
                this,
                link,
                "mapped",
                memory,
                access,
                mapping.segment().asSlice(0, answer.size()),
                mapping);
    }

    /// @return what a refusal means to the program
    private TelpherException refusal(RemoteMemory memory, RegionExchange.Status status) {
        return switch (status) {
            case STALE -> new TelpherException.StaleRegion(memory + " was closed by its owner");
            case DENIED ->
                    new TelpherException.AccessDenied(
                            memory + ": wrong key, or its owner allows peers nothing");
            case NO_PATH, OK ->
                    new TelpherException.Unsupported(
                            "%s: its owner lends it neither as a file nor for cma; here %s"
                                    .formatted(memory, explain()));
        };
    }

    /// Lists a new window, unless all were closed while it was opened.
    private ShmWindow add(ShmWindow window) {
        synchronized (this) {
            if (!closed) {
                open.add(window);
                return window;
            }
        }
        window.unmap(); // nobody knows it
        throw new TelpherException.Closed(link.text() + " is closed");
    }

    /// @return whether the window was still listed: the caller closes it then, and calls
    ///     [#forgotten()]
    synchronized boolean forget(ShmWindow window) {
        boolean listed = open.remove(window);
        if (listed) {
            forgetting++;
        }
        return listed;
    }

    /// A window that is not listed any more has been closed.
    synchronized void forgotten() {
        forgetting--;
        notifyAll();
    }

    /// Waits for windows that others are closing: they look at the link's memory. Each takes a
    /// limited time.
    private synchronized void awaitForgotten() {
        boolean interrupted = false;
        while (forgetting > 0) {
            try {
                wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /// A thread did not leave a window in time: this link's memory stays for good.
    void leaked(ShmWindow window) {
        synchronized (this) {
            leaking = true;
        }
        Log.warning(
                "a thread stays inside a window of path %s to %s; its memory is not given back"
                        .formatted(window.path(), link.text()),
                null);
    }

    @Override
    public String explain() {
        return "self: %s; mapped: %s; cma: %s"
                .formatted(answer(noSelf), answer(noMapped), answer(noCma));
    }

    private static String answer(@Nullable String reason) {
        return reason == null ? "yes" : "no, " + reason;
    }

    /// Closes every window, which waits for the threads inside, before the link is let go: when the
    /// peer sees the hang-up, nobody here touches its memory any more.
    @Override
    public void close() {
        Set<ShmWindow> rest;
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
            rest = Set.copyOf(open);
            open.clear();
        }
        for (ShmWindow window : rest) {
            boolean unused = window.shut();
        }
        awaitForgotten();
        synchronized (this) {
            if (leaking) {
                return;
            }
        }
        process.close();
        link.windowsClosed();
    }

    @Override
    public String toString() {
        return "windows to endpoint %016x".formatted(peer.incarnation());
    }
}
