package io.telpher.cli.bench;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.cli.Content;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaEvents;
import io.telpher.internal.ffi.cuda.CudaStreams;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.HdrHistogram.Histogram;

/// Copies by the CUDA driver between two addresses of the current context, again and again: one at
/// a time, each synchronised, or several in flight, spread over streams. Used by one thread.
final class CudaCopyLoop implements AutoCloseable {
    /// What one copy in parts is checked by, at both ends, when it is larger than both together.
    private static final long CHECKED = 8 << 20;

    private static final double WARM_UP = 0.1;

    private final long from;
    private final long to;
    private final Case test;
    private final boolean batch;
    private final Arena arena = Arena.ofConfined();
    private final long[] streams;
    private final long[] events;

    /// Places and sizes of the pieces.
    private final MemorySegment sources;

    private final MemorySegment targets;
    private final MemorySegment sizes;

    /// @param from what is read
    /// @param to what is written
    /// @param batch whether all pieces go in one call
    CudaCopyLoop(long from, long to, Case test, int streams, boolean batch) {
        this.from = from;
        this.to = to;
        this.test = test;
        this.batch = batch;
        this.streams = new long[Math.min(streams, test.depth())];
        for (int i = 0; i < this.streams.length; i++) {
            this.streams[i] = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
        }
        this.events = new long[test.depth()];
        for (int i = 0; i < events.length; i++) {
            events[i] = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
        }
        int pieces = test.pieces();
        long length = test.bytes() / pieces;
        sources = arena.allocate(JAVA_LONG, pieces);
        targets = arena.allocate(JAVA_LONG, pieces);
        sizes = arena.allocate(JAVA_LONG, pieces);
        for (int i = 0; i < pieces; i++) {
            sources.setAtIndex(JAVA_LONG, i, from + i * length);
            targets.setAtIndex(JAVA_LONG, i, to + Scatter.place(i, pieces) * length);
            sizes.setAtIndex(JAVA_LONG, i, length);
        }
    }

    /// What a loop reached.
    record Figures(
            long operations,
            double gbps,
            double usP50,
            double usP99,
            double cpuPerGb,
            long wrong) {}

    /// Copies for a while, with new contents before and a comparison after.
    Figures run(double seconds) {
        Histogram times = PhaseResult.histogram();
        long unused = copy(seconds * WARM_UP, times);
        times.reset();
        long seed = Content.seed(System.nanoTime(), 0, test.bytes());
        move(seed, true);
        long cpu = CpuClock.nanos();
        long start = System.nanoTime();
        long count = copy(seconds, times);
        double nanos = System.nanoTime() - start;
        double bytes = (double) count * test.bytes();
        boolean single = test.depth() == 1;
        return new Figures(
                count,
                bytes / nanos,
                single ? times.getValueAtPercentile(50) / 1e6 : Double.NaN,
                single ? times.getValueAtPercentile(99) / 1e6 : Double.NaN,
                (CpuClock.nanos() - cpu) / bytes,
                move(seed, false));
    }

    private long copy(double seconds, Histogram times) {
        return test.depth() == 1 ? singly(seconds, times) : flying(seconds);
    }

    private long singly(double seconds, Histogram times) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long count = 0;
        long before = System.nanoTime();
        do {
            start(streams[0]);
            CudaStreams.synchronize(streams[0]);
            long now = System.nanoTime();
            times.recordValue((now - before) * 1000);
            before = now;
            count++;
        } while (before - end < 0 || count < 10);
        return count;
    }

    private long flying(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long count = 0;
        do {
            int slot = (int) (count % events.length);
            if (count >= events.length) {
                CudaEvents.synchronize(events[slot]);
            }
            long stream = streams[slot % streams.length];
            start(stream);
            CudaEvents.record(events[slot], stream);
            count++;
        } while (System.nanoTime() - end < 0 || count < 10);
        for (long stream : streams) {
            CudaStreams.synchronize(stream);
        }
        return count;
    }

    private void start(long stream) {
        int pieces = test.pieces();
        if (pieces == 1) {
            CudaCopies.copy(to, from, test.bytes(), stream);
        } else if (batch) {
            CudaCopies.copyBatch(
                    targets, sources, sizes, pieces, CudaCopies.CU_MEMCPY_FLAG_DEFAULT, stream);
        } else {
            long length = test.bytes() / pieces;
            for (int i = 0; i < pieces; i++) {
                CudaCopies.copy(
                        targets.getAtIndex(JAVA_LONG, i),
                        sources.getAtIndex(JAVA_LONG, i),
                        length,
                        stream);
            }
        }
    }

    /// Fills what is read, or compares what was written: all of it, or both its ends.
    ///
    /// @return wrong bytes
    private long move(long seed, boolean fill) {
        long length = test.bytes() / test.pieces();
        boolean all = test.pieces() > 1 || test.bytes() <= 2 * CHECKED;
        long part = all ? test.bytes() : CHECKED;
        List<Long> places = all ? List.of(0L) : List.of(0L, test.bytes() - part);
        long wrong = 0;
        try (Arena staged = Arena.ofConfined()) {
            MemorySegment host = staged.allocate(part, 64);
            for (long at : places) {
                if (fill) {
                    Content.fill(host, 0, part, seed, at);
                    CudaCopies.copy(from + at, host.address(), part, streams[0]);
                    CudaStreams.synchronize(streams[0]);
                } else {
                    CudaCopies.copy(host.address(), to + at, part, streams[0]);
                    CudaStreams.synchronize(streams[0]);
                    for (int i = 0; i < test.pieces(); i++) {
                        long place = all ? Scatter.place(i, test.pieces()) * length : 0;
                        long piece = all ? length : part;
                        wrong += Content.countWrong(host, place, piece, seed, at + i * length);
                    }
                }
            }
        }
        return wrong;
    }

    @Override
    public void close() {
        for (long stream : streams) {
            CudaStreams.synchronize(stream);
            CudaStreams.destroy(stream);
        }
        for (long event : events) {
            CudaEvents.destroy(event);
        }
        arena.close();
    }
}
