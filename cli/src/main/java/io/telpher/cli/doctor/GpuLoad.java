package io.telpher.cli.doctor;

import io.telpher.Device;
import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Copies to a GPU until it is closed, so that its PCIe link wakes up.
final class GpuLoad implements AutoCloseable {
    private static final long BYTES = 16 << 20;

    private volatile boolean ends;
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
            return "unloaded " + String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
        }
    }

    private void copy(Endpoint endpoint, MemoryRegion region, MemorySegment bytes) {
        try (endpoint) {
            while (!ends) {
                region.copyIn(0, bytes);
            }
        } catch (TelpherException e) {
            // The link is idle again, which is what the parent sees.
        }
    }

    @Override
    public void close() {
        ends = true;
        Thread thread = copier;
        if (thread != null) {
            try {
                thread.join(2000); // a driver that hangs ends with the process
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
