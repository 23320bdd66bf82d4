package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Intermediates;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Window;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// Makes devices able to copy through the windows of [Direct]: the one that [DeviceCopies] chooses,
/// or else one between it and the peer's. Blocks, on the control executor; thread-safe.
final class DeviceReach {
    /// A device that fails so often in a row to carry others' bytes is not asked any more. Fewer
    /// may have been for want of memory.
    private static final int MOST_FAILURES = 3;

    private final ConnectionCore connection;
    private final Direct direct;

    /// How often in a row devices have failed to carry others' bytes.
    private final Map<Device, Integer> failures = new ConcurrentHashMap<>();

    DeviceReach(ConnectionCore connection, Direct direct) {
        this.connection = connection;
        this.direct = direct;
    }

    /// Makes a device able to reach both sides of an operation. What none can goes by frames.
    ///
    /// @param own the device of the local memory, or null
    /// @param several whether local memory is on more
    void prepare(
            Operation.Kind kind,
            @Nullable Device own,
            boolean several,
            RegionImpl[] here,
            RemoteMemory[] there) {
        Device first = direct.devices.choose(kind, own, several, there, there.length);
        if (first == null) {
            return;
        }
        for (RemoteMemory memory : there) {
            PeerRegion slot = direct.slot(memory);
            Window window = slot == null ? null : slot.window;
            if (slot != null && window != null) {
                prepare(slot, window, first, own);
            }
        }
        // Another one, if one in between was found.
        Device by = direct.devices.choose(kind, own, several, there, there.length);
        for (RegionImpl region : here) {
            if (by != null) {
                prepare(region, by);
            }
        }
    }

    private void prepare(PeerRegion slot, Window window, Device by, @Nullable Device own) {
        if (slot.refuses(by) || (own != null && slot.intermediates.containsKey(own))) {
            return;
        }
        try {
            findWay(slot, window, by, own);
        } catch (Throwable e) {
            Failures.letThrough(e);
            if (!(e instanceof TelpherException)) { // else a switch of the job that makes no sense
                Log.error("a way between devices could not be looked for", e);
            }
            String reason = e instanceof TelpherException ? e.getMessage() : e.toString();
            refuse(slot, by, "path %s by %s: %s".formatted(window.path(), by, reason));
        }
    }

    private void findWay(PeerRegion slot, Window window, Device by, @Nullable Device own) {
        Device of = window.device();
        if (of != null && mayCopyBy(window) && isBeingTried(slot, window.path(), by, by, of)) {
            return;
        }
        String refusal = reach(window, by, of);
        if (refusal == null) {
            Events.chosen(connection, window.path() + " by " + by);
            return;
        }
        String reason = "path %s by %s: %s".formatted(window.path(), by, refusal);
        if (of == null || !by.equals(own) || !allows(Intermediates.PATH)) {
            refuse(slot, by, reason);
        } else {
            findIntermediate(slot, window, by, of, reason);
        }
    }

    /// @return why the device does not copy through the window, or null: it is ready to
    private @Nullable String reach(Window window, Device by, @Nullable Device of) {
        try {
            if (of != null) {
                if (!mayCopyBy(window)) {
                    return allows(window.path())
                            ? "not among the option 'paths' of the peer"
                            : "not among the option 'paths'";
                }
                String bad = trial(window.path(), by, of);
                if (bad != null) {
                    return bad;
                }
            }
            window.prepare(by);
            return null;
        } catch (TelpherException e) {
            return String.valueOf(e.getMessage());
        }
    }

    /// A device does not reach the peer's: has another one carry their bytes, if there is one.
    ///
    /// @param reason why it does not
    private void findIntermediate(
            PeerRegion slot, Window window, Device by, Device of, String reason) {
        Intermediates found = Runtimes.of(by).intermediates(by, of, names(Intermediates.PATH));
        StringBuilder reasons = new StringBuilder(found.reason());
        boolean pending = false;
        for (Device through : found.devices()) {
            // Both trials are begun before one is waited for.
            boolean first = isBeingTried(slot, Intermediates.PATH, by, through, by);
            if (isBeingTried(slot, Intermediates.PATH, by, through, of) || first) {
                pending = true;
                continue;
            }
            String refusal = carry(window, through, by, of);
            if (refusal == null) {
                if (!slot.carry(by, through)) {
                    return;
                }
                connection.note(reason);
                connection.note(
                        "path %s: %s carries bytes between %s and %s"
                                .formatted(Intermediates.PATH, through, by, of));
                Events.chosen(connection, Intermediates.PATH + " by " + through);
                return;
            }
            reasons.append(reasons.isEmpty() ? "" : "; ").append(refusal);
        }
        if (!pending) { // else the next operation after the trials looks again
            refuse(slot, by, "%s; path %s: %s".formatted(reason, Intermediates.PATH, reasons));
        }
    }

    /// @return why the device in between does not carry bytes, or null: it is ready to
    private @Nullable String carry(Window window, Device through, Device by, Device of) {
        for (Device end : List.of(by, of)) {
            String bad = trial(Intermediates.PATH, through, end);
            if (bad != null) {
                return bad;
            }
        }
        try {
            window.prepare(through); // what is refused here costs no buffers
            Runtimes.open(through).becomeIntermediate();
            return null;
        } catch (TelpherException e) {
            return "by %s: %s".formatted(through, e.getMessage());
        }
    }

    /// A device has carried bytes between others.
    void carried(Device through) {
        failures.remove(through);
    }

    /// A device has failed to carry bytes between others.
    ///
    /// @param lost for good, with copies of which nobody knows whether they have ended
    /// @return whether frames may carry them instead
    boolean failed(Device through, String failure, boolean lost) {
        int times = failures.merge(through, 1, Integer::sum);
        if (lost || times >= MOST_FAILURES) {
            forsake(through, failure);
        } else {
            connection.note("path %s by %s: %s".formatted(Intermediates.PATH, through, failure));
        }
        return !lost;
    }

    /// A device does not carry bytes between others any more, as far as this connection has opened
    /// them.
    void forsake(Device through, String failure) {
        for (PeerRegion slot : direct.all()) {
            slot.intermediates.forEach(
                    (by, used) -> {
                        if (used.equals(through) && slot.forsake(by, used)) {
                            String path = Intermediates.PATH;
                            refuse(slot, by, "path %s by %s: %s".formatted(path, used, failure));
                        }
                    });
        }
    }

    private void refuse(PeerRegion slot, Device by, String reason) {
        slot.refusing.add(by);
        connection.refused(by, reason);
    }

    /// Whether it is still being found out if two devices copy as they should. Meanwhile bytes go
    /// by frames.
    ///
    /// @param by the device whose bytes they are
    private boolean isBeingTried(
            PeerRegion slot, String path, Device by, Device one, Device other) {
        if (Runtimes.unreachable(one, other) != null) {
            return false; // which is told when it is prepared
        }
        CompletableFuture<GpuRuntime.Trial> trial = Runtimes.of(one).tried(one, other);
        if (trial.isDone()) {
            return false;
        }
        slot.trying.add(by);
        connection.note(
                "path %s: a child process tries %s with %s; by frames until it has, the log says what keeps it"
                        .formatted(path, one, other));
        // The next operation prepares it, or finds another way.
        CompletableFuture<Void> unused = trial.thenAccept(found -> slot.trying.remove(by));
        return true;
    }

    /// @return what a trial has shown to speak against two devices, or null
    private @Nullable String trial(String path, Device by, Device of) {
        if (Runtimes.unreachable(by, of) != null) {
            return null; // which is told when it is prepared
        }
        GpuRuntime.Trial found = Runtimes.of(by).tried(by, of).join();
        if (!found.good()) {
            return "a trial has shown that it does not work: " + found.reason();
        }
        if (!found.reason().isEmpty()) {
            connection.note("path %s by %s is not tried: %s".formatted(path, by, found.reason()));
        }
        return null;
    }

    private void prepare(RegionImpl region, Device by) {
        if (!region.enter()) {
            return;
        }
        try {
            region.prepare(by);
        } catch (TelpherException e) {
            region.refuse(by);
            connection.refused(by, "%s by %s: %s".formatted(region, by, e.getMessage()));
        } finally {
            region.exit();
        }
    }

    /// Whether both sides' options let a device copy by a window's path on its own behalf.
    boolean mayCopyBy(Window window) {
        return allows(window.path()) && !window.onlyThroughAnother();
    }

    /// Whether the options let bytes take a path.
    private boolean allows(String path) {
        return connection.endpoint().options().paths().isEmpty() || names(path);
    }

    private boolean names(String path) {
        return connection.endpoint().options().paths().contains(path);
    }
}
