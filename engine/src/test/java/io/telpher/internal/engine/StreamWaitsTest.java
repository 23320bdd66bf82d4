package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Device;
import io.telpher.DeviceStream;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.spi.Lane;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;

/// What waits for streams, which are the test's doing. How they get there is GpuStreamTest's and
/// GpuAfterTest's.
class StreamWaitsTest {
    private static final Duration SLOW = Duration.ofMinutes(1);
    private static final int SIZE = 64;
    private static final DeviceStream STREAM =
            new DeviceStream(new Device("abacus", new UUID(1, 2), "", ""), 7);

    /// The test's clock goes forward when it says so.
    private static final class Leaping extends NativePlatform {
        private final AtomicLong leapt = new AtomicLong();

        void leap(Duration time) {
            leapt.addAndGet(time.toNanos());
        }

        @Override
        public long nanoTime() {
            return super.nanoTime() + leapt.get();
        }
    }

    /// However long the program's streams take to get there: it counts from then.
    @Test
    void whatWaitsForStreamsIsNotSlow() {
        Leaping platform = new Leaping();
        try (EndpointImpl endpoint =
                new EndpointImpl(Loopback.OPTIONS.withSlowTransfer(SLOW), platform)) {
            ConnectionCore core = Loopback.connection(endpoint, 1);
            LaneState unused = new StubLane(Lane.LEAST_PAYLOAD).addTo(core, 0);
            MemoryRegion region = endpoint.allocate(SIZE);
            TransferImpl write =
                    (TransferImpl)
                            new ConnectionImpl(core)
                                    .prepareWrite(
                                            region.all(),
                                            region.remote(),
                                            TransferOptions.DEFAULTS.withDeadline(
                                                    Duration.ofDays(1)));
            AtomicBoolean reached = new AtomicBoolean();
            write.post(false, new StreamPoints(List.of(STREAM), List.of(reached::get), null), 0);
            assertThat(slowAtATick(core)).as("when it is posted").isZero();
            platform.leap(SLOW.multipliedBy(2));
            assertThat(slowAtATick(core)).as("while it waits").isZero();
            reached.set(true);
            Awaitility.await().until(() -> !core.streams.isFilled()); // the progress thread looks
            assertThat(slowAtATick(core)).as("when it begins").isZero();
            platform.leap(SLOW.multipliedBy(2));
            assertThat(slowAtATick(core)).as("later").isEqualTo(1);
            assertThat(write.state()).isEqualTo(TransferState.PENDING);
            core.close();
        }
    }

    /// Though the streams get there between the look at the first and the look at the next one.
    @Test
    void messagesOfAListBeginInItsOrder() {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore core = Loopback.connection(endpoint, 1);
            LaneState unused = new StubLane(Lane.LEAST_PAYLOAD).addTo(core, 0);
            MemorySlices slices = MemorySlices.of(endpoint.allocate(SIZE).all());
            List<TransferImpl> sends = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                sends.add(
                        (TransferImpl)
                                new ConnectionImpl(core)
                                        .prepareSend(5, slices, TransferOptions.DEFAULTS));
            }
            // One look succeeds: the third one after this has been set to 0.
            AtomicInteger looks = new AtomicInteger(Integer.MIN_VALUE);
            StreamPoints points =
                    new StreamPoints(
                            List.of(STREAM), List.of(() -> looks.incrementAndGet() == 3), null);
            TransferList.post(sends, List.of(), points, StreamWaits.lastKept());
            core.lock.lock();
            try {
                assertThat(sends).allMatch(StreamWaitsTest::waits);
                looks.set(0); // between two turns
            } finally {
                core.lock.unlock();
            }
            Awaitility.await().until(() -> looks.get() > 3);
            core.lock.lock();
            try {
                assertThat(waits(sends.get(0))).as("whether the first waits").isFalse();
                assertThat(waits(sends.get(1))).as("whether the second waits").isTrue();
            } finally {
                core.lock.unlock();
            }
            core.close();
        }
    }

    /// Under the lock.
    private static boolean waits(TransferImpl transfer) {
        Operation op = transfer.operation;
        return op != null && op.line != null;
    }

    private static long slowAtATick(ConnectionCore core) {
        core.lock.lock();
        try {
            boolean any = core.endings.tick(core.platform.nanoTime());
            assertThat(any).isTrue();
            return core.tally.slow;
        } finally {
            core.lock.unlock();
        }
    }
}
