package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// Frames that GPUs fill, step by step: no thread but the test's makes progress.
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
        endpoint =
                new EndpointImpl(
                        EndpointOptions.DEFAULTS
                                .withTransports(List.of("tcp"))
                                .withInterfaces(List.of("lo")));
        core = new ConnectionCore(endpoint, 1, endpoint.address());
        stub = new StubLane(MIB);
        lane = stub.addTo(core, 0);
        gpu = endpoint.allocate(Device.list().getFirst(), 4 * MIB, Access.READ_WRITE);
        // The first one asks for the buffers, and goes without.
        Transfer unused = write();
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!hasRoom()) {
            assertThat(System.nanoTime()).as("staging was never ready").isLessThan(end);
            Thread.onSpinWait();
        }
    }

    @AfterEach
    void close() {
        core.close();
        endpoint.close();
    }

    private Transfer write() {
        return new ConnectionImpl(core).write(gpu.all(), gpu.remote());
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
                assertThat(core.outbound.next(lane)).isFalse();
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
}
