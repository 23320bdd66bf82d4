package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceStream;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Transfers in the order of a caller's stream, which the test stops and lets go. The driver is the
/// fake one, whose streams run work later than its call.
class GpuStreamTest extends OnFakeGpu {
    private static final int SIZE = 1 << 20;
    private static final int OLD = 1;
    private static final int LATE = 2;

    private static Couple couple(TestPath path) {
        Couple couple = couple(path, SIZE);
        couple.here().fill("gpu", 0, SIZE, OLD);
        return couple;
    }

    private static Transfer prepareWrite(Couple couple, TransferOptions options) {
        return couple.here()
                .connection()
                .prepareWrite(couple.here().region("gpu").all(), target(couple), options);
    }

    private static Transfer write(Couple couple, TransferOptions options) {
        Transfer transfer = prepareWrite(couple, options);
        transfer.post();
        return transfer;
    }

    /// The bytes are those that the stream has made before, and the stream goes on when they are
    /// there. In the second round everything is warm, and the gate is used again.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP", "CUDA_RING"})
    void beginsAfterTheStreamAndTheStreamGoesOnAfterIt(TestPath path) {
        try (Couple couple = couple(path)) {
            for (int round = 0; round < 2; round++) {
                couple.here().fill("gpu", 0, SIZE, OLD);
                couple.there().fill("gpu", 0, SIZE, OLD);
                try (StoppedStream stream = new StoppedStream(couple)) {
                    stream.changeLate(couple.here(), "gpu", SIZE, LATE);
                    Transfer transfer = write(couple, stream.order());
                    stream.mark();
                    assertThat(transfer.await(Duration.ofMillis(50))).isFalse();
                    couple.there().check("gpu", 0, SIZE, OLD);
                    assertThat(stream.isAtMark()).isFalse();

                    stream.letGo();

                    stream.awaitMark();
                    assertThat(transfer.state()).isEqualTo(TransferState.DONE);
                    couple.there().check("gpu", 0, SIZE, LATE);
                }
            }
        }
    }

    /// A transfer each, one after the other.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP"})
    void messagesOfOneStreamKeepTheirOrder(TestPath path) {
        int count = 200;
        try (Couple couple = couple(path);
                StoppedStream stream = new StoppedStream(couple)) {
            Connection here = couple.here().connection();
            Connection there = couple.there().run(Participant::connection);
            List<Transfer> all = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                couple.here().fill("gpu", 1024L * i, 1024, i);
                all.add(
                        here.send(
                                5,
                                MemorySlices.of(couple.here().slice("gpu", 1024L * i, 1024)),
                                stream.order()));
            }
            stream.letGo();
            for (int i = 0; i < count; i++) {
                int at = i;
                Transfer receive =
                        couple.there()
                                .run(self -> there.receive(5, self.slice("gpu", 1024L * at, 1024)));
                all.add(receive);
            }
            all.forEach(each -> Outcome.of(each).assertDone(1024));
            for (int i = 0; i < count; i++) {
                couple.there().check("gpu", 1024L * i, 1024, i);
            }
        }
    }

    /// The one has its gate in the stream first, and the engine hears of the other first.
    @Test
    void postingsOfSeveralThreadsDoNotWaitForEachOther() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            stream.letGo();
            Transfer first = prepareWrite(couple, stream.order());
            Transfer second = prepareWrite(couple, stream.order());
            FakeGpu.keep("cuStreamWaitValue64", first::post, second::post);
            Outcome.of(first).assertDone(SIZE);
            Outcome.of(second).assertDone(SIZE);
        }
    }

    /// The same where they stand in the line of a tag, and one of a later posting, whose stream has
    /// nothing else to do, overtakes neither.
    @Test
    void postingsOfSeveralThreadsKeepTheOrderOfTheirTag() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream idle = new StoppedStream(couple);
                StoppedStream stream = new StoppedStream(couple);
                StoppedStream before = new StoppedStream(couple)) {
            idle.finish();
            stream.letGo();
            Participant self = couple.here();
            List<TransferOptions> orders =
                    List.of(TransferOptions.DEFAULTS, stream.order(), stream.order(), idle.order());
            List<Transfer> sends = new ArrayList<>();
            List<Transfer> all = new ArrayList<>();
            for (int i = 0; i < orders.size(); i++) {
                long at = 1024L * i;
                self.fill("gpu", at, 1024, 10 + i);
                MemorySlices piece = MemorySlices.of(self.slice("gpu", at, 1024));
                sends.add(self.connection().prepareSend(5, piece, orders.get(i)));
                all.add(
                        couple.there()
                                .run(
                                        other ->
                                                other.connection()
                                                        .receive(5, other.slice("gpu", at, 1024))));
            }
            sends.get(0).post(List.of(before.stream()));
            FakeGpu.keep(
                    "cuStreamWaitValue64",
                    sends.get(1)::post,
                    () -> {
                        sends.get(2).post();
                        sends.get(3).post();
                    });
            assertThat(sends.get(3).await(Duration.ofMillis(20))).isFalse();

            before.letGo();

            all.addAll(sends);
            all.forEach(each -> Outcome.of(each).assertDone(1024));
            for (int i = 0; i < orders.size(); i++) {
                couple.there().check("gpu", 1024L * i, 1024, 10 + i);
            }
        }
    }

    @Test
    void aNotificationAndARepostKeepToTheStream() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            MemorySegment note = MemorySegment.ofArray(new byte[] {7});
            Transfer told = couple.here().connection().notifyPeer(note, stream.order());
            Transfer prepared =
                    couple.here()
                            .connection()
                            .prepareWrite(
                                    couple.here().region("gpu").all(),
                                    target(couple),
                                    stream.order());
            prepared.post();
            assertThat(told.await(Duration.ofMillis(20))).isFalse();
            assertThat(prepared.state()).isEqualTo(TransferState.PENDING);
            stream.letGo();
            Outcome.of(told).assertDone();
            Outcome.of(prepared).assertDone(SIZE);
            prepared.post();
            Outcome.of(prepared).assertDone(SIZE);
            couple.there().check("gpu", 0, SIZE, OLD);
        }
    }

    /// The stream stands still longer than the transfer may take: that ends, touches nothing, and
    /// does not hold the stream up.
    @Test
    void aDeadlineCountsFromThePosting() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            couple.there().fill("gpu", 0, SIZE, LATE);
            Transfer late = write(couple, stream.order().withDeadline(Duration.ofMillis(50)));
            Transfer cancelled = write(couple, stream.order());
            stream.mark();
            assertThat(cancelled.cancel()).isTrue();
            assertThat(Outcome.of(late).state()).isEqualTo(TransferState.TIMED_OUT);
            assertThat(Outcome.of(cancelled).state()).isEqualTo(TransferState.CANCELLED);
            couple.there().check("gpu", 0, SIZE, LATE);
            stream.letGo();
            stream.awaitMark();
            Outcome.of(write(couple, stream.order())).assertDone(SIZE);
            couple.there().check("gpu", 0, SIZE, OLD);
        }
    }

    /// A stream that stands at a gate would hold up the driver where it waits for all streams, as
    /// it does when it takes back windows and page-locked memory.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_DIRECT", "CUDA_TCP", "CUDA_RING"})
    void theEndOfAConnectionDoesNotWaitForTheStream(TestPath path) {
        try (Couple couple = couple(path);
                StoppedStream stream = new StoppedStream(couple)) {
            for (int i = 0; i < 3; i++) {
                Outcome.of(write(couple, TransferOptions.DEFAULTS)).assertDone(SIZE);
            }
            Transfer receive =
                    couple.here()
                            .connection()
                            .receive(
                                    1,
                                    MemorySlices.of(couple.here().region("gpu").all()),
                                    stream.order());
            Transfer behind = write(couple, stream.order());
            stream.mark();
            stream.letGo();
            assertThat(receive.await(Duration.ofMillis(50))).isFalse();
            couple.here().closeConnection();
            assertThat(Outcome.of(receive).state()).isEqualTo(TransferState.FAILED);
            assertThat(Outcome.of(behind).state()).isEqualTo(TransferState.FAILED);
            stream.awaitMark();
        }
    }

    /// Without a thread that polls, and of memory of hosts, which the progress thread must not copy
    /// itself.
    @Test
    void hostMemoryIsWrittenWithoutAnybodyPolling() {
        try (Couple couple = couple(TestPath.CUDA_DIRECT);
                StoppedStream stream = new StoppedStream(couple)) {
            couple.here().add("host", Kind.FOREIGN, SIZE);
            RemoteMemory target = couple.there().add("host", Kind.FOREIGN, SIZE);
            couple.here().fill("host", 0, SIZE, LATE);
            Transfer transfer =
                    couple.here()
                            .connection()
                            .write(couple.here().region("host").all(), target, stream.order());
            stream.mark();
            stream.letGo();
            stream.awaitMark();
            assertThat(transfer.state()).isEqualTo(TransferState.DONE);
            couple.there().check("host", 0, SIZE, LATE);
        }
    }

    /// The next posting may come as soon as the state says so, while the last one's thread is still
    /// about to let the stream go.
    @Test
    void postsAgainAsSoonAsItHasEnded() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            stream.letGo();
            Transfer transfer =
                    couple.here()
                            .connection()
                            .prepareWrite(
                                    couple.here().slice("gpu", 0, 8),
                                    target(couple).slice(0, 8),
                                    stream.order());
            for (int i = 0; i < 2_000; i++) {
                transfer.post();
                while (!transfer.state().isTerminal()) {
                    Thread.onSpinWait();
                }
                assertThat(transfer.state()).as("round %d", i).isEqualTo(TransferState.DONE);
            }
            stream.mark();
            stream.awaitMark();
        }
    }

    /// Gates that are put into a graph would be passed by each replay, without a transfer.
    @Test
    void aStreamThatRecordsIsRefused() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            stream.letGo();
            stream.record();
            assertThat(Outcome.of(write(couple, stream.order())).error())
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("records a graph");
        }
    }

    /// A region that closes while the stream stands still, and a device that nobody has.
    @Test
    void whatCannotBeginEnds() {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            Transfer transfer = write(couple, stream.order());
            stream.mark();
            couple.here().closeRegion("gpu");
            assertThat(Outcome.of(transfer).error())
                    .isInstanceOf(TelpherException.StaleRegion.class);
            stream.letGo();
            stream.awaitMark();

            Device nobodys = new Device("abacus", stream.device.uuid(), "", "");
            couple.here().add("host", Kind.FOREIGN, SIZE);
            Transfer refused =
                    couple.here()
                            .connection()
                            .write(
                                    couple.here().region("host").all(),
                                    target(couple),
                                    TransferOptions.DEFAULTS.withStream(
                                            new DeviceStream(nobodys, 0)));
            assertThat(Outcome.of(refused).error())
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("abacus");
        }
    }

    /// What the driver says of either half is what the transfer says, and the next one works.
    @ParameterizedTest
    @ValueSource(strings = {"cuStreamWriteValue64", "cuStreamWaitValue64"})
    void aRefusedStreamFailsTheTransfer(String call) {
        try (Couple couple = couple(TestPath.CUDA_TCP);
                StoppedStream stream = new StoppedStream(couple)) {
            stream.letGo();
            FakeGpu.setFaults(call + ":1:801");
            Outcome outcome = Outcome.of(write(couple, stream.order()));
            FakeGpu.setFaults("");
            assertThat(outcome.state()).isEqualTo(TransferState.FAILED);
            assertThat(outcome.error())
                    .isInstanceOf(TelpherException.NativeFailure.class)
                    .hasMessageContaining(call);
            for (int i = 0; i < 100; i++) { // more than there are words of one block
                Outcome.of(write(couple, stream.order())).assertDone(SIZE);
            }
        }
    }
}
