package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The regions of an endpoint that one of its devices knows: registered when something first needs
/// it, kept, and taken back when the region closes. Thread-safe.
///
/// Whoever registers looks afterwards, under the monitor, whether the region is still open, and
/// whoever closes it has marked it closed before it takes the monitor: one of the two sees the
/// other, so no registration outlives its region.
final class Registrations implements AutoCloseable {
    private final Device device;
    private final EndpointContext endpoint;

    /// Whether the endpoint has more devices than this one.
    private final boolean amongOthers;

    // Guarded by this.
    private boolean closed;
    private @Nullable FlushWord flushWord;

    /// Of closed regions: what the device has not given up. Guarded by this.
    private final Map<Long, RegionKeys> stuck = new HashMap<>();

    /// By index of the region; written under this.
    private volatile @Nullable RegionKeys[] all = new RegionKeys[16];

    /// @param amongOthers whether the endpoint has more devices than this one
    Registrations(Device device, EndpointContext endpoint, boolean amongOthers) {
        this.amongOthers = amongOthers;
        this.device = device;
        this.endpoint = endpoint;
    }

    Device device() {
        return device;
    }

    /// @return what the device knows the region by, or null
    @Nullable RegionKeys find(int index, int generation) {
        @Nullable RegionKeys[] known = all;
        RegionKeys keys = index < known.length ? known[index] : null;
        return keys != null && keys.isOf(index, generation) ? keys : null;
    }

    /// @return what peers have to read behind their writes, or null where this is the only device:
    ///     what follows the writes comes by the same one then, and arrives behind them
    /// @throws TelpherException.NativeFailure as [#register]
    @Nullable FlushWord flushedBy() {
        return amongOthers ? flushWord() : null;
    }

    /// @throws TelpherException.NativeFailure as [#register]
    synchronized FlushWord flushWord() {
        FlushWord word = flushWord;
        if (word == null) {
            checkOpen();
            word = new FlushWord(device);
            flushWord = word;
        }
        return word;
    }

    private void checkOpen() {
        if (closed) {
            throw new TelpherException.Closed("the endpoint is closed");
        }
    }

    /// Registers a region, unless it is. Blocks: pinning a GiB takes tenths of a second.
    ///
    /// @throws TelpherException.NativeFailure when the kernel or the device refuses, with the limit
    ///     on locked memory where that may be why
    /// @throws TelpherException.Unsupported for memory of a device
    /// @throws TelpherException.StaleRegion when it was closed meanwhile
    synchronized RegionKeys register(LocalRegion region) {
        int index = region.index();
        RegionKeys keys = find(index, region.generation());
        if (keys != null) {
            return keys;
        }
        checkOpen();
        if (region.deviceMemory() != null) {
            throw new TelpherException.Unsupported(
                    region + " is memory of a GPU: " + device + " does not reach it");
        }
        RegionKeys made = RegionKeys.register(device, region);
        // Where its arena was closed these may be somebody else's pages.
        if (!endpoint.isOpen(index, region.generation()) || !region.segment().scope().isAlive()) {
            if (made.deregister(device) != null) {
                stuck.put(WindowTargets.name(index, region.generation()), made);
            }
            throw new TelpherException.StaleRegion(region + " is closed");
        }
        @Nullable RegionKeys[] more = all;
        if (index >= more.length) {
            more = Arrays.copyOf(more, Math.max(more.length * 2, index + 1));
        }
        more[index] = made;
        all = more; // publishes the element
        return made;
    }

    /// Takes a region that was marked closed away from the device.
    ///
    /// @return null, or why it may still be reached: another call tries again
    synchronized @Nullable String revoke(LocalRegion region) {
        long name = WindowTargets.name(region.index(), region.generation());
        RegionKeys keys = find(region.index(), region.generation());
        if (keys != null) {
            all[region.index()] = null;
        } else {
            keys = stuck.remove(name);
        }
        String failure = keys == null ? null : keys.deregister(device);
        if (failure != null) {
            stuck.put(name, keys);
        }
        return failure;
    }

    /// Takes back what is left; nothing uses it any more. What the device does not give up keeps it
    /// open.
    @Override
    public synchronized void close() {
        closed = true;
        for (RegionKeys keys : all) {
            if (keys != null) {
                end(keys);
            }
        }
        all = new RegionKeys[0];
        stuck.values().forEach(this::end);
        stuck.clear();
        FlushWord word = flushWord;
        if (word != null) {
            flushWord = null;
            word.close();
        }
    }

    private void end(RegionKeys keys) {
        String failure = keys.deregister(device);
        if (failure != null) {
            Log.warning(failure, null);
            device.retain();
        }
    }

    @Override
    public String toString() {
        return "registrations on " + device;
    }
}
