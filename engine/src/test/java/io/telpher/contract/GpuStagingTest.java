package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.EndpointAddress;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Memory of GPUs that travels in frames: what is long is copied by GPUs while other frames are on
/// their way. The driver is the fake one, and counts.
class GpuStagingTest extends OnFakeGpu {
    private static final byte[] SECRET = "0123456789abcdef".getBytes(US_ASCII);
    private static final int MIB = 1 << 20;
    private static final int SIZE = 16 * MIB;

    /// Of one way: frames of a MiB.
    private static final int FRAMES = SIZE / MIB;

    /// Two endpoints, each with a region of a GPU.
    private static Couple couple(TestPath path) {
        Couple couple = couple(path, SIZE);
        couple.here().add("host", Kind.FOREIGN, SIZE);
        couple.there().run(self -> self.add("host", Kind.FOREIGN, SIZE));
        return couple;
    }

    /// Buffers are made in the background: writes until they are there.
    private static void warmUp(Couple couple) {
        RemoteMemory target = target(couple, "gpu");
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (true) {
            long before = FakeGpu.copies();
            couple.here().write("gpu", 0, SIZE, target).assertDone(SIZE);
            if (FakeGpu.copies() - before == 2 * FRAMES) {
                return;
            }
            assertThat(System.nanoTime()).as("staging was never ready").isLessThan(end);
        }
    }

    /// Two copies for each MiB, and many of them at the same time: more than one would be
    /// seen if each frame's were waited for.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_TCP", "CUDA_RING"})
    void copiesOverlap(TestPath path) {
        try (Couple couple = couple(path)) {
            warmUp(couple);
            couple.here().fill("gpu", 0, SIZE, 5);
            FakeGpu.setDelay(2_000);
            int unused = FakeGpu.mostCopies();
            long before = FakeGpu.copies();
            couple.here().write("gpu", 0, SIZE, target(couple, "gpu")).assertDone(SIZE);
            assertThat(FakeGpu.copies() - before).isEqualTo(2 * FRAMES);
            assertThat(FakeGpu.mostCopies()).isGreaterThanOrEqualTo(6);
            couple.there().check("gpu", 0, SIZE, 5);
        }
    }

    /// Random ranges, pieces and directions, between GPUs and hosts.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_TCP", "CUDA_RING"})
    void everyRangeArrives(TestPath path) {
        long seed = ThreadLocalRandom.current().nextLong();
        System.out.println("everyRangeArrives: seed " + seed);
        Random random = new Random(seed);
        try (Couple couple = couple(path)) {
            warmUp(couple);
            Connection connection = couple.here().connection();
            for (int i = 0; i < 24; i++) {
                String from = random.nextBoolean() ? "gpu" : "host";
                String to = from.equals("host") || random.nextBoolean() ? "gpu" : "host";
                long length = 1L + random.nextInt(SIZE - 1);
                long here = random.nextInt((int) (SIZE - length) + 1);
                long there = random.nextInt((int) (SIZE - length) + 1);
                int content = i;
                RemoteMemory target = target(couple, to).slice(there, length);
                Transfer transfer;
                if (random.nextBoolean()) {
                    couple.here().fill(from, here, length, content);
                    transfer = connection.write(couple.here().slice(from, here, length), target);
                    Outcome.of(transfer).assertDone(length);
                    couple.there().check(to, there, length, content);
                } else {
                    couple.there().fill(to, there, length, content);
                    transfer = connection.read(couple.here().slice(from, here, length), target);
                    Outcome.of(transfer).assertDone(length);
                    couple.here().check(from, here, length, content);
                }
            }
        }
    }

    /// What the driver says of the copy out is what the transfer says.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_TCP", "CUDA_RING"})
    void aRefusedCopyOutFailsTheTransferOnly(TestPath path) {
        try (Couple couple = couple(path)) {
            warmUp(couple);
            assertThat(writeThatFails(couple, "gpu", "cuMemcpyAsync:3:2"))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("cuMemcpyAsync")
                    .hasMessageContaining("OUT_OF_MEMORY");
        }
    }

    /// Writes while the driver refuses some calls; afterwards all is well again.
    private static TelpherException writeThatFails(Couple couple, String from, String faults) {
        FakeGpu.setFaults(faults);
        Outcome outcome = couple.here().write(from, 0, SIZE, target(couple, "gpu"));
        FakeGpu.setFaults("");
        assertThat(outcome.state()).isEqualTo(TransferState.FAILED);
        couple.checkWorks();
        return outcome.error();
    }

    /// The peer's driver refuses: the frame is refused, and said to be the peer's device's.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_TCP", "CUDA_RING"})
    void aRefusedCopyInIsToldToTheSender(TestPath path) {
        try (Couple couple = couple(path)) {
            warmUp(couple);
            // Once more from the host, whose bytes only the receiver's GPU copies.
            for (int i = 0; i < 3; i++) {
                couple.here().write("host", 0, SIZE, target(couple, "gpu")).assertDone(SIZE);
            }
            // Frames of a ring are small: those that come together go by kernel.
            assertThat(writeThatFails(couple, "host", "cuMemcpyAsync:2:2,cuLaunchKernel:2:2"))
                    .hasMessageContaining("device of the peer");
        }
    }

    /// Memory that is freed while GPUs copy from or to it would lose the fake's context.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_TCP", "CUDA_RING"})
    void regionsCloseInTheMiddle(TestPath path) {
        try (Couple couple = couple(path)) {
            warmUp(couple);
            FakeGpu.setDelay(20_000);
            Transfer write =
                    couple.here()
                            .connection()
                            .write(couple.here().region("gpu").all(), target(couple, "gpu"));
            awaitCopies(2);
            couple.there().tell(self -> self.closeRegion("gpu"));
            assertThat(Outcome.of(write).error()).isInstanceOf(TelpherException.StaleRegion.class);
            couple.there().run(self -> self.add("again", Kind.TELPHER, SIZE));
            Transfer second =
                    couple.here()
                            .connection()
                            .write(couple.here().region("gpu").all(), target(couple, "again"));
            awaitCopies(2);
            couple.here().closeRegion("gpu"); // which lets it end, if that does not take long
            if (Outcome.of(second).state() != TransferState.DONE) {
                assertThat(second.error()).isInstanceOf(TelpherException.StaleRegion.class);
            }
            FakeGpu.setDelay(0);
            couple.checkWorks();
        }
    }

    /// The end of a connection waits for what GPUs copy for it, and frees everything.
    @ParameterizedTest
    @EnumSource(names = {"CUDA_TCP", "CUDA_RING"})
    void closingWaitsForCopies(TestPath path) {
        int pinned = FakeGpu.live(FakeGpu.Kind.HOST_REGISTRATIONS);
        try (Couple couple = couple(path)) {
            warmUp(couple);
            FakeGpu.setDelay(20_000);
            Transfer write =
                    couple.here()
                            .connection()
                            .write(couple.here().region("gpu").all(), target(couple, "gpu"));
            awaitCopies(2);
            couple.here().closeConnection();
            assertThat(Outcome.of(write).state()).isEqualTo(TransferState.FAILED);
        }
        assertThat(FakeGpu.live(FakeGpu.Kind.HOST_REGISTRATIONS)).isEqualTo(pinned);
    }

    /// One of several lanes is cut while GPUs copy what it carried, and fill what it was to carry:
    /// that goes by the others, and every byte once.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aLaneDiesInTheMiddle(boolean write) throws IOException {
        int port = Ports.free();
        Participant.Tweak options =
                o ->
                        TestPath.CUDA_TCP
                                .restrict(o)
                                .withSecret(SECRET)
                                .withLanes(1)
                                .withMaxSockets(3);
        try (Couple couple = Couple.open(options, o -> options.apply(o).withPort(port));
                StreamProxy proxy = StreamProxy.to(port)) {
            couple.connect(EndpointAddress.of("127.0.0.1", proxy.port(), SECRET).toBytes());
            couple.here().add("gpu", Kind.TELPHER, SIZE);
            RemoteMemory target = couple.there().add("gpu", Kind.TELPHER, SIZE);
            Connection connection = couple.here().connection();
            for (int i = 0; i < 3; i++) { // so that each lane has its buffers
                couple.here().write("gpu", 0, SIZE, target).assertDone(SIZE);
                Outcome.of(connection.read(couple.here().region("gpu").all(), target))
                        .assertDone(SIZE);
            }
            couple.here().fill("gpu", 0, SIZE, write ? 3 : 4);
            couple.there().fill("gpu", 0, SIZE, write ? 4 : 3);
            FakeGpu.setDelay(5_000);
            Transfer transfer =
                    write
                            ? connection.write(couple.here().region("gpu").all(), target)
                            : connection.read(couple.here().region("gpu").all(), target);
            awaitCopies(6);
            proxy.injectInto(1, StreamProxy.Fault.CUT, 0, 0);
            Outcome.of(transfer).assertDone(SIZE);
            couple.here().check("gpu", 0, SIZE, 3);
            couple.there().check("gpu", 0, SIZE, 3);
            FakeGpu.setDelay(0);
            couple.checkWorks();
        }
    }

    private static void awaitCopies(int count) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        long wanted = FakeGpu.copies() + count;
        while (FakeGpu.copies() < wanted) {
            assertThat(System.nanoTime()).as("no copies begin").isLessThan(end);
            Thread.onSpinWait();
        }
    }

    /// Without page-locked memory it goes the slow way, and says why.
    @Test
    void withoutPageLockedMemoryItIsSlow() {
        FakeGpu.setFaults("cuMemHostRegister:1:2,cuMemHostRegister:2:2");
        try (Couple couple = couple(TestPath.CUDA_TCP)) {
            couple.here().fill("gpu", 0, SIZE, 6);
            for (int i = 0; i < 3; i++) {
                couple.here().write("gpu", 0, SIZE, target(couple, "gpu")).assertDone(SIZE);
            }
            couple.there().check("gpu", 0, SIZE, 6);
            assertThat(couple.here().connection().explain())
                    .contains("staged without page-locked memory", "free memory of the host");
        }
    }

    /// Thousands of pieces travel in a few frames, and each frame's go out as one job: by a kernel,
    /// not by a copy each.
    @Test
    void piecesOfAFrameGoTogether() {
        FakeGpu.assumeKernels();
        try (Couple couple = couple(TestPath.CUDA_TCP)) {
            warmUp(couple);
            int count = 2000;
            long[] near = new long[count];
            long[] far = new long[count];
            RemoteMemory target = target(couple, "gpu");
            List<RemoteMemory> remote = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                near[i] = 1000L * i;
                far[i] = 1000L * (count - 1 - i) + 8;
                remote.add(target.slice(far[i], 900));
            }
            couple.here().fill("gpu", 0, SIZE, 7);
            long before = FakeGpu.copies();
            Outcome.of(
                            couple.here()
                                    .connection()
                                    .write(
                                            MemorySlices.of(
                                                    couple.here().region("gpu"),
                                                    near,
                                                    lengths(count)),
                                            RemoteSlices.of(remote),
                                            TransferOptions.DEFAULTS))
                    .assertDone(900L * count);
            assertThat(FakeGpu.copies() - before).isLessThan(100);
            MemorySegment sent = couple.here().segment("gpu");
            MemorySegment came = couple.there().run(self -> self.segment("gpu"));
            for (int i = 0; i < count; i++) {
                assertThat(sent.asSlice(near[i], 900).mismatch(came.asSlice(far[i], 900)))
                        .as("piece %d", i)
                        .isEqualTo(-1);
            }
        }
    }

    private static long[] lengths(int count) {
        long[] lengths = new long[count];
        Arrays.fill(lengths, 900);
        return lengths;
    }

    /// Two processes, two GPUs that the driver keeps apart, and no other one that may help: bytes
    /// go through memory that both processes page-locked.
    @Test
    void gpusWithoutPeerAccessMeetInSharedMemory() {
        Participant here = new Participant();
        Peer there =
                PeerProcess.start(
                        FakeGpu.jvmArguments(),
                        Map.of("FAKE_CUDA_DEVICES", "4", "FAKE_CUDA_REFUSE_PEERS", "0-3"));
        try {
            Participant.Tweak options =
                    o ->
                            o.withTransports(List.of("shm"))
                                    .withPaths(List.of("cuda-cumem", "shm-ring"));
            here.open(options);
            there.tell(self -> self.open(options));
            there.acceptFrom(here);
            here.keep("gpu", allocate(here, 0), Participant.arena());
            byte[] remote =
                    there.run(
                            self ->
                                    self.keep("gpu", allocate(self, 3), Participant.arena())
                                            .remote()
                                            .toBytes());
            RemoteMemory target = RemoteMemory.ofBytes(remote);
            long end = System.nanoTime() + Participant.LIMIT.toNanos();
            long copies;
            do {
                long before = FakeGpu.copies();
                here.fill("gpu", 0, SIZE, 9);
                here.write("gpu", 0, SIZE, target).assertDone(SIZE);
                copies = FakeGpu.copies() - before;
                there.check("gpu", 0, SIZE, 9);
                assertThat(System.nanoTime()).as("staging was never ready").isLessThan(end);
            } while (copies != FRAMES);
            there.fill("gpu", 0, SIZE, 10);
            Outcome.of(here.connection().read(here.region("gpu").all(), target)).assertDone(SIZE);
            here.check("gpu", 0, SIZE, 10);
            assertThat(here.connection().explain()).contains("cuDeviceCanAccessPeer");
            assertThat(here.connection().refusals())
                    .anyMatch(refusal -> refusal.reason().contains("cuDeviceCanAccessPeer"));
        } finally {
            here.close();
            there.close();
        }
    }

    private static MemoryRegion allocate(Participant self, int device) {
        return self.endpoint().allocate(Device.list().get(device), SIZE, Access.READ_WRITE);
    }
}
