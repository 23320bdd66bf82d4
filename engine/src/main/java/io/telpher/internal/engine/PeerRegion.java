package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.spi.Window;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// What is known of one life of one region of the peer. Its counts are settled under the monitor of
/// [Direct].
final class PeerRegion extends CopyCounts {
    final int generation;
    final long key;
    volatile @Nullable Window window;
    volatile @Nullable TelpherException refusal;

    /// It is a device's memory: only devices copy.
    boolean onDevice;

    /// Devices of this side that cannot reach it.
    final Set<Device> refusing = ConcurrentHashMap.newKeySet();

    /// Devices of this side of which it is still being found out whether they, or others for them,
    /// copy as they should.
    final Set<Device> trying = ConcurrentHashMap.newKeySet();

    /// Devices of this side that cannot reach it, and which one carries their bytes for each.
    final Map<Device, Device> intermediates = new ConcurrentHashMap<>();

    /// The opening of the window while that is under way, however it ends.
    final AtomicReference<WindowOpening.@Nullable Opening> opening = new AtomicReference<>();

    /// Whether the window was given back: its owner has closed the region.
    private final AtomicBoolean over = new AtomicBoolean();

    PeerRegion(int generation, long key) {
        this.generation = generation;
        this.key = key;
    }

    void count(Tally into) {
        Window open = window;
        if (open != null) {
            addTo(into.of(open.path()));
        }
    }

    /// Whether a device of this side does not copy by itself, for now or for good.
    boolean refuses(Device by) {
        return refusing.contains(by) || trying.contains(by) || intermediates.containsKey(by);
    }

    /// Has another device carry a device's bytes.
    ///
    /// @return false when that is refused for good
    synchronized boolean carry(Device by, Device through) {
        if (refusing.contains(by)) {
            return false; // it was forsaken meanwhile
        }
        intermediates.put(by, through);
        return true;
    }

    /// Has it no longer do so, for good.
    ///
    /// @return false when it does not
    synchronized boolean forsake(Device by, Device through) {
        if (!through.equals(intermediates.get(by))) {
            return false;
        }
        refusing.add(by);
        intermediates.remove(by);
        return true;
    }

    boolean isHeldInVain() {
        return window != null && !over.get() && !isAlive();
    }

    /// Gives the window back, once, whoever asks for it.
    void giveBack() {
        Window open = window;
        if (open != null && over.compareAndSet(false, true)) {
            open.close();
        }
    }

    /// Whether its owner still has the region open.
    boolean isAlive() {
        Window open = window;
        int ticket = open == null ? Window.STALE : open.enter();
        if (open == null || ticket < 0) {
            return false;
        }
        open.exit(ticket);
        return true;
    }
}
