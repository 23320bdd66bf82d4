package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.observe.Log;
import io.telpher.spi.LocalRegion;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A region in a GPU's memory: of another process, mapped for each GPU here that copies
/// (`cuda-cumem`, `cuda-ipc`), or of an endpoint of this process (`cuda-direct`, `hip-direct`).
/// Threads cannot copy from and to it. The owner's GPU changes its words: additions of several GPUs
/// and of hosts would be atomic against each other on few machines only.
final class GpuWindow extends ShmWindow {
    /// How one GPU reaches the region.
    private record Reached(Device by, Gpu.Import memory) {}

    private final ShmLink link;
    private final RemoteMemory memory;
    private final Device device;
    private final boolean onlyThroughAnother;

    /// The owner's region when it lives in this process, else null.
    private final @Nullable LocalRegion own;

    private final byte[] record;

    /// Go along with the record; this window's to close.
    private final int[] descriptors;

    /// Written under this; few, and read at each launch.
    private volatile List<Reached> reached = List.of();

    private boolean unmapped;

    private GpuWindow(
            OpenWindows owner,
            ShmLink link,
            String path,
            RemoteMemory memory,
            Access access,
            long size,
            Device device,
            boolean onlyThroughAnother,
            @Nullable LocalRegion own,
            byte[] record,
            int[] descriptors) {
        super(owner, link, path, memory, access, size);
        this.link = link;
        this.memory = memory;
        this.device = device;
        this.onlyThroughAnother = onlyThroughAnother;
        this.own = own;
        this.record = record;
        this.descriptors = descriptors;
    }

    /// The path's name inside a process.
    static String direct(DeviceMemory of) {
        return of.device().runtime() + "-direct";
    }

    /// The path's name between processes.
    ///
    /// @param way of [Gpu]
    static String path(int way) {
        return way == Gpu.WAY_IPC ? "cuda-ipc" : "cuda-cumem";
    }

    /// A region of an endpoint of this process.
    static GpuWindow of(
            OpenWindows owner,
            ShmLink link,
            RemoteMemory memory,
            boolean onlyThroughAnother,
            LocalRegion own,
            DeviceMemory of) {
        return new GpuWindow(
                owner,
                link,
                direct(of),
                memory,
                own.access(),
                of.size(),
                of.device(),
                onlyThroughAnother,
                own,
                new byte[0],
                new int[0]);
    }

    /// A region of another process.
    ///
    /// @param record what its owner says, checked already
    /// @param descriptors the window's from then on
    static GpuWindow of(
            OpenWindows owner,
            ShmLink link,
            RemoteMemory memory,
            Access access,
            boolean onlyThroughAnother,
            ExportRecord record,
            int[] descriptors) {
        return new GpuWindow(
                owner,
                link,
                path(record.way()),
                memory,
                access,
                record.size(),
                new Device("cuda", record.device(), "", "GPU of another process"),
                onlyThroughAnother,
                null,
                record.toBytes(),
                descriptors);
    }

    @Override
    public Device device() {
        return device;
    }

    @Override
    public boolean onlyThroughAnother() {
        return onlyThroughAnother;
    }

    @Override
    public synchronized void prepare(Device by) {
        if (unmapped) {
            throw new TelpherException.Unsupported("the window is closed");
        }
        LocalRegion region = own;
        if (region != null) {
            region.prepare(by);
            return;
        }
        if (address(by) != 0) {
            return;
        }
        Gpu.Import opened =
                Runtimes.open(by).open(link.greeting().incarnation(), record, descriptors);
        List<Reached> more = new ArrayList<>(reached);
        more.add(new Reached(by, opened));
        reached = List.copyOf(more);
    }

    @Override
    public long address(Device by) {
        LocalRegion region = own;
        if (region != null) {
            return region.address(by);
        }
        for (Reached one : reached) {
            if (one.by.equals(by)) {
                return one.memory.address();
            }
        }
        return 0;
    }

    /// The owner waits for the word that nothing is mapped any more.
    @Override
    synchronized void unmap() {
        if (unmapped) {
            return;
        }
        unmapped = true;
        for (Reached one : reached) {
            try {
                one.memory.close();
            } catch (TelpherException e) {
                Log.warning("memory of a GPU could not be unmapped", e);
            }
        }
        reached = List.of();
        UnixChannel.closeAll(descriptors);
        if (own == null) {
            link.exchange().released(memory.region(), memory.generation());
        }
    }
}
