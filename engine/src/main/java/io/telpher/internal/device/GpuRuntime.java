package io.telpher.internal.device;

import io.telpher.Device;
import io.telpher.spi.Availability;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// One kind of GPU driver as this process sees it. Thread-safe; one per process and kind, made by
/// [Runtimes]. Nothing is loaded and no context is made before it is needed.
public interface GpuRuntime {
    /// @return short lower-case name: `cuda`, `hip`
    String name();

    /// Opens the driver on first call, without making a context.
    Availability probe();

    /// @return the devices that this process sees, in the driver's order; empty when unavailable
    List<Device> devices();

    /// Opens a device, once: its context, where the driver has such, stays until the process ends.
    ///
    /// @throws io.telpher.TelpherException.Unsupported when this process does not see the device
    Gpu open(Device device);

    /// @return whether [#open] was called for that device; no context is made
    boolean isOpen(Device device);

    /// What the driver and the job's switches say of two devices, either of which this process may
    /// not see; no context is made.
    ///
    /// @return a reason why `by` cannot reach memory of `of`, or null
    @Nullable String unreachable(Device by, Device of);

    /// Whether bytes arrive as they were that two devices copy from and to each other's memory:
    /// the driver's word does not say so. Tried in the background, unless somebody has before; not
    /// to be asked for two of which one is [#unreachable]. No context is made in this process.
    CompletableFuture<Trial> tried(Device one, Device other);

    /// What trying two devices has brought.
    ///
    /// @param known whether it could be found out
    /// @param good whether their bytes arrive; true when nothing is known
    /// @param reason why not, or why nothing is known; else empty
    record Trial(boolean known, boolean good, String reason) {
        /// Nothing speaks against the two.
        public static final Trial NONE = new Trial(false, true, "");
    }

    /// @return what trying pairs has brought in this boot of the machine, and is kept for this user
    default List<KeptTrial> keptTrials() {
        return List.of();
    }

    /// A trial that processes of this user find instead of making it.
    ///
    /// @param one a device's UUID
    /// @param other the other one's
    /// @param file where it is kept: without that the next process tries the two again
    /// @param good whether their bytes arrive
    /// @param found what the file says
    record KeptTrial(UUID one, UUID other, Path file, boolean good, String found) {}

    /// Devices of this process that may carry bytes between two others. No context is made.
    ///
    /// @param named whether the path was asked for by name: then also those that this process does
    ///     not use yet, or over which bytes travel no faster than through the host
    default Intermediates intermediates(Device one, Device other, boolean named) {
        return new Intermediates(List.of(), "devices of %s carry no bytes".formatted(name()));
    }

    /// What the driver knows of memory.
    ///
    /// @param address its first byte
    /// @param bytes how far to look: memory that was mapped in parts, side by side in one
    ///     reservation, counts as one allocation as far as it is asked for
    /// @return null when it knows nothing: ordinary host memory
    @Nullable Pointer inspect(long address, long bytes);

    /// Whose memory an address is.
    enum Kind {
        /// Of one device.
        DEVICE,
        /// Host memory that is page-locked for devices.
        PINNED,
        /// Moves between host and devices by itself.
        MANAGED
    }

    /// What the driver knows of an address.
    ///
    /// @param kind whose memory it is
    /// @param device the device that it belongs to, or was last on
    /// @param base first byte of the allocation
    /// @param size bytes of the allocation
    /// @param id number that no other allocation of this process ever had or will have; of the
    ///     first part where there are several
    record Pointer(Kind kind, Device device, long base, long size, long id) {}
}
