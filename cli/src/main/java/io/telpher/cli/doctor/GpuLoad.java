package io.telpher.cli.doctor;

import io.telpher.Device;
import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Copies to one GPU until it is told to end, so that its PCIe link wakes up.
final class GpuLoad implements AutoCloseable {
    private static final long BYTES = 16 << 20;

    private volatile boolean ends;

    /// Until the copier says otherwise.
    private volatile String outcome = "unloaded the copies do not end";

    private @Nullable Thread copier;

    /// Returns when the first bytes have arrived.
    ///
    /// @param address the GPU's on the PCI bus
    /// @return `loading`, or `unloaded` and why
    String begin(String address) {
        Endpoint endpoint = null;
        try {
            Device device = Device.of(address);
            endpoint = Endpoint.open(LiveProbes.options());
            MemoryRegion region = endpoint.allocate(device, BYTES);
            MemorySegment bytes = Arena.ofAuto().allocate(BYTES, 64);
            region.copyIn(0, bytes);
            Endpoint opened = endpoint;
            copier =
                    Thread.ofPlatform()
                            .daemon()
                            .name("telpher-doctor-load")
                            .start(() -> copy(opened, region, bytes));
            return "loading";
        } catch (TelpherException | IllegalArgumentException e) {
            if (endpoint != null) {
                endpoint.close();
            }
            return unloaded(e);
        }
    }

    private static String unloaded(RuntimeException e) {
        return "unloaded " + String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
    }

    private void copy(Endpoint endpoint, MemoryRegion region, MemorySegment bytes) {
        try (endpoint) {
            while (!ends) {
                region.copyIn(0, bytes);
            }
            outcome = "copied";
        } catch (RuntimeException e) {
            outcome = unloaded(e);
        }
    }

    /// Ends the copies.
    ///
    /// @return `copied` where they went on until now, or `unloaded` and why not
    String end() {
        ends = true;
        Thread thread = copier;
        if (thread == null) {
            return "unloaded nothing was begun";
        }
        try {
            thread.join(2000); // a driver that hangs ends with the process
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return outcome;
    }

    @Override
    public void close() {
        String unused = end();
    }
}
