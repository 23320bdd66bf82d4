package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Receiver;
import io.telpher.spi.WorkQueue;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Whatever is thrown inside the engine, those who wait hear of it, and the progress thread goes
// on.
class ErrorsTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    /// How often the progress thread's waits, and starts of burials, are still to fail.
    private final AtomicInteger waits = new AtomicInteger();

    private final AtomicInteger burials = new AtomicInteger();
    private final EndpointOptions options =
            EndpointOptions.DEFAULTS.withTransports(List.of("tcp")).withInterfaces(List.of("lo"));
    private EndpointImpl endpoint;

    @BeforeEach
    void open() {
        endpoint = new EndpointImpl(options, new Planted());
    }

    @AfterEach
    void close() {
        endpoint.close();
    }

    @Test
    void oneInALanesPollEndsItsConnection() throws Exception {
        ConnectionCore core = Loopback.connection(endpoint, 1);
        endpoint.remember(core);
        Transfer receive = new ConnectionImpl(core).receive(1, endpoint.allocate(8).all());
        assertThat(core.add(new Link(new ExplodingLane(), null), 0, "stub", "")).isTrue();
        assertFailed(receive);
        assertWorks();
    }

    /// The frame that it met is lost: were the lane to go on, the next one would confirm it.
    @Test
    void oneInAPollOfAThreadThatWaitsEndsTheLane() {
        ConnectionCore core = Loopback.connection(endpoint, 1);
        endpoint.remember(core);
        Transfer receive = new ConnectionImpl(core).receive(1, endpoint.allocate(8).all());
        LaneState lane = new ExplodingLane().addTo(core, 0);
        assertThat(receive.await(LIMIT)).isTrue();
        assertThat(receive.error())
                .isInstanceOf(TelpherException.PeerLost.class)
                .hasMessageContaining("planted");
        assertThat(lane.closed).isTrue();
    }

    @Test
    void oneOfTheThreadItselfEndsAllConnections() throws Exception {
        try (EndpointImpl peer = new EndpointImpl(options)) {
            Connection connection = endpoint.connect(peer.address(), LIMIT);
            Transfer receive = connection.receive(1, endpoint.allocate(8).all());
            waits.set(1);
            assertFailed(receive);
        }
        assertWorks();
    }

    /// As when the system gives no more threads.
    @Test
    void oneInABurialHasItBegunAnew() throws Exception {
        ConnectionCore core = Loopback.connection(endpoint, 1);
        endpoint.remember(core);
        StubLane lane = new StubLane(StubLane.LEAST_PAYLOAD);
        assertThat(core.add(new Link(lane, null), 0, "stub", "")).isTrue();
        LaneState state = core.lanes.all()[0];
        state.copies.incrementAndGet(); // a thread of its own has to wait for this one
        burials.set(2);
        core.fail(new TelpherException.PeerLost("the test ends it"));
        long end = System.nanoTime() + LIMIT.toNanos();
        while (burials.get() > 0) {
            assertThat(System.nanoTime()).as("nobody buries anew").isLessThan(end);
            Thread.sleep(1);
        }
        core.keeper.copied(state);
        while (!endpoint.connections().isEmpty()) {
            assertThat(System.nanoTime()).as("nobody finishes the burial").isLessThan(end);
            Thread.sleep(1);
        }
        assertThat(state.closed).isTrue();
        assertWorks();
    }

    /// The device had not let go of what either of two operations was copying; the first of them
    /// cannot be ended now.
    @Test
    void oneAtTheEndOfAnOperationLeavesNoOtherInTheWindows() {
        ConnectionCore core = Loopback.connection(endpoint, 1);
        List<Operation> copied = new ArrayList<>();
        core.lock.lock();
        try {
            for (Operation.Kind kind : List.of(Operation.Kind.WRITE, Operation.Kind.READ)) {
                Operation op = core.table.take();
                op.kind = kind;
                op.copying = true;
                copied.add(op);
                // Of no link: who asks whether what was written is fenced finds none.
                core.oneSided.queued.unfenced.hold(
                        new WorkJob(
                                core,
                                core.oneSided.queued,
                                new QueuedCopies(core, null, new LostQueue()),
                                op));
            }
        } finally {
            core.lock.unlock();
        }
        assertThatThrownBy(core.oneSided::close).isInstanceOf(NullPointerException.class);
        assertThat(copied).noneMatch(op -> op.copying);
        core.close();
    }

    private static final class LostQueue implements WorkQueue {
        @Override
        public void prepare(LocalRegion region) {}

        @Override
        public boolean reaches(LocalRegion region) {
            return false;
        }

        @Override
        public Work work(Source source) {
            ((WorkStripe) source).end = End.LOST;
            return null;
        }
    }

    /// Nobody polls here: the progress thread has to.
    private static void assertFailed(Transfer transfer) {
        CompletableFuture<Transfer> end = transfer.completion().toCompletableFuture();
        assertThatThrownBy(() -> end.get(LIMIT.toSeconds(), TimeUnit.SECONDS))
                .isInstanceOf(ExecutionException.class)
                .hasCauseInstanceOf(TelpherException.PeerLost.class)
                .hasMessageContaining("planted");
    }

    private void assertWorks() throws Exception {
        try (EndpointImpl peer = new EndpointImpl(options)) {
            Connection connection = endpoint.connect(peer.address(), LIMIT);
            Transfer receive = connection.receive(1, endpoint.allocate(8).all());
            Connection back = peer.accept(LIMIT);
            CompletableFuture<Transfer> end = receive.completion().toCompletableFuture();
            MemorySegment eight = Arena.ofAuto().allocate(8);
            assertThat(back.send(1, peer.register(eight).all()).await(LIMIT)).isTrue();
            assertThat(end.get(LIMIT.toSeconds(), TimeUnit.SECONDS).bytesMoved()).isEqualTo(8);
        }
    }

    /// Throws where it is told to.
    private final class Planted extends NativePlatform {
        @Override
        public Readiness readiness() {
            Readiness real = super.readiness();
            return new Readiness() {
                @Override
                public int add(int descriptor, int events, long key) {
                    return real.add(descriptor, events, key);
                }

                @Override
                public int modify(int descriptor, int events, long key) {
                    return real.modify(descriptor, events, key);
                }

                @Override
                public int remove(int descriptor) {
                    return real.remove(descriptor);
                }

                @Override
                public int await(int timeoutMillis) {
                    explode(waits);
                    return real.await(timeoutMillis);
                }

                @Override
                public long key(int index) {
                    return real.key(index);
                }

                @Override
                public void ring() {
                    real.ring();
                }

                @Override
                public void close() {
                    real.close();
                }
            };
        }

        @Override
        public void start(Thread thread) {
            if (thread.getName().equals("telpher-burial")) {
                explode(burials);
            }
            super.start(thread);
        }
    }

    private static void explode(AtomicInteger left) {
        if (left.getAndUpdate(n -> Math.max(n - 1, 0)) > 0) {
            throw new OutOfMemoryError("planted");
        }
    }

    private static final class ExplodingLane extends StubLane {
        ExplodingLane() {
            super(LEAST_PAYLOAD);
        }

        @Override
        public int poll(Receiver receiver, int limit) {
            throw new OutOfMemoryError("planted");
        }
    }
}
