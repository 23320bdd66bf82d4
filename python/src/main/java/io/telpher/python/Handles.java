package io.telpher.python;

import io.telpher.TelpherException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Java objects that Python names by numbers. A handle is a slot and the slot's generation, so one
/// that was given back is recognised whatever has its slot now. Looking up takes no lock.
final class Handles {
    /// Immutable, so that a reader without a lock sees all of it.
    private record Entry(long handle, Object object, boolean lasting) {}

    private volatile @Nullable Entry[] entries = new @Nullable Entry[256];
    private int[] generations = new int[256];
    private int[] free = new int[256];
    private int frees;
    private int used;

    /// @return a number above 0 and below 2^62
    synchronized long put(Object object) {
        return put(object, false);
    }

    /// Puts an object in for ever: giving its handle back does nothing.
    synchronized long keep(Object object) {
        return put(object, true);
    }

    /// Nothing has changed when there is no memory for it.
    private long put(Object object, boolean lasting) {
        if (frees == 0 && used == entries.length) {
            grow();
        }
        int slot = frees > 0 ? free[frees - 1] : used;
        int generation = Math.max(generations[slot] + 1 & 0x3fff_ffff, 1);
        Entry entry = new Entry((long) generation << 32 | slot, object, lasting);
        if (frees > 0) {
            frees--;
        } else {
            used++;
        }
        generations[slot] = generation;
        entries[slot] = entry;
        return entry.handle;
    }

    private void grow() {
        int size = entries.length * 2;
        int[] moreGenerations = Arrays.copyOf(generations, size);
        int[] moreFree = Arrays.copyOf(free, size);
        entries = Arrays.copyOf(entries, size);
        generations = moreGenerations;
        free = moreFree;
    }

    /// Gives a handle back; one that was given back before is left alone.
    synchronized void remove(long handle) {
        int slot = slot(handle);
        Entry entry = slot < used ? entries[slot] : null;
        if (entry != null && entry.handle == handle && !entry.lasting) {
            entries[slot] = null;
            free[frees++] = slot;
        }
    }

    /// @return the object, or null when the handle was given back
    @Nullable Object find(long handle) {
        @Nullable Entry[] now = entries;
        int slot = slot(handle);
        Entry entry = slot < now.length ? now[slot] : null;
        return entry != null && entry.handle == handle ? entry.object : null;
    }

    /// @throws TelpherException.Closed when the handle was given back
    /// @throws IllegalArgumentException when it names something else
    <T> T get(long handle, Class<T> type) {
        Object object = find(handle);
        if (object == null) {
            throw new TelpherException.Closed(
                    "this %s has been given back".formatted(type.getSimpleName()));
        }
        if (!type.isInstance(object)) {
            throw new IllegalArgumentException(
                    "a %s where a %s is wanted"
                            .formatted(object.getClass().getSimpleName(), type.getSimpleName()));
        }
        return type.cast(object);
    }

    /// @return how many handles are out
    synchronized int count() {
        return used - frees;
    }

    private static int slot(long handle) {
        return (int) handle & Integer.MAX_VALUE;
    }
}
