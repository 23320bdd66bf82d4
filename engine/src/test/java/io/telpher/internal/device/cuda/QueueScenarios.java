package io.telpher.internal.device.cuda;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.CopyQueue.Way;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.cuda.Stage.Done;
import io.telpher.internal.ffi.cuda.CudaMemory;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.LongSupplier;

/// What the queue must do, for a process of its own: [QueueTest] runs them on the fake driver,
/// and they run on real devices just the same. Two devices, or one twice.
final class QueueScenarios {
    private static final CudaGpu HERE = Stage.gpu(0);
    private static final CudaGpu THERE = Stage.gpu(1);

    private QueueScenarios() {}

    /// Pieces of random sizes and alignments, in any way and number, arrive, and nothing beside
    /// them.
    static void randomPieces() {
        randomPieces(HERE, HERE, THERE, Way.PEER);
    }

    /// The same between memory of which none is the copying device's.
    static void betweenOthers() {
        THERE.becomeIntermediate();
        THERE.becomeIntermediate();
        randomPieces(THERE, HERE, HERE, Way.VIA);
    }

    private static void randomPieces(CudaGpu by, CudaGpu here, CudaGpu there, Way way) {
        long seed = Long.getLong("telpher.test.seed", System.nanoTime());
        System.out.println("seed " + seed);
        Random random = new Random(seed);
        int size = 1 << 20;
        try (Gpu.Allocation source = here.allocate(size);
                Gpu.Allocation target = there.allocate(size)) {
            long from = Stage.reach(by, here, source, size);
            long to = Stage.reach(by, there, target, size);
            CudaQueue queue = by.queue();
            for (int round = 0; round < 20; round++) {
                byte[] bytes = new byte[size];
                byte[] expected = new byte[size];
                random.nextBytes(bytes);
                random.nextBytes(expected);
                Stage.put(here, source.address(), bytes);
                Stage.put(there, target.address(), expected);
                int wanted = 1 + random.nextInt(random.nextInt(4) == 0 ? 700 : 12);
                List<long[]> pieces = pieces(random, wanted, size);
                Done done = new Done();
                queue.begin(way, pieces.size(), sum(pieces));
                for (long[] piece : pieces) {
                    queue.copy(to + piece[0], from + piece[1], piece[2]);
                    System.arraycopy(
                            bytes, (int) piece[1], expected, (int) piece[0], (int) piece[2]);
                }
                queue.end(done);
                Stage.await(queue, done);
                assertThat(done.failure).isNull();
                assertThat(Arrays.mismatch(Stage.get(there, target.address(), size), expected))
                        .as("round %d of seed %d, %d pieces", round, seed, pieces.size())
                        .isEqualTo(-1);
            }
        }
    }

    /// Targets do not overlap; {to, from, bytes}.
    private static List<long[]> pieces(Random random, int wanted, int size) {
        List<long[]> pieces = new ArrayList<>();
        int at = random.nextInt(40);
        int most = 2 * size / wanted;
        for (int i = 0; i < wanted; i++) {
            int bytes = random.nextInt(8) == 0 ? random.nextInt(most) : random.nextInt(200);
            if (at + bytes > size) {
                break;
            }
            // Often aligned alike, as real pieces are.
            int from = random.nextInt(size - bytes + 1);
            if (random.nextBoolean()) {
                from = Math.max(0, from - ((from - at) & 15));
            }
            pieces.add(new long[] {at, from, bytes});
            at += bytes + random.nextInt(40);
        }
        return pieces;
    }

    private static long sum(List<long[]> pieces) {
        return pieces.stream().mapToLong(piece -> piece[2]).sum();
    }

    /// 100,000 pieces of one job arrive, in a few launches.
    static void hundredThousandPieces() {
        int count = 100_000;
        int stride = 24;
        int size = count * stride;
        try (Gpu.Allocation source = HERE.allocate(size);
                Gpu.Allocation target = HERE.allocate(size)) {
            byte[] bytes = new byte[size];
            new Random(1).nextBytes(bytes);
            Stage.put(HERE, source.address(), bytes);
            Stage.put(HERE, target.address(), new byte[size]);
            CudaQueue queue = HERE.queue();
            long before = queue.kernelLaunches() + queue.engineLaunches();
            Done done = new Done();
            queue.begin(Way.LOCAL, count, count * 16L);
            byte[] expected = new byte[size];
            for (int i = 0; i < count; i++) {
                int from = (int) (((long) i * 7919) % count) * stride;
                queue.copy(target.address() + (long) i * stride, source.address() + from, 16);
                System.arraycopy(bytes, from, expected, i * stride, 16);
            }
            queue.end(done);
            Stage.await(queue, done);
            assertThat(done.failure).isNull();
            assertThat(Arrays.mismatch(Stage.get(HERE, target.address(), size), expected))
                    .isEqualTo(-1);
            assertThat(queue.kernelLaunches() + queue.engineLaunches() - before)
                    .isLessThanOrEqualTo(2);
        }
    }

    /// Updates add and set, and are visible only after the bytes of their job.
    static void updates() {
        int size = 4096;
        int jobs = 200;
        try (Gpu.Allocation source = HERE.allocate(size);
                Gpu.Allocation target = THERE.allocate(size);
                Gpu.Allocation words = THERE.allocate(4096)) {
            long to = Stage.reach(HERE, THERE, target, size);
            long counter = Stage.reach(HERE, THERE, words, 4096);
            Stage.put(THERE, words.address(), new byte[4096]);
            CudaQueue queue = HERE.queue();
            Done[] done = new Done[jobs];
            for (int i = 0; i < jobs; i++) {
                done[i] = new Done();
                queue.begin(Way.PEER, 1, 16);
                queue.copy(to + 16L * i, source.address(), 16);
                queue.update(counter, true, i);
                queue.update(counter + 64 + 8L * i, false, i + 1);
                queue.end(done[i]);
            }
            Stage.await(queue, done);
            assertThat(done).allMatch(one -> one.failure == null);
            assertThat(Stage.getWord(THERE, words.address())).isEqualTo(jobs * (jobs - 1L) / 2);
            for (int i = 0; i < jobs; i++) {
                assertThat(Stage.getWord(THERE, words.address() + 64 + 8L * i)).isEqualTo(i + 1);
            }
            HERE.update(counter, true, -1);
            assertThat(Stage.getWord(THERE, words.address())).isEqualTo(jobs * (jobs - 1L) / 2 - 1);
            HERE.update(counter, false, 7);
            assertThat(Stage.getWord(THERE, words.address())).isEqualTo(7);
        }
    }

    /// Small jobs that are added while others run go out together.
    static void gathering() {
        int jobs = 500;
        try (Gpu.Allocation source = HERE.allocate(8L * jobs);
                Gpu.Allocation target = HERE.allocate(8L * jobs)) {
            CudaQueue queue = HERE.queue();
            byte[] bytes = new byte[8 * jobs];
            new Random(2).nextBytes(bytes);
            Stage.put(HERE, source.address(), bytes);
            long before = queue.kernelLaunches() + queue.engineLaunches();
            Done[] done = new Done[jobs];
            for (int i = 0; i < jobs; i++) {
                done[i] = new Done();
                queue.begin(Way.LOCAL, 1, 8);
                queue.copy(target.address() + 8L * i, source.address() + 8L * i, 8);
                queue.end(done[i]);
            }
            assertThat(queue.isIdle()).isFalse();
            Stage.await(queue, done);
            assertThat(queue.isIdle()).isTrue();
            assertThat(queue.kernelLaunches() + queue.engineLaunches() - before)
                    .isLessThan(jobs / 2);
            assertThat(Stage.get(HERE, target.address(), 8 * jobs)).isEqualTo(bytes);
        }
    }

    /// What is added as a list goes out in one launch, when the list ends; sooner where it is long
    /// or large, or where somebody else's job joins. Needs a `hold.us` that is never reached.
    static void lists() throws Exception {
        int most = 300;
        int large = 1 << 20;
        try (Gpu.Allocation source = HERE.allocate(large);
                Gpu.Allocation target = THERE.allocate(large)) {
            long to = Stage.reach(HERE, THERE, target, large);
            CudaQueue queue = HERE.queue();
            byte[] bytes = new byte[8 * most];
            new Random(3).nextBytes(bytes);
            Stage.put(HERE, source.address(), bytes);

            long before = launches(queue);
            List<Done> jobs = add(queue, to, source.address(), 16, 8);
            assertThat(queue.poll()).isZero();
            assertThat(queue.isIdle()).isFalse();
            assertThat(launches(queue)).as("nothing before the end").isEqualTo(before);
            queue.letGo();
            queue.letGo();
            assertThat(launches(queue)).isEqualTo(before + 1);
            Stage.await(queue, jobs.toArray(Done[]::new));
            assertThat(jobs).allMatch(job -> job.failure == null);
            assertThat(Stage.get(THERE, target.address(), 16 * 8))
                    .isEqualTo(Arrays.copyOf(bytes, 16 * 8));

            before = launches(queue);
            jobs = add(queue, to, source.address(), 3, 8);
            Done other = new Done();
            Thread thread =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        queue.begin(Way.PEER, 1, 8);
                                        queue.copy(to + 24, source.address() + 24, 8);
                                        queue.end(other);
                                    });
            thread.join();
            assertThat(launches(queue)).as("it does not wait").isEqualTo(before + 1);
            jobs.add(other);
            Stage.await(queue, jobs.toArray(Done[]::new));

            before = launches(queue);
            jobs = add(queue, to, source.address(), most, 8);
            assertThat(launches(queue)).as("100 each").isEqualTo(before + most / 100);
            jobs.addAll(add(queue, to, source.address(), 1, large));
            assertThat(launches(queue)).as("much").isEqualTo(before + most / 100 + 1);
            Stage.await(queue, jobs.toArray(Done[]::new));
            assertThat(Stage.get(THERE, target.address(), 8 * most)).isEqualTo(bytes);
            assertThat(queue.isIdle()).isTrue();
        }
    }

    /// A list that nobody ends goes out all the same while somebody polls.
    static void forgottenList() {
        try (Gpu.Allocation memory = HERE.allocate(4096)) {
            CudaQueue queue = HERE.queue();
            List<Done> jobs = add(queue, memory.address(), memory.address() + 2048, 3, 8);
            Stage.await(queue, jobs.toArray(Done[]::new));
            assertThat(jobs).allMatch(job -> job.failure == null);
        }
    }

    private static List<Done> add(CudaQueue queue, long to, long from, int jobs, int bytes) {
        List<Done> all = new ArrayList<>();
        for (int i = 0; i < jobs; i++) {
            Done done = new Done();
            queue.begin(Way.PEER, 1, bytes, true);
            queue.copy(to + (long) i * bytes, from + (long) i * bytes, bytes);
            queue.end(done);
            all.add(done);
        }
        return all;
    }

    private static long launches(CudaQueue queue) {
        return queue.kernelLaunches() + queue.engineLaunches();
    }

    /// Jobs of many threads all end, each once, with their bytes.
    static void manyThreads() throws Exception {
        int threads = 6;
        int rounds = 40;
        int each = 4096;
        try (Gpu.Allocation source = HERE.allocate((long) threads * each);
                Gpu.Allocation target = THERE.allocate((long) threads * each);
                ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            long to = Stage.reach(HERE, THERE, target, (long) threads * each);
            CudaQueue queue = HERE.queue();
            List<Callable<Boolean>> work = new ArrayList<>();
            for (int t = 0; t < threads; t++) {
                long offset = (long) t * each;
                int seed = t;
                work.add(
                        () -> {
                            Random random = new Random(seed);
                            byte[] bytes = new byte[each];
                            for (int i = 0; i < rounds; i++) {
                                random.nextBytes(bytes);
                                Stage.put(HERE, source.address() + offset, bytes);
                                String failure =
                                        Stage.copy(
                                                queue,
                                                i % 3 == 0 ? Way.HOST : Way.PEER,
                                                to + offset,
                                                source.address() + offset,
                                                each);
                                assertThat(failure).isNull();
                                assertThat(Stage.get(THERE, target.address() + offset, each))
                                        .isEqualTo(bytes);
                            }
                            return true;
                        });
            }
            for (Future<Boolean> one : pool.invokeAll(work)) {
                assertThat(one.get()).isTrue();
            }
        }
    }

    /// Who frees memory waits for the device, and not for the end of a load that the agent takes
    /// care of: sixteen commands, so long that it never finds none.
    static void freedUnderLoad() throws Exception {
        int window = 16;
        int bytes = 1 << 20;
        try (Gpu.Allocation memory = HERE.allocate(2L * bytes);
                ExecutorService pool = Executors.newSingleThreadExecutor()) {
            CudaQueue queue = HERE.queue();
            long launches = launches(queue);
            long plain = in(HERE, () -> CudaMemory.alloc(4096));
            Done[] jobs = new Done[window];
            for (int i = 0; i < window; i++) {
                jobs[i] = begin(queue, memory.address(), bytes, new Done());
            }
            Future<Long> freed =
                    pool.submit(
                            () ->
                                    in(
                                            HERE,
                                            () -> {
                                                CudaMemory.free(plain);
                                                return plain;
                                            }));
            long end = System.nanoTime() + 20_000_000_000L;
            for (int i = 0; !freed.isDone() && System.nanoTime() - end < 0; i++) {
                Stage.await(queue, jobs[i % window]);
                begin(queue, memory.address(), bytes, jobs[i % window].again());
            }
            boolean inTime = freed.isDone();
            Stage.await(queue, jobs);
            freed.get();
            assertThat(inTime).as("freed while the load went on").isTrue();
            assertThat(launches(queue)).as("all by the agent").isEqualTo(launches);
        }
    }

    private static long in(CudaGpu gpu, LongSupplier call) {
        long before = gpu.context().enter();
        try {
            return call.getAsLong();
        } finally {
            gpu.context().exit(before);
        }
    }

    private static Done begin(CudaQueue queue, long address, int bytes, Done done) {
        queue.begin(Way.LOCAL, 1, bytes);
        queue.copy(address + bytes, address, bytes);
        queue.end(done);
        return done;
    }

    /// An abandoned job leaves nothing behind and does not hold up others.
    static void abandoned() {
        try (Gpu.Allocation source = HERE.allocate(64);
                Gpu.Allocation target = HERE.allocate(64)) {
            Stage.put(HERE, source.address(), "0123456789abcdef".repeat(4).getBytes(US_ASCII));
            Stage.put(HERE, target.address(), new byte[64]);
            CopyQueue queue = HERE.queue();
            queue.begin(Way.LOCAL, 2, 32);
            queue.copy(target.address(), source.address(), 16);
            queue.update(target.address() + 32, false, 1);
            queue.abandon();
            assertThat(queue.isIdle()).isTrue();
            assertThat(Stage.copy(queue, Way.LOCAL, target.address() + 48, source.address(), 16))
                    .isNull();
            byte[] found = Stage.get(HERE, target.address(), 64);
            assertThat(Arrays.copyOf(found, 48)).isEqualTo(new byte[48]);
            assertThat(new String(found, 48, 16, US_ASCII)).isEqualTo("0123456789abcdef");
        }
    }

    /// A small job allocates nothing once the code is compiled and everything has its size.
    static void noAllocation() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (Gpu.Allocation memory = HERE.allocate(1 << 16)) {
            CopyQueue queue = HERE.queue();
            Done done = new Done();
            int rounds = 400;
            long allocated = Long.MAX_VALUE;
            // The smallest object has 16 bytes; the measuring itself allocates a few.
            for (int pass = 0; pass < 60 && allocated >= 4L * rounds; pass++) {
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int i = 0; i < rounds; i++) {
                    queue.begin(Way.LOCAL, 1, 64);
                    queue.copy(memory.address(), memory.address() + 4096, 64);
                    queue.update(memory.address() + 8192, true, 1);
                    queue.end(done.again());
                    while (!done.ended) {
                        int unused = queue.poll();
                    }
                }
                allocated = threads.getCurrentThreadAllocatedBytes() - before;
            }
            assertThat(allocated).as("bytes for %d jobs", rounds).isLessThan(4L * rounds);
        }
    }

    /// Runs what the arguments name.
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            QueueScenarios.class.getDeclaredMethod(name).invoke(null);
            System.out.println("ok " + name);
        }
    }
}
