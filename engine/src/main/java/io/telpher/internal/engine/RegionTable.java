package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The regions of one endpoint by index. An index is used again with the next generation, so that a
/// descriptor names one life of one region; the key keeps descriptors from being guessed.
///
/// Look-ups take no lock: the array and its elements are published by volatile writes.
final class RegionTable {
    /// The most regions at a time: what the shared table of the `shm` transport holds.
    static final int CAPACITY = 65_536;

    private final EndpointImpl endpoint;
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    private volatile @Nullable RegionImpl[] regions = new RegionImpl[16];
    private int[] generations = new int[16];
    private int used;
    private long count;
    private long bytes;
    private long sharedBytes;

    RegionTable(EndpointImpl endpoint) {
        this.endpoint = endpoint;
    }

    synchronized RegionImpl add(RegionMemory memory, Access access) {
        int index;
        if (!free.isEmpty()) {
            index = free.removeFirst();
        } else {
            if (used == CAPACITY) {
                throw new IllegalStateException(
                        "an endpoint holds at most " + CAPACITY + " regions; close some");
            }
            index = used++;
            if (index == generations.length) {
                generations = java.util.Arrays.copyOf(generations, index * 2);
                regions = java.util.Arrays.copyOf(regions, index * 2);
            }
        }
        // 31 bits: the shared table keeps the generation beside one flag bit.
        int generation = generations[index] + 1 & 0x7fff_ffff;
        generations[index] = generation;
        long key;
        do {
            key = endpoint.platform().random().nextLong();
        } while (key == 0);
        RegionImpl region = new RegionImpl(endpoint, memory, access, index, generation, key);
        @Nullable RegionImpl[] array = regions;
        array[index] = region;
        regions = array; // publishes the element
        count++;
        bytes += region.size();
        sharedBytes += memory.memfd() < 0 ? 0 : region.size();
        Events.registered(region);
        return region;
    }

    /// Frees the index; the region has been revoked everywhere.
    synchronized void remove(RegionImpl region) {
        @Nullable RegionImpl[] array = regions;
        if (array[region.index()] == region) {
            array[region.index()] = null;
            regions = array;
            free.addLast(region.index());
            count--;
            bytes -= region.size();
            sharedBytes -= region.memfd() < 0 ? 0 : region.size();
            Events.unregistered(region);
        }
    }

    synchronized long count() {
        return count;
    }

    synchronized long bytes() {
        return bytes;
    }

    /// Those of regions that peers can map.
    synchronized long sharedBytes() {
        return sharedBytes;
    }

    /// @return the open region, or null when the index is free or the generation is another one
    @Nullable RegionImpl find(int index, int generation) {
        @Nullable RegionImpl[] array = regions;
        if (index < 0 || index >= array.length) {
            return null;
        }
        RegionImpl region = array[index];
        return region != null && region.generation() == generation && region.isOpen()
                ? region
                : null;
    }

    synchronized List<RegionImpl> all() {
        List<RegionImpl> result = new ArrayList<>();
        for (RegionImpl region : regions) {
            if (region != null) {
                result.add(region);
            }
        }
        return result;
    }

    /// The region that holds all of a local segment's bytes and may be described to a peer, or
    /// null.
    RemoteMemory describe(RegionImpl region, long offset, long length) {
        return new RemoteMemory(
                endpoint.incarnation(),
                region.index(),
                region.generation(),
                region.key(),
                offset,
                length,
                region.access());
    }
}
