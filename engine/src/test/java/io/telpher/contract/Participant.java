package io.telpher.contract;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.DeviceMemory;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.ffi.cuda.FakeGpu;
import io.telpher.internal.transport.verbs.FakeVerbs;
import java.io.Serializable;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;

/// What one side of a test owns: an endpoint, a connection, and regions and transfers by name.
final class Participant implements AutoCloseable {
    /// Longer than anything may take that a test waits for.
    static final Duration LIMIT = Duration.ofSeconds(30);

    private final Map<String, Memory> memories = new ConcurrentHashMap<>();
    private final Map<String, Transfer> transfers = new ConcurrentHashMap<>();
    private volatile Endpoint endpoint;
    private volatile Connection connection;

    private record Memory(MemoryRegion region, MemorySegment segment, Arena arena) {}

    /// Changes options; can travel to another process.
    interface Tweak extends UnaryOperator<EndpointOptions>, Serializable {}

    /// Opens the endpoint.
    ///
    /// @return its address
    byte[] open(Tweak tweak) {
        endpoint = FakeVerbs.open(tweak.apply(EndpointOptions.DEFAULTS));
        return endpoint.address().toBytes();
    }

    Endpoint endpoint() {
        return endpoint;
    }

    Connection connection() {
        return connection;
    }

    /// Makes another connection the one that [#connection()] returns.
    void use(Connection other) {
        connection = other;
    }

    Connection accept() {
        connection = endpoint.accept(LIMIT);
        return connection;
    }

    Connection connect(byte[] address) {
        connection = endpoint.connect(EndpointAddress.ofBytes(address), LIMIT);
        return connection;
    }

    /// Makes a region.
    MemoryRegion add(String name, Kind kind, long bytes, Access access) {
        Arena arena = arena();
        MemoryRegion region = kind.create(endpoint, bytes, access, arena);
        return keep(name, region, arena);
    }

    /// @return an arena for [#keep(String, MemoryRegion, Arena)]
    @SuppressWarnings("MustBeClosedChecker") // closeRegions and close do that.
    static Arena arena() {
        return Arena.ofShared();
    }

    /// Makes a region that peers may read and write.
    MemoryRegion add(String name, Kind kind, long bytes) {
        return add(name, kind, bytes, Access.READ_WRITE);
    }

    /// Takes care of a region.
    ///
    /// @param arena owns its memory; closed after the region
    MemoryRegion keep(String name, MemoryRegion region, Arena arena) {
        DeviceMemory device = region.deviceMemory();
        MemorySegment segment =
                device == null ? region.segment() : FakeGpu.view(device.address(), device.size());
        memories.put(name, new Memory(region, segment, arena));
        return region;
    }

    MemoryRegion region(String name) {
        return memories.get(name).region;
    }

    /// @return the region's bytes, also after the region was closed
    MemorySegment segment(String name) {
        return memories.get(name).segment;
    }

    MemorySlice slice(String name, long offset, long length) {
        return region(name).slice(offset, length);
    }

    void fill(String name, long offset, long length, long seed) {
        Content.fill(segment(name), offset, length, seed);
    }

    void check(String name, long offset, long length, long seed) {
        Content.check(segment(name), offset, length, seed);
    }

    /// Keeps a posted transfer for a later look.
    Transfer keep(String name, Transfer transfer) {
        transfers.put(name, transfer);
        return transfer;
    }

    Transfer transfer(String name) {
        return transfers.get(name);
    }

    Outcome outcome(String name) {
        return Outcome.of(transfers.get(name));
    }

    /// Posts an operation on the connection and waits for its end.
    Outcome write(String name, long offset, long length, RemoteMemory remote) {
        return Outcome.of(connection.write(slice(name, offset, length), remote));
    }

    /// Closes a region; one that is busy gets a second chance, as the API says.
    void closeRegion(String name) {
        MemoryRegion region = region(name);
        long end = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            try {
                region.close();
                return;
            } catch (TelpherException.RegionBusy e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
            }
        }
    }

    /// Closes a region, then frees the memory below it.
    void drop(String name) {
        closeRegion(name);
        memories.remove(name).arena.close();
    }

    /// Closes all regions, then frees the memory below them.
    void closeRegions() {
        memories.keySet().forEach(this::closeRegion);
        memories.values().forEach(memory -> memory.arena.close());
        memories.clear();
        transfers.clear();
    }

    void closeConnection() {
        if (connection != null) {
            connection.close();
        }
    }

    @Override
    public void close() {
        if (endpoint != null) {
            endpoint.close();
        }
        memories.values().forEach(memory -> memory.arena.close());
        memories.clear();
    }
}
