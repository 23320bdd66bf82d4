package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The regions that an operation touches, each once. One per slot, used
/// again and again; belongs to whoever has set the operation's `copying`.
final class OperationRegions {
    private RegionImpl[] here = new RegionImpl[1];
    private RemoteMemory[] there = new RemoteMemory[1];
    private int locals;
    private int remotes;
    private boolean taken;

    /// The first of a device that has local memory, and whether others have some too.
    private @Nullable Device device;

    private boolean several;

    /// Whether pieces of the peer's have no bytes: nothing that copies comes across them.
    private boolean empty;

    /// Takes an operation's, unless that has been done since the last [#clear].
    OperationRegions of(Operation op) {
        if (!taken) {
            taken = true;
            takeLocal(op.region, op.localPieces);
            takeRemote(op.remote, op.remotePieces);
        }
        return this;
    }

    private void takeLocal(@Nullable RegionImpl only, @Nullable MemorySlices pieces) {
        if (pieces == null) {
            if (only != null) {
                add(only);
            }
        } else if (pieces.count() > 0) {
            List<MemoryRegion> regions = pieces.regions();
            for (int i = 0; i < regions.size(); i++) { // an iterator would be garbage
                add((RegionImpl) regions.get(i));
            }
        }
    }

    private void takeRemote(@Nullable RemoteMemory only, @Nullable RemoteSlices pieces) {
        if (pieces == null) {
            if (only != null) {
                add(only);
            }
        } else if (pieces.count() > 0) {
            empty = pieces.hasEmpty();
            List<RemoteMemory> regions = pieces.regions();
            for (int i = 0; i < regions.size(); i++) {
                add(regions.get(i));
            }
        }
    }

    private void add(RegionImpl region) {
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
        if (remotes == there.length) {
            there = Arrays.copyOf(there, 2 * remotes);
        }
        there[remotes++] = memory;
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
        if (taken) {
            Arrays.fill(here, 0, locals, null);
            Arrays.fill(there, 0, remotes, null);
            locals = 0;
            remotes = 0;
            device = null;
            several = false;
            empty = false;
            taken = false;
        }
    }
}
