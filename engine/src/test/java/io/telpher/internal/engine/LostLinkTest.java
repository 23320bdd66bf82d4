package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Deadline;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import io.telpher.spi.WorkQueue;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Long transfers whose link says that it is lost, before anybody finds its lane dead: on links
/// whose queues do what the test says.
@Timeout(120)
class LostLinkTest {
    private static final int RANGE = (int) WorkRanges.RANGE;
    private static final int RANGES = 8;
    private static final Duration LIMIT = Duration.ofSeconds(20);

    /// So often a queue refuses work: whoever tried for ever would not come back to the test.
    private static final int REFUSALS = 100;

    private static final long QUICK = 1_000;
    private static final long SLOW = 1_000_000_000_000L;

    private EndpointImpl endpoint;
    private ConnectionCore core;
    private MemoryRegion region;
    private final List<FakeLink> links = new ArrayList<>();

    @BeforeEach
    void open() {
        endpoint = Loopback.open();
        core = Loopback.connection(endpoint, 1);
        region = endpoint.allocate(RANGES * RANGE);
    }

    @AfterEach
    void close() {
        links.forEach(link -> link.endAll(WorkQueue.End.LOST));
        core.close();
        endpoint.close();
    }

    /// A link whose window reaches the one region, and whose work ends at once, or when the test
    /// says so.
    private final class FakeLink implements Windows, WorkQueue, Window {
        final StubLane lane;
        final LaneState state;
        final Direct direct;

        /// Where the ranges begin that were posted here.
        final List<Long> posted = new ArrayList<>();

        private final ArrayDeque<Source> underWay = new ArrayDeque<>();

        /// How work ends that is posted, or null while it stays under way.
        private final @Nullable End atOnce;

        FakeLink(@Nullable End atOnce) {
            this.atOnce = atOnce;
            int index = links.size();
            this.lane =
                    new StubLane(1 << 20) {
                        @Override
                        public String text() {
                            return "rail " + index;
                        }
                    };
            this.state = lane.addTo(core, index);
            this.direct = new Direct(this, core, state);
            RemoteMemory memory = region.remote();
            PeerRegion slot = new PeerRegion(memory.generation(), memory.key());
            slot.window = this;
            assertThat(direct.replace(memory.region(), null, slot)).isTrue();
            core.lock.lock();
            try {
                core.oneSided.links.open(direct);
            } finally {
                core.lock.unlock();
            }
            links.add(this);
        }

        FakeLink taking(long nanos) {
            QueuedCopies queued = direct.queued;
            assertThat(queued).isNotNull();
            queued.pace.took(nanos);
            return this;
        }

        private @Nullable End post(Source source) {
            synchronized (this) {
                assertThat(source.next()).isTrue();
                posted.add(source.remoteOffset());
                if (atOnce == null) {
                    underWay.addLast(source);
                }
                return atOnce == End.LOST && posted.size() > REFUSALS ? End.DONE : atOnce;
            }
        }

        private synchronized @Nullable Source take() {
            return underWay.pollFirst();
        }

        synchronized List<Long> posted() {
            return List.copyOf(posted);
        }

        /// Ends what is under way, and what follows that here.
        void endAll(End how) {
            Source source;
            while ((source = take()) != null) {
                source.ended(how, null);
                core.afterwards();
            }
        }

        @Override
        public Work work(Source source) {
            return new Work() {
                @Override
                public void post(boolean read, long bytes) {
                    End end = FakeLink.this.post(source);
                    if (end != null) {
                        source.ended(end, null);
                    }
                }

                @Override
                public void stop() {}

                @Override
                public void abort() {}
            };
        }

        @Override
        public WorkQueue queue() {
            return this;
        }

        @Override
        public void prepare(LocalRegion memory) {}

        @Override
        public boolean reaches(LocalRegion memory) {
            return true;
        }

        @Override
        public CompletableFuture<Window> open(RemoteMemory memory, Deadline deadline) {
            return CompletableFuture.completedFuture(this);
        }

        @Override
        public String explain() {
            return lane.text();
        }

        @Override
        public String path() {
            return "fake";
        }

        @Override
        public int enter() {
            return 0;
        }

        @Override
        public void exit(int ticket) {}

        @Override
        public int check(long offset, long length, boolean write) {
            return 0;
        }

        @Override
        public void close() {}
    }

    private Transfer read() {
        return new ConnectionImpl(core).read(region.all(), region.remote());
    }

    private Transfer write() {
        return new ConnectionImpl(core).write(region.all(), region.remote());
    }

    private void await(BooleanSupplier condition) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            assertThat(System.nanoTime()).as("comes in time").isLessThan(end);
            core.afterwards();
            Thread.onSpinWait();
        }
    }

    private static List<Long> all() {
        List<Long> all = new ArrayList<>();
        for (long i = 0; i < RANGES; i++) {
            all.add(i * RANGE);
        }
        return all;
    }

    /// As a queue does whose queue pair could not be destroyed. Nothing of a read is on its way to
    /// the peer, so it goes on at once: not by the same link, again and again.
    @Test
    void aReadThatItsLinkRefusesGoesByFrames() {
        FakeLink only = new FakeLink(WorkQueue.End.LOST);
        Transfer read = read();
        await(() -> !only.lane.sent.isEmpty() || read.state() != TransferState.PENDING);
        assertThat(only.posted()).containsExactly(0L);
        assertThat(only.lane.sent).extracting(StubLane.Sent::type).contains(Frame.READ);
        assertThat(only.state.dead).as("nobody has found its lane dead").isFalse();
    }

    @Test
    void aReadThatOneLinkRefusesGoesByAnother() {
        FakeLink first = new FakeLink(WorkQueue.End.LOST);
        FakeLink second = new FakeLink(WorkQueue.End.DONE);
        Transfer read = read();
        await(() -> read.state() != TransferState.PENDING);
        assertThat(read.state()).isEqualTo(TransferState.DONE);
        assertThat(first.posted()).as("tried once").hasSizeBetween(1, 2);
        assertThat(second.posted()).containsExactlyInAnyOrderElementsOf(all());
        Transfer next = read();
        await(() -> next.state() != TransferState.PENDING);
        assertThat(first.posted()).as("and not by the next one").hasSizeBetween(1, 2);
    }

    /// The quick link is lost when the slow one has left all to it. What nobody had does not wait
    /// for the fence of what was lost.
    @Test
    void aSlowLinkCarriesWhatALostOneHasNotHad() {
        FakeLink quick = new FakeLink(null).taking(QUICK);
        FakeLink slow = new FakeLink(null).taking(SLOW);
        Transfer write = write();
        assertThat(quick.posted()).containsExactly(0L, (long) RANGE);
        assertThat(slow.posted()).isEmpty();

        quick.endAll(WorkQueue.End.LOST);
        slow.endAll(WorkQueue.End.DONE);
        assertThat(slow.posted()).containsExactlyElementsOf(all().subList(2, RANGES));
        assertThat(write.state()).isEqualTo(TransferState.PENDING);

        core.keeper.died(quick.state);
        await(
                () -> {
                    core.lock.lock();
                    try {
                        return core.keeper.fenced(quick.state, 0, 0);
                    } finally {
                        core.lock.unlock();
                    }
                });
        await(
                () -> {
                    slow.endAll(WorkQueue.End.DONE);
                    return write.state() != TransferState.PENDING;
                });
        assertThat(write.state()).isEqualTo(TransferState.DONE);
        assertThat(slow.posted()).containsExactlyInAnyOrderElementsOf(all());
        assertThat(quick.posted()).hasSize(2);
    }

    /// Beside the one that is lost both are slow, but not beside each other.
    @Test
    void allSlowLinksComeBackForALostOne() {
        FakeLink quick = new FakeLink(null).taking(QUICK);
        FakeLink slow = new FakeLink(null).taking(SLOW);
        FakeLink other = new FakeLink(null).taking(SLOW);
        Transfer unused = write();
        assertThat(slow.posted()).isEmpty();
        assertThat(other.posted()).isEmpty();
        quick.endAll(WorkQueue.End.LOST);
        assertThat(slow.posted()).isNotEmpty();
        assertThat(other.posted()).isNotEmpty();
    }
}
