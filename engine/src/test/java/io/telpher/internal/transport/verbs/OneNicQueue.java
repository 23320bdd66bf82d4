package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.WorkQueue;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/// A queue of work for a fake NIC, whose queue pair leads to another one of the same NIC.
abstract class OneNicQueue {
    static final FakeVerbs VERBS = FakeVerbs.HERE;
    static final IbSettings SETTINGS = IbSettings.of(name -> null);
    static final int BYTES = 1000;

    final Arena arena = Arena.ofShared();
    final List<String> failures = new ArrayList<>();
    final EndpointContext endpoint =
            (EndpointContext)
                    Proxy.newProxyInstance(
                            OneNicQueue.class.getClassLoader(),
                            new Class<?>[] {EndpointContext.class},
                            (proxy, method, arguments) ->
                                    switch (method.getName()) {
                                        case "options" -> EndpointOptions.DEFAULTS;
                                        case "isOpen" -> true;
                                        default -> null;
                                    });

    Device device;
    Rail rail;
    Registrations memory;
    QueuePair far;
    ActivePairs owner;
    NicQueue queue;

    /// For what is large, without a queue pair.
    NicQueue bulk;

    /// Bytes 0 to 999 go to where 1000 to 1999 are.
    Local region;

    record Local(MemorySegment segment) implements LocalRegion {
        @Override
        public int index() {
            return 0;
        }

        @Override
        public int generation() {
            return 1;
        }

        @Override
        public Access access() {
            return Access.READ_WRITE;
        }

        @Override
        public int memfd() {
            return -1;
        }
    }

    /// Pieces of equal length; what happens at the last of them, and how it ended.
    final class Source implements WorkQueue.Source {
        private final Runnable last;
        private final int piece;
        final List<WorkQueue.End> ends = new ArrayList<>();
        final VerbsWindow window;
        @Nullable String why;
        private int at;
        int fences;

        /// Pieces of one byte.
        Source(Runnable last) {
            this(last, 1);
        }

        /// The peer's memory has a key for each byte: every byte is a request, whatever a piece is.
        Source(Runnable last, int piece) {
            RegionKeys keys = memory.register(region);
            int[] names = new int[BYTES];
            Arrays.fill(names, keys.remoteKey(0));
            this.last = last;
            this.piece = piece;
            this.at = -piece;
            this.window =
                    new VerbsWindow(
                            null,
                            0,
                            new ControlMessage.Resolved(
                                    0,
                                    ControlMessage.Status.GOOD,
                                    3,
                                    keys.address() + BYTES,
                                    BYTES,
                                    1,
                                    names,
                                    ""));
        }

        NicWork post() {
            NicWork work = new NicWork(queue, queue, memory, this);
            work.post(false, BYTES);
            return work;
        }

        /// Its first bytes only.
        NicWork post(int bytes) {
            NicWork work = new NicWork(queue, queue, memory, this);
            work.post(false, bytes);
            return work;
        }

        /// As if it were large.
        void postLarge(NicWork work) {
            ends.clear();
            at = -piece;
            work.post(false, NicQueue.SMALL + 1L);
        }

        @Override
        public boolean next() {
            at += piece;
            if (at == BYTES - piece) {
                last.run();
            }
            return at < BYTES;
        }

        @Override
        public Window window() {
            return window;
        }

        @Override
        public LocalRegion region() {
            return region;
        }

        @Override
        public long remoteOffset() {
            return at;
        }

        @Override
        public long localOffset() {
            return at;
        }

        @Override
        public long bytes() {
            return piece;
        }

        @Override
        public void fenced() {
            fences++;
            throw new IllegalStateException("who is told throws");
        }

        @Override
        public void ended(WorkQueue.End end, @Nullable String reason) {
            ends.add(end);
            why = reason;
            if (end == WorkQueue.End.LOST) {
                throw new IllegalStateException("who is told throws");
            }
        }
    }

    @BeforeEach
    void makeQueue() {
        VERBS.reset();
        device = new Device(VERBS, endpoint, "fake0");
        memory = new Registrations(device, endpoint, false);
        region = new Local(arena.allocate(2 * BYTES, 8));
        for (int i = 0; i < BYTES; i++) {
            region.segment().set(JAVA_BYTE, i, (byte) (i * 31 + 1));
        }
        rail = device.rails(SETTINGS, new ArrayList<>()).getFirst();
        owner = new ActivePairs(endpoint, memory, rail, SETTINGS, null, null, failures::add);
        queue = new NicQueue(owner, 0, arena);
        bulk = new NicQueue(owner, 1, arena);
        connect();
    }

    void connect() {
        connect(null);
    }

    /// Gives the queue a queue pair that leads to `far`.
    void connect(FlushWord.@Nullable Read flush) {
        QueuePair near = pair(VerbsMemory.IBV_ACCESS_LOCAL_WRITE);
        far = pair(VerbsMemory.IBV_ACCESS_REMOTE_WRITE | VerbsMemory.IBV_ACCESS_REMOTE_READ);
        near.connect(offer(far), 1);
        far.connect(offer(near), 1);
        queue.take(near, flush);
        queue.ready();
    }

    void breakOff() {
        VERBS.silence("fake0", true);
        Source source = new Source(() -> {});
        NicWork work = source.post();
        work.stop();
        work.abort();
        QueuePair broken = queue.takeBroken();
        assertThat(broken).isNotNull();
        assertThat(broken.close()).isTrue();
        queue.ended();
        assertThat(far.close()).isTrue();
        assertThat(source.ends).containsExactly(WorkQueue.End.ABORTED);
        VERBS.silence("fake0", false);
    }

    QueuePair pair(int access) {
        return new QueuePair(
                device,
                rail,
                SETTINGS,
                new QueuePair.Shape("a test", NicBatches.REQUESTS, 1, 128, access, true));
    }

    Offer offer(QueuePair of) {
        return new Offer(
                Offer.GOOD,
                of.number(),
                of.psn(),
                rail.gid(),
                rail.gid(),
                rail.lid(),
                rail.mtu(),
                true,
                false,
                0,
                0,
                true,
                "");
    }

    @AfterEach
    void nothingIsLeft() {
        queue.close();
        bulk.close();
        boolean unused = far.close();
        memory.close();
        device.close();
        arena.close();
        assertThat(VERBS.misuses()).isEmpty();
        assertThat(VERBS.left()).isEmpty();
        VERBS.reset();
    }

    void pollUntilEnded(Source source) {
        long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (source.ends.isEmpty() && System.nanoTime() < end) {
            boolean unused = queue.poll();
        }
    }
}
