package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// Frames that GPUs fill, on a lane that takes what the test lets it take.
@Tag(FakeGpu.TAG)
class OutboundStagingTest {
    private static final int MIB = 1 << 20;
    private static final Duration LIMIT = Duration.ofSeconds(20);

    private EndpointImpl endpoint;
    private ConnectionCore core;
    private StubLane stub;
    private LaneState lane;
    private MemoryRegion gpu;

    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeHere();
    }

    @BeforeEach
    void open() {
        endpoint = Loopback.open();
        core = Loopback.connection(endpoint, 1);
        stub = new StubLane(MIB);
        lane = stub.addTo(core, 0);
        gpu = endpoint.allocate(Device.list().getFirst(), 4 * MIB, Access.READ_WRITE);
        // The first one asks for the buffers, and goes without.
        Transfer unused = write();
        await(this::hasRoom);
    }

    @AfterEach
    void close() {
        FakeGpu.setDelay(0);
        core.close();
        endpoint.close();
    }

    private Transfer write() {
        return write(gpu);
    }

    private Transfer write(MemoryRegion region) {
        return new ConnectionImpl(core).write(region.all(), region.remote());
    }

    private boolean hasRoom() {
        lane.sendToken.take();
        try {
            return lane.out.hasRoom();
        } finally {
            lane.sendToken.giveBack();
        }
    }

    /// A lane dies between the cutting of frames and the start of their copies: the operation must
    /// not wait for copies that nobody makes.
    @Test
    void whatWasCutAndNotStartedIsNotWaitedFor() {
        lane.sendToken.take();
        Transfer write;
        try {
            write = write();
            core.lock.lock();
            try {
                assertThat(core.outbound.schedule.next(lane)).isFalse();
            } finally {
                core.lock.unlock();
            }
            assertThat(lane.out.isWaiting()).isTrue();
        } finally {
            lane.sendToken.giveBack();
        }
        core.keeper.died(lane);
        core.afterwards();
        assertThat(write.await(LIMIT)).isTrue();
        assertThat(write.error()).isInstanceOf(TelpherException.PeerLost.class);
    }

    /// Frames that GPUs have filled go out in turn with those of host memory, not behind them.
    @Test
    void filledFramesDoNotWaitForBulkOfHosts() {
        stub.room = 0;
        Transfer unused = write();
        await(() -> lane.blocked && !core.devices.isBusy());
        Transfer ofHost = write(endpoint.allocate(8 * MIB));
        int before = stub.sent.size();
        stub.room = Integer.MAX_VALUE;
        await(() -> stub.sent.size() == before + 12);
        assertThat(sentBy(before, ofHost)).isEqualTo("-+-+-+-+++++");
    }

    /// An operation that waits for buffers of GPUs keeps none of host memory waiting.
    @Test
    void bulkOfHostsDoesNotWaitForBuffers() {
        FakeGpu.setDelay(2_000_000);
        MemoryRegion large =
                endpoint.allocate(Device.list().getFirst(), 32 * MIB, Access.READ_WRITE);
        int before = stub.sent.size();
        Transfer unused = write(large);
        await(() -> !hasRoom());
        Transfer ofHost = write(endpoint.allocate(3 * MIB));
        await(() -> stub.sent.size() >= before + 3);
        FakeGpu.setDelay(0);
        assertThat(sentBy(before, ofHost)).startsWith("+++");
    }

    /// @return what was sent after so many frames: `+` for a frame of that transfer
    private String sentBy(int before, Transfer transfer) {
        long token = ((TransferImpl) transfer).operation.token();
        StringBuilder text = new StringBuilder();
        for (StubLane.Sent frame : stub.sent.subList(before, stub.sent.size())) {
            text.append(frame.transfer() == token ? '+' : '-');
        }
        return text.toString();
    }

    private void await(BooleanSupplier what) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!what.getAsBoolean()) {
            assertThat(System.nanoTime()).as("it never came to that").isLessThan(end);
            int unused = core.poll();
        }
    }
}
