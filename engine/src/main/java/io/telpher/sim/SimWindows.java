package io.telpher.sim;

import io.telpher.CounterUpdate;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/// One-sided access to the memory of another simulated process: copies in slices, between which the
/// thread can lose its turn.
final class SimWindows implements Windows {
    static final String PATH = "sim-window";

    private static final int SLICE = 4 << 10;
    private static final VarHandle WORD = ValueLayout.JAVA_LONG.varHandle();

    private final SimProcess process;
    private final WindowRegistry registry;
    private final SimAdverts adverts;
    private final Set<SimWindow> open = new LinkedHashSet<>();
    private boolean closed;

    SimWindows(SimProcess process, WindowRegistry registry, SimAdverts adverts) {
        this.process = process;
        this.registry = registry;
        this.adverts = adverts;
        process.add(this);
    }

    /// What should not be there while no operation is under way: accesses that have not ended, and
    /// windows to regions that their owner has closed, whose memory is not free until then.
    List<String> leftovers() {
        List<String> found = new ArrayList<>();
        for (SimWindow window : open) {
            LocalRegion region = window.region;
            String name = "region %d.%d".formatted(region.index(), region.generation());
            if (!window.inside.isEmpty()) {
                found.add(window.inside.size() + " accesses to " + name);
            }
            if (!registry.process().isOver()
                    && !registry.context().isOpen(region.index(), region.generation())) {
                found.add("a window to " + name + ", which is closed");
            }
        }
        return found;
    }

    @Override
    public CompletableFuture<Window> open(RemoteMemory memory, Deadline deadline) {
        process.scheduler().preempt();
        if (registry.process().isOver()) {
            throw new TelpherException.PeerLost(registry.process().name() + " is gone");
        }
        LocalRegion region =
                registry.context().region(memory.region(), memory.generation(), memory.key());
        if (region == null) {
            if (registry.context().isOpen(memory.region(), memory.generation())) {
                throw new TelpherException.AccessDenied(memory + ": wrong key");
            }
            throw new TelpherException.StaleRegion(memory + " is closed");
        }
        SimWindow window = new SimWindow(region);
        open.add(window);
        process.scheduler().preempt(); // the answer is on its way, and the region may be closed now
        return CompletableFuture.completedFuture(window);
    }

    @Override
    public SimAdverts adverts() {
        return adverts;
    }

    @Override
    public String explain() {
        return "simulated windows";
    }

    @Override
    public void close() {
        closed = true;
        open.clear();
        process.remove(this);
    }

    private final class SimWindow implements Window {
        private final LocalRegion region;
        private final Map<Integer, WindowRegistry.Access> inside = new HashMap<>();
        private int tickets;

        SimWindow(LocalRegion region) {
            this.region = region;
        }

        @Override
        public String path() {
            return PATH;
        }

        @Override
        public int enter() {
            WindowRegistry.Access access = closed ? null : registry.enter(process, region);
            if (access == null) {
                return STALE;
            }
            int ticket = tickets++ & Integer.MAX_VALUE;
            inside.put(ticket, access);
            process.scheduler().preempt();
            return ticket;
        }

        @Override
        public void exit(int ticket) {
            WindowRegistry.Access access = inside.remove(ticket);
            if (access != null) {
                registry.exit(access);
            }
        }

        @Override
        public long write(
                int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
            if (!region.access().canWrite()) {
                return DENIED;
            }
            return copy(local, at, region.segment(), offset, offset, length, guard);
        }

        @Override
        public long read(
                int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
            if (!region.access().canRead()) {
                return DENIED;
            }
            return copy(region.segment(), offset, local, at, offset, length, guard);
        }

        /// @param offset where the range starts in the region
        private long copy(
                MemorySegment from,
                long at,
                MemorySegment to,
                long into,
                long offset,
                long length,
                Guard guard) {
            long size = region.segment().byteSize();
            if (offset < 0 || length < 0 || offset > size || length > size - offset) {
                return DENIED;
            }
            long done = 0;
            while (true) {
                if (registry.process().isOver()) {
                    return done > 0 ? done : LOST;
                }
                if (!registry.context().isOpen(region.index(), region.generation())) {
                    return done > 0 && done < length ? done : STALE;
                }
                if (done == length) {
                    return done;
                }
                if (!guard.goOn()) {
                    return done > 0 ? done : STOPPED;
                }
                process.scheduler().preempt(); // in the middle of a slice, after the looks
                long n = Math.min(SLICE, length - done);
                MemorySegment.copy(from, at + done, to, into + done, n);
                done += n;
                process.scheduler().preempt();
            }
        }

        @Override
        public boolean updatesCounters() {
            return true;
        }

        @Override
        public int update(int ticket, long offset, CounterUpdate.Kind kind, long value) {
            if (!region.access().canWrite()
                    || offset < 0
                    || (offset & 7) != 0
                    || offset > region.segment().byteSize() - Long.BYTES) {
                return DENIED;
            }
            if (registry.process().isOver()) {
                return LOST;
            }
            if (!registry.context().isOpen(region.index(), region.generation())) {
                return STALE;
            }
            if (kind == CounterUpdate.Kind.ADD) {
                long unused = (long) WORD.getAndAdd(region.segment(), offset, value);
            } else {
                WORD.setRelease(region.segment(), offset, value);
            }
            return 0;
        }

        @Override
        public void close() {
            open.remove(this); // accesses that are under way end by themselves
        }
    }
}
