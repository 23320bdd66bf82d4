package io.telpher.contract;

import io.telpher.Device;
import io.telpher.DeviceStream;
import io.telpher.TransferOptions;
import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaStreams;
import io.telpher.internal.ffi.cuda.FakeGpu;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.awaitility.Awaitility;

/// A stream of the program's own, in a GPU's primary context, that stands still until it is let go.
final class StoppedStream implements AutoCloseable {
    private static final long STOP = 0;
    private static final long AFTER = 8;
    private static final long BYTES = 64;
    private static final int ROOM = 1 << 20;

    final Device device;
    private final long words;
    private final long bytes;
    private final long handle;

    /// How often it was stopped, and let go.
    private long stops;

    private long starts;

    /// Of the GPU that has the region `gpu` of this side.
    StoppedStream(Couple couple) {
        this(couple.here().region("gpu").deviceMemory().device());
    }

    StoppedStream(Device device) {
        this.device = device;
        current();
        words = CudaMemory.hostAlloc(4096, 0);
        bytes = CudaMemory.hostAlloc(ROOM, 0);
        handle = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
        stop();
    }

    /// Has it stand still where it gets to this.
    void stop() {
        current();
        stops++;
        CudaStreams.waitValue64(handle, words + STOP, stops, CudaStreams.CU_STREAM_WAIT_VALUE_GEQ);
    }

    private void current() {
        int number = CudaDevices.get(Device.list().indexOf(device));
        CudaContexts.setCurrent(CudaContexts.retainPrimary(number));
    }

    DeviceStream stream() {
        return new DeviceStream(device, handle);
    }

    TransferOptions order() {
        return TransferOptions.DEFAULTS.withStream(stream());
    }

    /// What a program's kernel would do: other contents, once the stream goes on.
    void changeLate(Participant self, String name, int size, long seed) {
        current();
        Content.fill(Memory.segment(bytes, size), 0, size, seed);
        long to = self.region(name).deviceMemory().address();
        CudaCopies.copy(to, bytes, size, handle);
    }

    void record() {
        current();
        FakeGpu.beginCapture(handle);
    }

    /// Puts a mark into the stream, behind everything.
    void mark() {
        current();
        CudaStreams.writeValue64(handle, words + AFTER, 1, 0);
    }

    boolean isAtMark() {
        return word(AFTER).getAtIndex(ValueLayout.JAVA_LONG, 0) == 1;
    }

    void awaitMark() {
        Awaitility.await().atMost(Participant.LIMIT).until(this::isAtMark);
    }

    /// Lets it go on to where it was stopped next.
    void letGo() {
        starts++;
        word(STOP).set(ValueLayout.JAVA_LONG, 0, starts);
    }

    /// Lets it go, and waits until it has nothing left to do.
    void finish() {
        while (starts < stops) {
            letGo();
        }
        current();
        CudaStreams.synchronize(handle);
    }

    private MemorySegment word(long at) {
        return Memory.segment(words, BYTES).asSlice(at, 8);
    }

    @Override
    public void close() {
        finish();
        CudaStreams.destroy(handle);
        CudaMemory.freeHost(words);
        CudaMemory.freeHost(bytes);
    }
}
