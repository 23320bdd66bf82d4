package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Lendable;
import io.telpher.spi.Deadline;
import io.telpher.spi.LocalRegion;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// One registered region. `users` counts the operations of this process that may touch the bytes,
/// and slots of operations that stay counted in between ([RegionHold]), plus one in [#CLOSED] once
/// the region is closed: then nobody enters any more.
final class RegionImpl implements MemoryRegion, LocalRegion, Lendable {
    private static final int CLOSED = 1 << 30;

    private final EndpointImpl endpoint;
    private final RegionMemory memory;

    /// The bytes, or null when only a device can follow their address.
    private final @Nullable MemorySegment host;

    private final long size;
    private final Access access;
    private final int index;
    private final int generation;
    private final long key;
    private final RemoteMemory remote;
    final AtomicInteger users = new AtomicInteger();

    /// The last device that cannot reach it; racy, whoever misses it tries once more.
    private volatile @Nullable Device refusing;

    /// Guarded by `this`: whether everything has been given back.
    private boolean freed;

    /// Guarded by `this`: a thread is closing it.
    private boolean closing;

    /// Guarded by `this`: who uses the memory by its address, whatever becomes of the region.
    private int loans;

    /// Guarded by `this`: whether the memory is the borrowers' alone, or has gone.
    private boolean left;

    RegionImpl(
            EndpointImpl endpoint,
            RegionMemory memory,
            Access access,
            int index,
            int generation,
            long key) {
        this.endpoint = endpoint;
        this.memory = memory;
        this.host = memory.host();
        this.size = memory.size();
        this.access = access;
        this.index = index;
        this.generation = generation;
        this.key = key;
        this.remote =
                new RemoteMemory(endpoint.incarnation(), index, generation, key, 0, size, access);
    }

    /// Counts a user in.
    ///
    /// @return false when the region is closed
    boolean enter() {
        if (users.incrementAndGet() >= CLOSED) {
            users.decrementAndGet();
            return false;
        }
        return true;
    }

    void exit() {
        users.decrementAndGet();
    }

    EndpointImpl endpoint() {
        return endpoint;
    }

    long key() {
        return key;
    }

    /// @return whether the host can follow the address of its bytes
    boolean isHost() {
        return host != null;
    }

    RegionMemory memory() {
        return memory;
    }

    @Override
    public MemorySegment segment() {
        MemorySegment bytes = host;
        return bytes != null ? bytes : noSegment();
    }

    /// Apart, to keep the way of every short copy short.
    private MemorySegment noSegment() {
        throw new TelpherException.Unsupported(
                this
                        + " has no segment: the host cannot follow a device's addresses; use copyIn,"
                        + " copyOut or deviceMemory");
    }

    @Override
    public @Nullable DeviceMemory deviceMemory() {
        return memory.device();
    }

    /// Notes that a device cannot be made to reach it: what it would copy goes by frames.
    void refuse(Device by) {
        refusing = by;
    }

    /// @return whether a device was found not to reach it
    boolean refuses(Device by) {
        return by.equals(refusing);
    }

    @Override
    public synchronized boolean mayLinger() {
        return memory.mayLinger() && loans == 0;
    }

    @Override
    public void prepare(Device by) {
        memory.prepare(by);
    }

    @Override
    public long address(Device by) {
        return memory.address(by);
    }

    @Override
    public void copyIn(long at, MemorySegment from) {
        move(at, from.byteSize(), () -> memory.copyIn(at, from, 0, from.byteSize()));
    }

    @Override
    public void copyOut(long at, MemorySegment into) {
        move(at, into.byteSize(), () -> memory.copyOut(at, into, 0, into.byteSize()));
    }

    private void move(long at, long bytes, Runnable copy) {
        Objects.checkFromIndexSize(at, bytes, size);
        if (!enter()) {
            throw new TelpherException.StaleRegion(this + " is closed");
        }
        try {
            if (bytes > 0) {
                copy.run();
            }
        } finally {
            exit();
        }
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public Access access() {
        return access;
    }

    @Override
    public boolean isOpen() {
        return users.get() < CLOSED;
    }

    @Override
    public RemoteMemory remote() {
        return remote;
    }

    @Override
    public int index() {
        return index;
    }

    @Override
    public int generation() {
        return generation;
    }

    @Override
    public int memfd() {
        return memory.memfd();
    }

    /// One thread at a time; the others wait for it, without the monitor: it has a deadline for all
    /// that it waits for.
    @Override
    public void close() {
        int round = 0;
        while (!beginClose()) {
            endpoint.platform().pause(round++);
        }
        boolean done = isFreed();
        try {
            if (!done) {
                free();
                done = true;
            }
        } finally {
            endClose(done);
        }
    }

    private synchronized boolean beginClose() {
        boolean mine = !closing;
        closing = true;
        return mine;
    }

    private synchronized boolean isFreed() {
        return freed;
    }

    private synchronized void endClose(boolean done) {
        closing = false;
        freed = done;
    }

    private void free() {
        // New users are refused from here on.
        users.getAndUpdate(n -> n >= CLOSED ? n : n + CLOSED);
        Deadline deadline = endpoint.platform().in(endpoint.options().drainLimit());
        endpoint.endUsers(this, deadline);
        String holder =
                endpoint.revoke(this, endpoint.platform().in(endpoint.options().drainLimit()));
        if (holder != null) {
            throw new TelpherException.RegionBusy(
                    "region %d.%d is closed for everything new, but %s; close it again later"
                            .formatted(index, generation, holder));
        }
        if (!awaitUsers(deadline)) {
            throw new TelpherException.RegionBusy(
                    "region %d.%d is still used by %d operations of this process; close it again later"
                            .formatted(index, generation, users.get() - CLOSED));
        }
        leave();
        // Nothing that can fail may follow: its index is another region's from here on, whose word
        // in the shared table the next try would close.
        endpoint.regions().remove(this);
    }

    /// The memory goes, or is left to who has borrowed it.
    private synchronized void leave() {
        if (loans == 0) {
            memory.close();
        }
        left = true;
    }

    @Override
    public synchronized void lend() {
        if (left || !isOpen()) {
            throw new TelpherException.Closed(this + " is closed");
        }
        loans++;
    }

    @Override
    public synchronized void giveBack() {
        loans--;
        if (loans == 0 && left) {
            memory.close();
        }
    }

    /// Whether it is closed, and no operation of this process is inside.
    boolean isUnused() {
        return users.get() == CLOSED;
    }

    /// Waits until no operation of this process is inside.
    boolean awaitUsers(Deadline deadline) {
        int spins = 0;
        while (!isUnused()) {
            if (deadline.passed()) {
                return false;
            }
            endpoint.platform().pause(spins++);
        }
        return true;
    }

    @Override
    public String toString() {
        return "MemoryRegion[%d.%d, %d bytes, %s, %s]"
                .formatted(index, generation, size, access, memory.text());
    }
}
