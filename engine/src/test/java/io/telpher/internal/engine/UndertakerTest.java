package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Device;
import io.telpher.DeviceStream;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Adverts;
import io.telpher.spi.Deadline;
import io.telpher.spi.Lane;
import io.telpher.spi.Link;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Ends that a well-kept transport or an honest peer does not bring about.
class UndertakerTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static final int SIZE = 64 << 10;

    private EndpointImpl endpoint;
    private ConnectionCore core;
    private Transfer receive;

    @BeforeEach
    void post() {
        endpoint = Loopback.open();
        core = Loopback.connection(endpoint, 1);
        endpoint.remember(core);
        receive = new ConnectionImpl(core).receive(1, endpoint.allocate(8).all());
    }

    @AfterEach
    void close() {
        endpoint.close();
    }

    @Test
    void operationsEndThoughATransportFailsToClose() {
        assertThat(core.add(new Link(new IdleLane(true), new StuckWindows()), 0, "idle", ""))
                .isTrue();
        core.close();
        assertThat(receive.await(LIMIT)).isTrue();
        assertThat(receive.error()).isInstanceOf(TelpherException.Closed.class);
        assertThat(endpoint.connections()).isEmpty();
    }

    @Test
    void aGoodbyeThatConfirmsTooMuchIsAViolation() {
        assertThat(core.add(new Link(new IdleLane(false), null), 0, "idle", "")).isTrue();
        assertThat(receive.await(LIMIT)).isTrue();
        assertThat(receive.error())
                .isInstanceOf(TelpherException.ProtocolViolation.class)
                .hasMessageContaining("confirmation " + IdleLane.TOO_MUCH);
    }

    /// What GPUs still copy keeps neither the progress thread nor other operations waiting, and is
    /// taken up however late it ends.
    @Test
    void copiesThatAreUnderWayAreWaitedForElsewhere() throws InterruptedException {
        assertThat(core.add(new Link(new StubLane(Lane.LEAST_PAYLOAD), null), 0, "stub", ""))
                .isTrue();
        LaneState lane = core.lanes.all()[0];
        lane.copies.incrementAndGet();
        core.fail(new TelpherException.PeerLost("the test ends it"));
        core.afterwards(); // unless the progress thread was here first
        assertThat(receive.await(LIMIT)).isTrue();
        assertThat(receive.error()).isInstanceOf(TelpherException.PeerLost.class);
        assertThat(lane.closed).isFalse();
        assertThat(endpoint.connections()).hasSize(1);

        core.keeper.copied(lane);
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!lane.closed || !endpoint.connections().isEmpty()) {
            assertThat(System.nanoTime()).as("nobody finishes the burial").isLessThan(end);
            Thread.sleep(1);
        }
    }

    /// A sender says through the windows that it has left the peer's receive: they stay until it
    /// has said so, whatever it is in the middle of.
    @Test
    void windowsStayUntilThisSidesSendersHaveSaidThatTheyAreOut() throws InterruptedException {
        OpenWindows windows = new OpenWindows();
        StubLane lane = new StubLane(Lane.LEAST_PAYLOAD);
        assertThat(core.add(new Link(lane, windows), 0, "stub", "")).isTrue();
        Transfer send = new ConnectionImpl(core).send(1, endpoint.allocate(SIZE).all());
        Operation op = core.table.at(1);
        assertThat(op.kind).isEqualTo(Operation.Kind.SEND);
        setCopying(op, true);
        core.fail(new TelpherException.PeerLost("the test ends it"));
        core.afterwards(); // unless the progress thread was here first
        assertThat(receive.await(LIMIT)).isTrue();
        Thread.sleep(50);
        assertThat(windows.closed).isFalse();
        assertThat(send.state().isTerminal()).isFalse();

        setCopying(op, false);
        assertThat(send.await(LIMIT)).isTrue();
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!windows.closed || !endpoint.connections().isEmpty()) {
            assertThat(System.nanoTime()).as("nobody finishes the burial").isLessThan(end);
            Thread.sleep(1);
        }
    }

    /// What waits for a stream is in no list of those who bury: when it is posted too late for
    /// them, it ends at once.
    @Test
    void whatIsPostedAfterAStreamWhenTheConnectionIsOverEnds() {
        TransferImpl write =
                (TransferImpl)
                        new ConnectionImpl(core)
                                .prepareSend(
                                        2,
                                        MemorySlices.of(endpoint.allocate(8).all()),
                                        TransferOptions.DEFAULTS);
        DeviceStream stream = new DeviceStream(new Device("none", new UUID(0, 0), "", ""), 7);
        write.after = new StreamPoints(List.of(stream), List.of(() -> false), null);
        core.close();
        core.lock.lock();
        try {
            Operation op = core.table.take();
            assertThat(op).isNotNull();
            op.setKind(Operation.Kind.SEND);
            op.transfer = write;
            assertThat(core.posting.start(op, true)).isFalse();
            assertThat(op.isPending()).isFalse();
            assertThat(op.line).isNull();
            assertThat(core.streams.isFilled()).isFalse();
        } finally {
            core.lock.unlock();
        }
    }

    private void setCopying(Operation op, boolean copying) {
        core.lock.lock();
        try {
            op.copying = copying;
        } finally {
            core.lock.unlock();
        }
    }

    /// Windows whose receives nobody is inside.
    private static final class OpenWindows implements Windows, Adverts {
        volatile boolean closed;

        @Override
        public CompletableFuture<Window> open(RemoteMemory memory, Deadline deadline) {
            throw new TelpherException.Unsupported("no windows here");
        }

        @Override
        public Adverts adverts() {
            return this;
        }

        @Override
        public String explain() {
            return "open";
        }

        @Override
        public void close() {
            closed = true;
        }

        @Override
        public void admit(long receive) {}

        @Override
        public void keepOut(long receive) {}

        @Override
        public boolean isInside(long receive) {
            return false;
        }

        @Override
        public boolean enter(long receive) {
            return true;
        }

        @Override
        public boolean isOpen(long receive) {
            return true;
        }

        @Override
        public void exit(long receive) {}
    }

    private static final class StuckWindows implements Windows {
        @Override
        public CompletableFuture<Window> open(RemoteMemory memory, Deadline deadline) {
            throw new TelpherException.Unsupported("no windows here");
        }

        @Override
        public String explain() {
            return "stuck";
        }

        @Override
        public void close() {
            throw new IllegalStateException("stuck");
        }
    }

    /// A lane on which nothing comes, but for a goodbye.
    private static final class IdleLane extends StubLane {
        static final long TOO_MUCH = 1_000_000;

        /// Whether closing it fails, and no goodbye comes.
        private final boolean stuck;

        IdleLane(boolean stuck) {
            super(LEAST_PAYLOAD);
            this.stuck = stuck;
        }

        @Override
        public int poll(Receiver receiver, int limit) {
            if (stuck) {
                return 0;
            }
            MemorySegment header = Arena.ofAuto().allocate(HEADER, 64);
            Frame.start(header, 0, Frame.GOODBYE, 0, 0, 0, 0);
            Placement placement = new Placement();
            assertThat(receiver.begin(header, 0, placement)).isTrue();
            receiver.end(header, 0, MemorySegment.NULL, 0, placement);
            return 1;
        }

        @Override
        public boolean confirmsNatively() {
            return true;
        }

        @Override
        public long confirmed() {
            return stuck ? 0 : TOO_MUCH;
        }

        @Override
        public void close() {
            if (stuck) {
                throw new IllegalStateException("stuck");
            }
        }
    }
}
