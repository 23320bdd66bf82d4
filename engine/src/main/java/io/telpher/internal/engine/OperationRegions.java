package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The regions that an operation touches, found in one walk over its pieces. One per slot, used
/// again and again; belongs to whoever has set the operation's `copying`.
///
/// A region that comes again and again is listed once, unless several others come in between:
/// whoever reads the lists must not mind.
final class OperationRegions {
    /// How many of those listed last a region is compared with.
    private static final int LAST = 4;

    private RegionImpl[] here = new RegionImpl[1];
    private RemoteMemory[] there = new RemoteMemory[1];
    private int locals;
    private int remotes;
    private boolean walked;

    /// The first of a device that has local memory, and whether others have some too.
    private @Nullable Device device;

    private boolean several;

    /// Whether pieces of the peer's have no bytes: nothing that copies comes across them.
    private boolean empty;

    /// Walks over an operation, unless that has been done since the last [#clear].
    OperationRegions of(Operation op) {
        if (!walked) {
            walked = true;
            walkLocal(op.region, op.localPieces);
            walkRemote(op.remote, op.remotePieces);
        }
        return this;
    }

    private void walkLocal(@Nullable RegionImpl only, @Nullable MemorySlices pieces) {
        if (pieces == null) {
            if (only != null) {
                add(only);
            }
            return;
        }
        int count = pieces.isStrided() ? Math.min(1, pieces.count()) : pieces.count();
        RegionImpl before = null;
        for (int i = 0; i < count; i++) {
            RegionImpl region = (RegionImpl) pieces.region(i);
            if (region != before) {
                add(region);
                before = region;
            }
        }
    }

    private void walkRemote(@Nullable RemoteMemory only, @Nullable RemoteSlices pieces) {
        if (pieces == null) {
            if (only != null) {
                add(only);
            }
            return;
        }
        int count = pieces.isStrided() ? Math.min(1, pieces.count()) : pieces.count();
        RemoteMemory before = null;
        for (int i = 0; i < count; i++) {
            RemoteMemory memory = pieces.memory(i);
            empty |= pieces.length(i) == 0;
            if (before == null || (memory != before && !isSame(before, memory))) {
                add(memory);
                before = memory;
            }
        }
    }

    private void add(RegionImpl region) {
        for (int i = Math.max(0, locals - LAST); i < locals; i++) {
            if (here[i] == region) {
                return;
            }
        }
        if (locals == here.length) {
            here = Arrays.copyOf(here, 2 * locals);
        }
        here[locals++] = region;
        DeviceMemory memory = region.deviceMemory();
        if (memory != null) {
            several |= device != null && !device.equals(memory.device());
            device = device == null ? memory.device() : device;
        }
    }

    private void add(RemoteMemory memory) {
        for (int i = Math.max(0, remotes - LAST); i < remotes; i++) {
            if (isSame(there[i], memory)) {
                return;
            }
        }
        if (remotes == there.length) {
            there = Arrays.copyOf(there, 2 * remotes);
        }
        there[remotes++] = memory;
    }

    /// Whether two descriptors are of the same life of a region.
    static boolean isSame(RemoteMemory a, RemoteMemory b) {
        return a.region() == b.region() && a.generation() == b.generation();
    }

    /// @return the peer's regions, the first [#remotes] of them; not to be changed
    RemoteMemory[] remoteArray() {
        return there;
    }

    /// @return how many of the peer's regions there are
    int remotes() {
        return remotes;
    }

    RemoteMemory remote(int i) {
        return there[i];
    }

    /// @return this side's regions, a copy
    RegionImpl[] locals() {
        return Arrays.copyOf(here, locals);
    }

    /// @return false when an arena of this side's host memory was closed
    boolean isHostMemoryThere() {
        for (int i = 0; i < locals; i++) {
            if (here[i].isHost() && !here[i].segment().scope().isAlive()) {
                return false;
            }
        }
        return true;
    }

    /// @return the peer's regions, a copy
    RemoteMemory[] allRemotes() {
        return Arrays.copyOf(there, remotes);
    }

    /// @return the device that local memory is on, the first if there are several, or null
    @Nullable Device device() {
        return device;
    }

    /// @return whether local memory is on several devices
    boolean onSeveral() {
        return several;
    }

    /// @return whether some of the peer's pieces have no bytes
    boolean hasEmpty() {
        return empty;
    }

    /// Forgets them.
    void clear() {
        if (walked) {
            Arrays.fill(here, 0, locals, null);
            Arrays.fill(there, 0, remotes, null);
            locals = 0;
            remotes = 0;
            device = null;
            several = false;
            empty = false;
            walked = false;
        }
    }
}
