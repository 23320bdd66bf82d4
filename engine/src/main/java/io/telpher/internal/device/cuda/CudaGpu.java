package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Pins;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaStreams;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// One opened CUDA device. It stays open until the process ends.
final class CudaGpu implements Gpu {
    private final Device device;
    private final CudaContext context;
    private final Pins pins;
    private final Tuning tuning;
    private final Allocations allocations;
    private final Exports exports;
    private final Imports imports;
    private final Peers peers;
    private final StreamGates gates;

    /// For copies that their callers wait for.
    private final long stream;

    /// Guards the making of `queue`: kernels may have to be compiled for it.
    private final ReentrantLock making = new ReentrantLock();

    private volatile @Nullable CudaQueue queue;

    CudaGpu(Device device, CudaContext context, Pins pins) {
        this.device = device;
        this.context = context;
        this.pins = pins;
        this.tuning = Tuning.current();
        this.allocations = new Allocations(context, tuning);
        this.exports = new Exports(context, device.uuid());
        this.imports = new Imports(context);
        this.peers = new Peers(context);
        this.gates = new StreamGates(context);
        long before = context.enter();
        try {
            this.stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
        } finally {
            context.exit(before);
        }
    }

    @Override
    public Device device() {
        return device;
    }

    CudaContext context() {
        return context;
    }

    Imports imports() {
        return imports;
    }

    @Override
    public Allocation allocate(long bytes) {
        return allocations.allocate(bytes);
    }

    @Override
    public Export export(long address, long bytes, int ways) {
        return exports.export(address, bytes, ways);
    }

    @Override
    public Import open(long owner, byte[] bytes, int[] descriptors) {
        ExportRecord record = ExportRecord.ofBytes(bytes);
        if (record == null) {
            throw new TelpherException.Unsupported(
                    "%d bytes of a peer make no record of GPU memory".formatted(bytes.length));
        }
        String reason = PeerAccess.unreachable(device.uuid(), record.device());
        if (reason != null) {
            throw new TelpherException.Unsupported(reason);
        }
        return imports.open(owner, record, descriptors);
    }

    @Override
    public Import reach(Gpu other, long address, long bytes) {
        if (!(other instanceof CudaGpu owner)) {
            throw new TelpherException.Unsupported(
                    "%s cannot reach memory of %s".formatted(device, other.device()));
        }
        if (owner != this) {
            String reason = PeerAccess.unreachable(device.uuid(), owner.device.uuid());
            if (reason != null) {
                throw new TelpherException.Unsupported(reason);
            }
            peers.reach(owner.context, address, bytes);
        }
        return new Direct(address, bytes);
    }

    /// Memory of this process: nothing was made for it that would have to go.
    private record Direct(long address, long size) implements Import {
        @Override
        public String path() {
            return "cuda-direct";
        }

        @Override
        public void close() {}
    }

    @Override
    public Pin pin(long address, long bytes) {
        if (CudaDevices.tryAttribute(
                        context.device(),
                        CudaDevices.CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)
                == 0) {
            throw new TelpherException.Unsupported(
                    device + " does not see page-locked memory at the addresses of the host");
        }
        return pins.pin(new CudaPinning(context), address, bytes);
    }

    @Override
    public void copy(long to, long from, long bytes) {
        if (bytes == 0) {
            return;
        }
        long before = context.enter();
        try {
            CudaCopies.copy(to, from, bytes, stream);
            CudaStreams.synchronize(stream);
        } finally {
            context.exit(before);
        }
    }

    @Override
    public Staging staging() {
        return new Staging(tuning.stageBytes(), tuning.stageBuffers());
    }

    @Override
    public void update(long address, boolean add, long value) {
        CudaQueue by = queue();
        AwaitedJob job = new AwaitedJob();
        by.begin(CopyQueue.Way.LOCAL, 0, 0);
        by.update(address, add, value);
        by.end(job);
        String failure = job.await(by);
        if (failure != null) {
            throw new TelpherException.Unsupported(
                    "updating the word at 0x%x of %s: %s".formatted(address, device, failure));
        }
    }

    @Override
    public CudaQueue queue() {
        CudaQueue made = queue;
        if (made != null) {
            return made;
        }
        making.lock();
        try {
            made = queue;
            if (made == null) {
                made = new CudaQueue(device, context, tuning);
                queue = made;
            }
            return made;
        } finally {
            making.unlock();
        }
    }

    @Override
    public Gate gate(long of) {
        return gates.put(of);
    }

    @Override
    public @Nullable Point point(long of) {
        return gates.point(of);
    }

    @Override
    public void becomeIntermediate() {
        queue().becomeIntermediate();
    }
}
