package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceStream;
import io.telpher.MemorySlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Transfers that begin after callers' streams, which the test stops and lets go. The driver is the
/// fake one, whose streams run work later than its call.
class GpuAfterTest extends OnFakeGpu {
    private static final int SIZE = 1 << 20;
    private static final int PIECE = 1024;
    private static final int OLD = 1;
    private static final int LATE = 2;
    private static final Duration WHILE = Duration.ofMillis(50);

    private static Couple couple(TestPath path) {
        Couple couple = couple(path, SIZE);
        couple.here().fill("gpu", 0, SIZE, OLD);
        return couple;
    }

    private static Transfer write(Couple couple, TransferOptions options) {
        return couple.here()
                .connection()
                .prepareWrite(couple.here().region("gpu").all(), target(couple), options);
    }

    private static Transfer write(Couple couple) {
        return write(couple, TransferOptions.DEFAULTS);
    }

    /// Between regions `host`, which it makes.
    private static Transfer hostWrite(Couple couple, int size) {
        couple.here().add("host", Kind.FOREIGN, size);
        return couple.here()
                .connection()
                .prepareWrite(
                        couple.here().region("host").all(),
                        couple.there().add("host", Kind.FOREIGN, size),
                        TransferOptions.DEFAULTS);
    }

    private static MemorySlices piece(Participant self, int number) {
        return MemorySlices.of(self.slice("gpu", (long) PIECE * number, PIECE));
    }

    /// The bytes are those that the stream has made before. In the second round everything is warm,
    /// and the words are used again.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP", "CUDA_RING"})
    void beginsAfterTheStream(TestPath path) {
        try (Couple couple = couple(path)) {
            Transfer transfer = write(couple);
            for (int round = 0; round < 2; round++) {
                couple.here().fill("gpu", 0, SIZE, OLD);
                couple.there().fill("gpu", 0, SIZE, OLD);
                try (StoppedStream stream = new StoppedStream(couple)) {
                    stream.changeLate(couple.here(), "gpu", SIZE, LATE);
                    transfer.post(List.of(stream.stream()));
                    assertThat(transfer.await(WHILE)).isFalse();
                    couple.there().check("gpu", 0, SIZE, OLD);

                    stream.letGo();

                    Outcome.of(transfer).assertDone(SIZE);
                    couple.there().check("gpu", 0, SIZE, LATE);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP"})
    void theStreamGoesOnThoughNobodySends(TestPath path) {
        try (Couple couple = couple(path);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer receive =
                    couple.here()
                            .connection()
                            .prepareReceive(1, piece(couple.here(), 0), TransferOptions.DEFAULTS);
            receive.post(List.of(stream.stream()));
            stream.mark();
            assertThat(stream.isAtMark()).isFalse();
            stream.letGo();
            stream.awaitMark();
            assertThat(receive.await(WHILE)).isFalse();
            couple.there().fill("gpu", 0, PIECE, LATE);
            Transfer send =
                    couple.there()
                            .run(self -> self.connection().send(1, self.slice("gpu", 0, PIECE)));
            Outcome.of(send).assertDone(PIECE);
            Outcome.of(receive).assertDone(PIECE);
            couple.here().check("gpu", 0, PIECE, LATE);
        }
    }

    /// Without a thread that polls, and of memory of hosts, which the progress thread must not copy
    /// itself.
    @Test
    void hostMemoryIsWrittenWithoutAnybodyPolling() {
        try (Couple couple = couple(TestPath.CUDA_DIRECT);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer transfer = hostWrite(couple, SIZE);
            couple.here().fill("host", 0, SIZE, LATE);
            transfer.post(List.of(stream.stream()));
            stream.letGo();
            Awaitility.await()
                    .atMost(Participant.LIMIT)
                    .until(() -> transfer.state() == TransferState.DONE);
            couple.there().check("host", 0, SIZE, LATE);
        }
    }

    /// Nothing is put into a stream that has nothing left to do: a short write has ended when it is
    /// posted.
    @Test
    void afterIdleStreamsItBeginsInTheCall() {
        try (Couple couple = couple(TestPath.CUDA_DIRECT);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer transfer = hostWrite(couple, PIECE);
            // Once its window is open.
            Awaitility.await()
                    .atMost(Participant.LIMIT)
                    .until(
                            () -> {
                                transfer.post();
                                boolean now = transfer.state() == TransferState.DONE;
                                Outcome.of(transfer).assertDone(PIECE);
                                return now;
                            });
            couple.here().fill("host", 0, PIECE, LATE);
            stream.finish();
            FakeGpu.setFaults("cuStreamWriteValue64:1:999");
            transfer.post(List.of(stream.stream(), new DeviceStream(stream.device, 0)));
            assertThat(transfer.state()).isEqualTo(TransferState.DONE);
            couple.there().check("host", 0, PIECE, LATE);
        }
    }

    /// What is posted later with the same tag does not overtake it: neither without a stream, nor
    /// after or on one that has nothing to do. Other tags do.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP"})
    void messagesOfATagKeepTheirOrder(TestPath path) {
        try (Couple couple = couple(path);
                StoppedStream idle = new StoppedStream(couple);
                StoppedStream stream = new StoppedStream(couple)) {
            idle.finish();
            Participant self = couple.here();
            Connection here = self.connection();
            Connection there = couple.there().run(Participant::connection);
            List<Transfer> all = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                int at = i;
                self.fill("gpu", (long) PIECE * i, PIECE, 10 + i);
                all.add(
                        couple.there()
                                .run(
                                        other ->
                                                there.receive(
                                                        at == 3 ? 6 : 5,
                                                        other.slice(
                                                                "gpu", (long) PIECE * at, PIECE))));
            }
            Transfer first = here.prepareSend(5, piece(self, 0), TransferOptions.DEFAULTS);
            first.post(List.of(stream.stream()));
            Transfer second = here.send(5, self.slice("gpu", PIECE, PIECE));
            boolean on = path == TestPath.CUDA_TCP; // whose end the stream waits for as well
            TransferOptions options = TransferOptions.DEFAULTS;
            Transfer third =
                    here.prepareSend(
                            5, piece(self, 2), on ? options.withStream(idle.stream()) : options);
            third.post(on ? List.of() : List.of(idle.stream()));
            Outcome.of(here.send(6, self.slice("gpu", 3L * PIECE, PIECE))).assertDone(PIECE);
            assertThat(third.await(WHILE)).isFalse();
            assertThat(List.of(first.state(), second.state())).containsOnly(TransferState.PENDING);

            stream.letGo();

            all.addAll(List.of(first, second, third));
            all.forEach(each -> Outcome.of(each).assertDone(PIECE));
            for (int i = 0; i < 4; i++) {
                couple.there().check("gpu", (long) PIECE * i, PIECE, 10 + i);
            }
        }
    }

    /// Of which one is on a stream that is busy, and the next one on a stream that is not.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP"})
    void messagesOfAListKeepTheirOrder(TestPath path) {
        try (Couple couple = couple(path);
                StoppedStream idle = new StoppedStream(couple);
                StoppedStream busy = new StoppedStream(couple);
                StoppedStream stream = new StoppedStream(couple)) {
            idle.finish();
            Participant self = couple.here();
            List<TransferOptions> orders =
                    List.of(TransferOptions.DEFAULTS, busy.order(), idle.order());
            List<Transfer> sends = new ArrayList<>();
            List<Transfer> all = new ArrayList<>();
            for (int i = 0; i < orders.size(); i++) {
                long at = (long) PIECE * i;
                self.fill("gpu", at, PIECE, 10 + i);
                sends.add(self.connection().prepareSend(5, piece(self, i), orders.get(i)));
                all.add(
                        couple.there()
                                .run(
                                        other ->
                                                other.connection()
                                                        .receive(
                                                                5, other.slice("gpu", at, PIECE))));
            }
            Transfer.postAll(sends, List.of(stream.stream()));
            stream.letGo();
            Outcome.of(sends.get(0)).assertDone(PIECE);
            boolean overtook = sends.get(2).await(WHILE);

            busy.letGo();

            assertThat(overtook).isFalse();
            all.addAll(sends);
            all.forEach(each -> Outcome.of(each).assertDone(PIECE));
            for (int i = 0; i < orders.size(); i++) {
                couple.there().check("gpu", (long) PIECE * i, PIECE, 10 + i);
            }
        }
    }

    /// The one has its word in the stream first, and the engine hears of the other first, whose
    /// word the stream gets to only when the first has ended.
    @Test
    void postingsOfSeveralThreadsDoNotWaitForEachOther() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer first = write(couple);
            Transfer second = write(couple);
            FakeGpu.keep(
                    "cuStreamWriteValue64",
                    () -> first.post(List.of(stream.stream())),
                    () -> {
                        stream.stop();
                        second.post(List.of(stream.stream()));
                    });
            stream.letGo();
            Outcome.of(first).assertDone(SIZE);
            assertThat(second.state()).isEqualTo(TransferState.PENDING);
            stream.letGo();
            Outcome.of(second).assertDone(SIZE);
        }
    }

    /// The same for receives. One that ends before it begins leaves its place to the next.
    @Test
    void receivesOfATagKeepTheirOrder() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            Participant self = couple.here();
            Connection here = self.connection();
            List<Transfer> receives = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                receives.add(here.prepareReceive(7, piece(self, i), TransferOptions.DEFAULTS));
            }
            receives.get(0).post(List.of(stream.stream()));
            receives.get(1).post(List.of(stream.stream()));
            receives.get(2).post();
            assertThat(receives.get(0).cancel()).isTrue();
            couple.there().fill("gpu", 0, SIZE, LATE);
            List<Transfer> sends = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                int bytes = PIECE - i;
                sends.add(
                        couple.there()
                                .run(
                                        other ->
                                                other.connection()
                                                        .send(7, other.slice("gpu", 0, bytes))));
            }
            assertThat(receives.get(2).await(WHILE)).isFalse();
            stream.letGo();
            sends.forEach(each -> Outcome.of(each).assertDone());
            assertThat(Outcome.of(receives.get(0)).state()).isEqualTo(TransferState.CANCELLED);
            Outcome.of(receives.get(1)).assertDone(PIECE);
            Outcome.of(receives.get(2)).assertDone(PIECE - 1);
        }
    }

    /// Of two devices. What waits for one of them alone goes before.
    @Test
    void beginsAfterAllStreams() {
        try (Couple couple = couple(TestPath.CUDA_DIRECT);
                StoppedStream one = new StoppedStream(Device.list().get(0));
                StoppedStream two = new StoppedStream(Device.list().get(1))) {
            Transfer both = write(couple);
            Transfer single = write(couple);
            both.post(List.of(one.stream(), two.stream()));
            single.post(List.of(one.stream()));
            one.letGo();
            Outcome.of(single).assertDone(SIZE);
            assertThat(both.await(WHILE)).isFalse();
            two.letGo();
            Outcome.of(both).assertDone(SIZE);
        }
    }

    /// Each stream gets one word, however many transfers there are.
    @Test
    void aListBeginsAfterStreams() {
        try (Couple couple = couple(TestPath.CUDA_DIRECT);
                StoppedStream stream = new StoppedStream(couple)) {
            stream.changeLate(couple.here(), "gpu", SIZE, LATE);
            List<Transfer> writes = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                long at = (long) PIECE * i;
                writes.add(
                        couple.here()
                                .connection()
                                .prepareWrite(
                                        couple.here().slice("gpu", at, PIECE),
                                        target(couple).slice(at, PIECE),
                                        TransferOptions.DEFAULTS));
            }
            FakeGpu.setFaults("cuStreamWriteValue64:2:999");
            Transfer.postAll(writes, List.of(stream.stream()));
            FakeGpu.setFaults("");
            assertThat(writes.getLast().await(WHILE)).isFalse();
            assertThat(writes).allMatch(each -> each.state() == TransferState.PENDING);
            stream.letGo();
            writes.forEach(each -> Outcome.of(each).assertDone(PIECE));
            couple.there().check("gpu", 0, 16L * PIECE, LATE);
        }
    }

    /// Whatever ends before the stream gets there touches nothing, and leaves nothing in the way.
    @Test
    void whatEndsBeforeTheStreamTouchesNothing() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            couple.there().fill("gpu", 0, SIZE, LATE);
            couple.here().add("second", Kind.TELPHER, SIZE);
            Transfer late =
                    write(couple, TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(50)));
            Transfer cancelled = write(couple);
            Transfer revoked =
                    couple.here()
                            .connection()
                            .prepareWrite(
                                    couple.here().region("second").all(),
                                    target(couple),
                                    TransferOptions.DEFAULTS);
            Transfer last = write(couple);
            for (Transfer each : List.of(late, cancelled, revoked, last)) {
                each.post(List.of(stream.stream()));
            }
            assertThat(cancelled.cancel()).isTrue();
            couple.here().closeRegion("second");
            assertThat(Outcome.of(late).state()).isEqualTo(TransferState.TIMED_OUT);
            assertThat(Outcome.of(cancelled).state()).isEqualTo(TransferState.CANCELLED);
            assertThat(Outcome.of(revoked).error())
                    .isInstanceOf(TelpherException.StaleRegion.class);
            couple.there().check("gpu", 0, SIZE, LATE);
            stream.letGo();
            Outcome.of(last).assertDone(SIZE);
            couple.there().check("gpu", 0, SIZE, OLD);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP", "CUDA_RING"})
    void theEndOfAConnectionDoesNotWaitForTheStream(TestPath path) {
        try (Couple couple = couple(path);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer transfer = write(couple);
            transfer.post(List.of(stream.stream()));
            couple.here().closeConnection();
            assertThat(Outcome.of(transfer).state()).isEqualTo(TransferState.FAILED);
            stream.mark();
            assertThat(stream.isAtMark()).isFalse();
            stream.letGo();
            stream.awaitMark();
        }
    }

    /// It is asked for that before anything else, which would spoil the recording.
    @Test
    void aStreamThatRecordsIsRefused() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            stream.finish();
            stream.record();
            Transfer transfer = write(couple);
            transfer.post(List.of(stream.stream()));
            assertThat(Outcome.of(transfer).error())
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("records a graph");
            transfer.post();
            Outcome.of(transfer).assertDone(SIZE);
        }
    }

    /// What the driver says is what the transfer says, and the next one works.
    @ParameterizedTest
    @ValueSource(strings = {"cuStreamQuery", "cuStreamWriteValue64"})
    void aRefusedStreamFailsTheTransfer(String call) {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer transfer = write(couple);
            FakeGpu.setFaults(call + ":1:999");
            transfer.post(List.of(stream.stream()));
            FakeGpu.setFaults("");
            assertThat(Outcome.of(transfer).error())
                    .isInstanceOf(TelpherException.NativeFailure.class)
                    .hasMessageContaining(call);
            transfer.post(List.of(stream.stream()));
            assertThat(transfer.await(WHILE)).isFalse();
            stream.letGo();
            Outcome.of(transfer).assertDone(SIZE);
        }
    }

    /// As the driver of a device that has no such operation.
    @Test
    void aStreamThatWritesNoWordsIsWaitedFor() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer transfer = write(couple);
            stream.finish();
            FakeGpu.setDelay(20_000);
            stream.changeLate(couple.here(), "gpu", SIZE, LATE);
            stream.mark();
            FakeGpu.setFaults("cuStreamWriteValue64:1:801");
            transfer.post(List.of(stream.stream()));
            assertThat(stream.isAtMark()).isTrue();
            FakeGpu.setFaults("");
            Outcome.of(transfer).assertDone(SIZE);
            couple.there().check("gpu", 0, SIZE, LATE);
        }
    }

    @Test
    void aDeviceThatNobodyHasFailsTheTransfer() {
        try (Couple couple = couple(TestPath.CUDA_TCP)) {
            Device device = couple.here().region("gpu").deviceMemory().device();
            Transfer transfer = write(couple);
            Device nobodys = new Device("abacus", device.uuid(), "", "");
            transfer.post(List.of(new DeviceStream(nobodys, 0)));
            assertThat(Outcome.of(transfer).error())
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("abacus");
        }
    }

    /// A pair of words is used again when its stream has passed it, whoever still asks.
    @Test
    void aPointStaysReachedWhenItsWordsAreUsedAgain() {
        Device device = Device.list().getFirst();
        Gpu gpu = Runtimes.open(device);
        Gpu.Point first;
        try (StoppedStream stream = new StoppedStream(device)) {
            first = gpu.point(stream.stream().handle());
            assertThat(first.isReached()).isFalse();
            stream.finish();
            assertThat(first.isReached()).isTrue();
            assertThat(gpu.point(stream.stream().handle())).as("of an idle stream").isNull();
        }
        List<Integer> live = new ArrayList<>();
        for (int round = 0; round < 3; round++) {
            try (StoppedStream stream = new StoppedStream(device)) {
                List<Gpu.Point> points = new ArrayList<>();
                for (int i = 0; i < 1024; i++) { // all words of a block
                    points.add(gpu.point(stream.stream().handle()));
                }
                assertThat(points).noneMatch(Gpu.Point::isReached);
                assertThat(first.isReached()).isTrue();
                stream.finish();
                assertThat(points).allMatch(Gpu.Point::isReached);
                live.add(FakeGpu.live(FakeGpu.Kind.HOST_ALLOCATIONS));
            }
        }
        assertThat(live).containsOnly(live.getFirst());
    }
}
