package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaStreams;
import io.telpher.internal.memory.Raw;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// Gates and points in callers' streams: pairs of page-locked words, one that the stream writes and
/// one that it waits for, at a gate. Pairs are used again, but only when their stream has passed
/// the first word, or a late write of it would cover a newer one's; and they are never given back
/// to the driver, since a stream may still look at them after the gate was opened. Thread-safe.
final class StreamGates {
    private static final int PINNED =
            CudaMemory.CU_MEMHOSTALLOC_PORTABLE | CudaMemory.CU_MEMHOSTALLOC_DEVICEMAP;

    /// Of 1024 pairs: a stream takes about as many commands before the driver blocks, and memory
    /// that is taken while streams wait may have to wait for them.
    private static final int BLOCK = 65536;

    /// Both words of a pair, in a cache line of their own.
    private static final int PAIR = 64;

    /// Offset of the word that the host writes.
    private static final int OPENED = 8;

    private static final VarHandle WORD = ValueLayout.JAVA_LONG.varHandle();

    private final CudaContext context;

    /// Guards `pairs`; taken before the context is entered.
    private final ReentrantLock lock = new ReentrantLock();

    private final List<Pair> pairs = new ArrayList<>();

    /// Where the search for an idle pair goes on.
    private int next;

    StreamGates(CudaContext context) {
        this.context = context;
    }

    Gpu.Gate put(long stream) {
        Pair pair = take();
        boolean complete = false;
        try {
            put(stream, pair);
            complete = true;
        } finally {
            if (!complete) {
                pair.inUse = false;
            }
        }
        return pair;
    }

    private void put(long stream, Pair pair) {
        long before = context.enter();
        try {
            checkCapture(stream);
            pair.mark(stream);
            CudaStreams.waitValue64(
                    stream,
                    pair.address + OPENED,
                    pair.round,
                    CudaStreams.CU_STREAM_WAIT_VALUE_GEQ);
        } finally {
            context.exit(before);
        }
    }

    private static void checkCapture(long stream) {
        if (CudaStreams.isCapturing(stream)) {
            throw new TelpherException.Unsupported(
                    "stream 0x%x records a graph, whose replay would transfer nothing: post outside of the capture"
                            .formatted(stream));
        }
    }

    /// See [Gpu#point].
    Gpu.@Nullable Point point(long stream) {
        if (isIdle(stream)) {
            return null;
        }
        Pair pair = take();
        try {
            return mark(stream, pair);
        } finally {
            pair.inUse = false; // who asks has the number; it is idle when the stream has passed
        }
    }

    private Gpu.@Nullable Point mark(long stream, Pair pair) {
        long before = context.enter();
        try {
            pair.mark(stream);
            return new Point(pair.address, pair.round);
        } catch (TelpherException.NativeFailure e) {
            if (e.errno() != CudaError.CUDA_ERROR_NOT_SUPPORTED) {
                throw e;
            }
            CudaStreams.synchronize(stream);
            return null;
        } finally {
            context.exit(before);
        }
    }

    /// Whether a stream has nothing left to do. Whether it records a graph comes first: asking
    /// would spoil that.
    private boolean isIdle(long stream) {
        long before = context.enter();
        try {
            checkCapture(stream);
            int result = CudaStreams.query(stream);
            if (result != -CudaError.CUDA_ERROR_NOT_READY) {
                CudaError.check(result, "cuStreamQuery", stream);
            }
            return result == CudaError.CUDA_SUCCESS;
        } finally {
            context.exit(before);
        }
    }

    private Pair take() {
        lock.lock();
        try {
            int found = search();
            if (found < 0) {
                found = pairs.size();
                makeMore();
            }
            next = found + 1;
            Pair pair = pairs.get(found);
            pair.inUse = true;
            return pair;
        } finally {
            lock.unlock();
        }
    }

    /// @return position of an idle pair, or -1
    private int search() {
        for (int i = 0; i < pairs.size(); i++) {
            int at = (next + i) % pairs.size();
            Pair pair = pairs.get(at);
            if (!pair.inUse && pair.isReached()) {
                return at;
            }
        }
        return -1;
    }

    private void makeMore() {
        long block;
        long before = context.enter();
        try {
            block = CudaMemory.hostAlloc(BLOCK, PINNED);
        } finally {
            context.exit(before);
        }
        for (long at = block; at < block + BLOCK; at += PAIR) {
            WORD.set(Raw.ALL, at, 0L);
            WORD.set(Raw.ALL, at + OPENED, 0L);
            pairs.add(new Pair(at));
        }
    }

    /// Of a pair that may have been used again: its word only grows.
    private record Point(long address, long round) implements Gpu.Point {
        @Override
        public boolean isReached() {
            return (long) WORD.getAcquire(Raw.ALL, address) >= round;
        }
    }

    private static final class Pair implements Gpu.Gate {
        private final long address;

        /// How often it was used: what both words say in the end.
        private long round;

        private volatile boolean inUse;

        Pair(long address) {
            this.address = address;
        }

        /// Has the stream write the first word when it gets here.
        void mark(long stream) {
            CudaStreams.writeValue64(stream, address, round + 1, 0);
            round++; // from here on the stream will pass it
        }

        @Override
        public boolean isReached() {
            return (long) WORD.getAcquire(Raw.ALL, address) == round;
        }

        @Override
        public void open() {
            WORD.setRelease(Raw.ALL, address + OPENED, round);
            inUse = false;
        }
    }
}
