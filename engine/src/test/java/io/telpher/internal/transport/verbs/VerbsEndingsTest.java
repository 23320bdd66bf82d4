package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import io.telpher.internal.transport.verbs.VerbsWindowsTest.Regions;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Ends of one-sided transfers whose bytes may still arrive, on the double: nobody hears that one
/// is over before its memory is quiet.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsEndingsTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = 4 << 20;
    private static final FakeVerbs VERBS = FakeVerbs.HERE;

    /// The verbs of a side whose targets of one-sided transfers end slowly, or not at all, on
    /// demand.
    private static final class SlowTargets implements AutoCloseable {
        private final Set<Object> targets = ConcurrentHashMap.newKeySet();
        private final CountDownLatch released = new CountDownLatch(1);
        private final AtomicInteger ending = new AtomicInteger();
        private volatile boolean slow;
        private volatile boolean stuck;

        Provider provider() {
            Provider made =
                    Altered.provider(
                            VERBS,
                            "createQp",
                            (usual, arguments) -> {
                                Object qp = usual.answer();
                                VerbsQueuePairs.Capacity capacity =
                                        (VerbsQueuePairs.Capacity) arguments[2];
                                if (capacity.sends() == 1) {
                                    targets.add(qp);
                                }
                                return qp;
                            });
            return Altered.provider(
                    made,
                    "destroyQp",
                    (usual, arguments) -> {
                        if (stuck && targets.contains(arguments[0])) {
                            return Errno.EBUSY;
                        }
                        if (slow && targets.contains(arguments[0])) {
                            ending.incrementAndGet();
                            assertThat(released.await(LIMIT.toSeconds(), TimeUnit.SECONDS))
                                    .isTrue();
                            Object result = usual.answer();
                            ending.decrementAndGet();
                            return result;
                        }
                        return usual.answer();
                    });
        }

        /// They end now.
        @Override
        public void close() {
            released.countDown();
        }

        void awaitEnding() throws InterruptedException {
            long end = System.nanoTime() + LIMIT.toNanos();
            while (ending.get() == 0) {
                assertThat(System.nanoTime()).as("no target ends").isLessThan(end);
                Thread.sleep(1);
            }
        }
    }

    private static MemoryRegion region(Endpoint endpoint) {
        return endpoint.allocate(BYTES, Access.READ_WRITE);
    }

    private static Transfer ended(Transfer transfer) {
        assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
        return transfer;
    }

    /// A send is cut off. Its receive hears of that when the peer has ended the queue pair over
    /// which the bytes would come.
    @Test
    void aReceiveEndsWhenNothingArrivesAnyMore() throws InterruptedException {
        VERBS.removeDevice("fake1");
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            MemoryRegion from = region(couple.here);
            MemoryRegion into = region(couple.there);
            Transfer before = couple.accepted.receive(1, into.slice(0, BYTES));
            assertThat(ended(couple.connection.send(1, from.slice(0, BYTES))).state())
                    .isEqualTo(TransferState.DONE);
            assertThat(ended(before).state()).isEqualTo(TransferState.DONE);

            Transfer receive = cutOff(couple, slow, from, into);
            assertThat(receive.await(Duration.ofMillis(300)))
                    .as("ends while its memory may be written to: %s", receive.error())
                    .isFalse();
            slow.close();
            assertThat(ended(receive).state()).isEqualTo(TransferState.TIMED_OUT);
            assertThat(receive.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
            VERBS.holdOneSided(false);
        }
    }

    /// The same, when the receive is cancelled in between: the peer does not consent before that.
    @Test
    void aReceiveIsNotLetGoWhileItsSendMayArrive() throws InterruptedException {
        VERBS.removeDevice("fake1");
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            MemoryRegion from = region(couple.here);
            MemoryRegion into = region(couple.there);
            Transfer before = couple.connection.write(from.slice(0, BYTES), into.remote());
            assertThat(ended(before).path()).isEqualTo("verbs");

            Transfer receive = cutOff(couple, slow, from, into);
            receive.cancel();
            assertThat(ended(receive).state()).isEqualTo(TransferState.CANCELLED);
            assertThat(receive.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
            slow.close();
            VERBS.holdOneSided(false);
        }
    }

    /// Has a send cut off, whose bytes may arrive until the peer's queue pair has ended, slowly.
    ///
    /// @return its receive
    private static Transfer cutOff(
            Couple couple, SlowTargets slow, MemoryRegion from, MemoryRegion into)
            throws InterruptedException {
        slow.slow = true;
        VERBS.holdOneSided(true);
        Transfer receive = couple.accepted.receive(2, into.slice(0, BYTES));
        Transfer send =
                couple.connection.send(
                        2,
                        MemorySlices.of(from.slice(0, BYTES)),
                        TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(100)));
        assertThat(ended(send).state()).isEqualTo(TransferState.TIMED_OUT);
        assertThat(send.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
        assertThat(send.path()).as("the one that was tried").isEqualTo("verbs");
        slow.awaitEnding();
        return receive;
    }

    /// The link is lost, and the peer closes its side of it. What the link carried does not go out
    /// again before that has come to its end.
    @Test
    void nothingGoesOutAgainWhileALaneIsStillClosing() throws InterruptedException {
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            MemoryRegion from = region(couple.here);
            MemoryRegion into = region(couple.there);
            Transfer before = couple.connection.write(from.slice(0, BYTES), into.remote());
            assertThat(ended(before).path()).isEqualTo("verbs");

            slow.slow = true;
            VERBS.holdOneSided(true);
            Transfer write = couple.connection.write(from.slice(0, BYTES), into.remote());
            String device =
                    couple.connection.explain().contains("lane 0 (verbs-ring fake0")
                            ? "fake0"
                            : "fake1";
            // Several threads take turns at the far side: one of them closes, and waits.
            Transfer never = couple.accepted.receive(7, into.slice(0, BYTES));
            for (int i = 0; i < 2; i++) {
                Thread.ofPlatform().daemon().start(() -> never.await(LIMIT));
            }
            VERBS.breakQueuePairs(device);
            slow.awaitEnding();
            assertThat(write.await(Duration.ofMillis(300)))
                    .as("%s while the lane's other end is being closed", write.state())
                    .isFalse();
            VERBS.holdOneSided(false); // it goes out again by the other rail
            slow.close();
            assertThat(ended(write).state()).isEqualTo(TransferState.DONE);
        }
    }

    /// A queue pair cannot be destroyed. What it was reading may still arrive in local memory,
    /// until the peer has given up its half.
    @Test
    void whatTheDeviceDoesNotLetGoOfHasNotEnded() throws InterruptedException {
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            MemoryRegion into = region(couple.here);
            MemoryRegion from = region(couple.there);
            Transfer before = couple.connection.read(into.slice(0, BYTES), from.remote());
            assertThat(ended(before).path()).isEqualTo("verbs");

            slow.slow = true;
            VERBS.failNext("ibv_destroy_qp", Errno.EBUSY);
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_READ, WorkCompletion.IBV_WC_RETRY_EXC_ERR);
            Transfer read =
                    couple.connection.read(
                            into.slice(0, BYTES),
                            from.remote(),
                            TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(100)));
            slow.awaitEnding();
            assertThat(read.await(Duration.ofMillis(500)))
                    .as("%s while the peer's end of the queue pair is there", read.state())
                    .isFalse();
            slow.close();
            assertThat(ended(read).state()).isEqualTo(TransferState.TIMED_OUT);
        } finally {
            VERBS.forgetAll(); // it is kept, and what it uses
        }
    }

    /// As before, without a deadline: the transfer goes on another way, but not before the peer has
    /// given up its half. What comes later goes by the other link.
    @ParameterizedTest
    @CsvSource({"false, 4194304", "true, 4194304", "false, 524288", "true, 524288"})
    void aTransferGoesOnByAnotherLinkWhenTheDeviceHasLetGo(boolean read, int bytes)
            throws InterruptedException {
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            Regions regions = Regions.of(couple, bytes).opened(couple);
            Transfer transfer = stuck(couple, slow, regions, read);
            assertThat(transfer.await(Duration.ofMillis(300)))
                    .as("%s while the peer's end of the queue pair is there", transfer.state())
                    .isFalse();
            slow.close();
            VerbsWindowsTest.assertDone(transfer);
            regions.assertSame();
            regions.there().segment().fill((byte) 1);
            VerbsWindowsTest.assertByNic(regions.opened(couple).write(couple));
            regions.assertSame();
        } finally {
            VERBS.forgetAll();
        }
    }

    /// Its memory is in use until then, and so is its region: closing that says so, and works
    /// afterwards.
    @Test
    void aRegionIsBusyWhileTheDeviceDoesNotLetGo() throws InterruptedException {
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            Transfer read = stuck(couple, slow, regions, true);
            assertThatThrownBy(regions.here()::close)
                    .isInstanceOf(TelpherException.RegionBusy.class)
                    .hasMessageContaining("still used by 1 operations");
            assertThat(read.state().isTerminal()).as("its memory is in use").isFalse();
            slow.close();
            assertThat(ended(read).error()).isInstanceOf(TelpherException.StaleRegion.class);
            regions.here().close();
        } finally {
            VERBS.forgetAll();
        }
    }

    /// Nobody hears of the peer any more: its work ends with the connection, and its region closes,
    /// which takes the memory from the device.
    @Test
    void closingAConnectionEndsWhatTheDeviceDoesNotLetGo() throws InterruptedException {
        SlowTargets slow = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow.provider());
                slow) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            Transfer write = stuck(couple, slow, regions, false);
            couple.connection.close();
            assertThat(ended(write).state()).isNotEqualTo(TransferState.DONE);
            assertThat(write.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
            regions.here().close();
            slow.close();
        } finally {
            VERBS.forgetAll();
        }
    }

    /// The peer cannot destroy its half, so what was written may still arrive for ever, and no
    /// other way may carry it: the connection ends. The region there takes its keys away as it
    /// closes.
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aTargetThatCannotBeDestroyedEndsTheConnection(boolean read) throws InterruptedException {
        SlowTargets targets = new SlowTargets();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, targets.provider())) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            targets.stuck = true;
            VERBS.failNextRequest(opcode(read), WorkCompletion.IBV_WC_RETRY_EXC_ERR);
            Transfer transfer = read ? regions.read(couple) : regions.write(couple);
            // A read may have gone on by frames already, which its peer then still serves.
            if (!read || ended(transfer).state() != TransferState.DONE) {
                assertThat(ended(transfer).error()).isInstanceOf(TelpherException.PeerLost.class);
            }
            if (!read) {
                assertThat(transfer.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
            }
            awaitEnd(couple.accepted);
            assertThat(couple.accepted.failure())
                    .hasMessageContaining("a queue pair could not be destroyed");
            regions.here().close();
            regions.there().close();
        } finally {
            VERBS.forgetAll();
        }
    }

    private static void awaitEnd(Connection connection) throws InterruptedException {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (connection.isOpen()) {
            assertThat(System.nanoTime()).as("the connection ends").isLessThan(end);
            Thread.sleep(1);
        }
    }

    private static int opcode(boolean read) {
        return read ? SendRequest.IBV_WR_RDMA_READ : SendRequest.IBV_WR_RDMA_WRITE;
    }

    /// @return a transfer whose queue pair the device does not let go of, while the peer ends its
    ///     half slowly
    private static Transfer stuck(Couple couple, SlowTargets slow, Regions regions, boolean read)
            throws InterruptedException {
        slow.slow = true;
        VERBS.failNext("ibv_destroy_qp", Errno.EBUSY);
        VERBS.failNextRequest(opcode(read), WorkCompletion.IBV_WC_RETRY_EXC_ERR);
        Transfer transfer = read ? regions.read(couple) : regions.write(couple);
        slow.awaitEnding();
        return transfer;
    }
}
