package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// GPUs 0 and 3, which the driver keeps apart, while NVLink joins all others: a third one copies
/// between them. The driver is the fake one, and counts. The contract on this path is
/// [GpuContractTest]'s.
class GpuViaTest extends OnFakeGpu {
    private static final String VIA = "cuda-via-gpu";

    private static final Map<String, String> APART =
            Map.of("FAKE_CUDA_DEVICES", "4", "FAKE_CUDA_REFUSE_PEERS", "0-3");

    /// Goes through buffers, in several chunks.
    private static final int LARGE = 20 << 20;

    /// Goes by kernel, where there is one.
    private static final int SMALL = 100_000;

    private static final String KERNEL_LIMIT = "telpher.cuda.kernel.via.bytes";

    /// Engines carry what is long here, as where kernels are forbidden: they have buffers between.
    @BeforeAll
    static void limitKernels() {
        System.setProperty(KERNEL_LIMIT, "" + LARGE / 2);
    }

    private static List<String> jvmArguments() {
        List<String> arguments = new ArrayList<>(FakeGpu.jvmArguments());
        arguments.add("-D" + KERNEL_LIMIT + "=" + LARGE / 2);
        return arguments;
    }

    /// The path is named: neither endpoint uses the GPUs in between.
    private static Couple couple() {
        return couple(List.of(VIA, "cuda-direct", "self", "shm-ring"));
    }

    private static Couple couple(List<String> paths) {
        Couple couple =
                Couple.open(options -> options.withTransports(List.of("shm")).withPaths(paths))
                        .connect();
        here(couple, "gpu");
        there(couple, "gpu");
        return couple;
    }

    private static void here(Couple couple, String name) {
        Participant here = couple.here();
        here.keep(name, GpuProbeTest.allocate(here, 0, LARGE), Participant.arena());
    }

    private static RemoteMemory there(Couple couple, String name) {
        return there(couple, name, 3);
    }

    private static RemoteMemory there(Couple couple, String name, int gpu) {
        return couple.there()
                .run(
                        self ->
                                self.keep(
                                                name,
                                                GpuProbeTest.allocate(self, gpu, LARGE),
                                                Participant.arena())
                                        .remote());
    }

    /// Writes and reads some bytes.
    ///
    /// @return the path
    private static String exchange(Couple couple, int size) {
        RemoteMemory target = target(couple);
        couple.here().fill("gpu", 0, size, 1);
        Outcome write = couple.here().write("gpu", 0, size, target).assertDone(size);
        couple.there().check("gpu", 0, size, 1);
        couple.there().fill("gpu", 0, size, 2);
        Connection connection = couple.here().connection();
        Outcome read =
                Outcome.of(connection.read(couple.here().slice("gpu", 0, size), target))
                        .assertDone(size);
        couple.here().check("gpu", 0, size, 2);
        assertThat(read.path()).isEqualTo(write.path());
        return write.path();
    }

    /// Of the two GPUs that reach both one is chosen; it makes all copies, and no bytes go through
    /// the host.
    @Test
    void aThirdGpuCopies() {
        try (Couple couple = couple()) {
            assertThat(exchange(couple, LARGE)).isEqualTo(VIA);
            long[] before = {FakeGpu.copiesBy(0), FakeGpu.copiesBy(1), FakeGpu.copiesBy(3)};
            assertThat(exchange(couple, LARGE)).isEqualTo(VIA);
            assertThat(exchange(couple, SMALL)).isEqualTo(VIA);
            assertThat(FakeGpu.copiesBy(0)).isEqualTo(before[0]);
            assertThat(FakeGpu.copiesBy(3)).isEqualTo(before[2]);
            // Two copies of each of five chunks, in both directions.
            assertThat(FakeGpu.copiesBy(1) - before[1]).isGreaterThanOrEqualTo(20);
            assertThat(FakeGpu.contextsMade(2)).as("nobody needs GPU 2").isZero();
            Connection connection = couple.here().connection();
            assertThat(connection.explain())
                    .contains(
                            "path cuda-via-gpu", "carries bytes between", "cuDeviceCanAccessPeer");
            assertThat(connection.refusals()).isEmpty();
            assertThat(connection.metrics().paths())
                    .filteredOn(path -> path.name().equals(VIA))
                    .singleElement()
                    .satisfies(path -> assertThat(path.transfersDone()).isEqualTo(6));
        }
    }

    /// A kernel needs no buffers on the GPU in between, which may be full; copy engines do.
    @ParameterizedTest
    @CsvSource({"false, cuda-via-gpu", "true, shm-ring"})
    void aFullGpuCarriesByKernel(boolean byEngines, String path) {
        FakeGpu.assumeKernels();
        List<String> arguments = byEngines ? jvmArguments() : FakeGpu.jvmArguments();
        Map<String, String> variables =
                Map.of(
                        "FAKE_CUDA_DEVICES", "4",
                        "FAKE_CUDA_REFUSE_PEERS", "0-3,0-2",
                        "FAKE_CUDA_MEMORY_MIB", "32");
        try (PeerProcess process = PeerProcess.start(arguments, variables)) {
            List<String> found =
                    process.run(
                            unused -> {
                                try (Couple couple = couple()) {
                                    RemoteMemory most = there(couple, "most", 1);
                                    assertThat(most.length()).isEqualTo(LARGE);
                                    return List.of(
                                            exchange(couple, SMALL),
                                            couple.here().connection().explain());
                                }
                            });
            assertThat(found.getFirst()).as(found.getLast()).isEqualTo(path);
            if (byEngines) {
                assertThat(found.getLast()).contains("4 buffers of 4194304 bytes");
            }
        }
    }

    /// Nobody has asked for a third GPU: none gets a context.
    @Test
    void withoutItsNameNoOtherGpuIsUsed() {
        try (PeerProcess process = PeerProcess.start(jvmArguments(), APART)) {
            List<String> found =
                    process.run(
                            unused -> {
                                try (Couple couple = couple(List.of())) {
                                    return List.of(
                                            exchange(couple, LARGE),
                                            "" + FakeGpu.contextsMade(1),
                                            "" + FakeGpu.contextsMade(2),
                                            couple.here().connection().explain());
                                }
                            });
            assertThat(found.subList(0, 3)).containsExactly("shm-ring", "0", "0");
            assertThat(found.get(3)).contains("is not used by this process", "cuda-via-gpu");
        }
    }

    /// A GPU reaches memory of its own process unasked, but not by a path that is left out.
    @Test
    void whatIsNotNamedIsNotTaken() {
        try (Couple couple = couple(List.of(VIA, "self", "shm-ring"))) {
            couple.here().add("host", Kind.FOREIGN, SMALL);
            couple.here().fill("host", 0, SMALL, 7);
            for (int i = 0; i < 2; i++) {
                Outcome write = couple.here().write("host", 0, SMALL, target(couple));
                assertThat(write.assertDone(SMALL).path()).isEqualTo("shm-ring");
            }
            couple.there().check("gpu", 0, SMALL, 7);
            assertThat(couple.here().connection().explain())
                    .contains("path cuda-direct by", "not among the option 'paths'");
        }
    }

    /// The owner's options count too: its memory is within reach, on the same GPU.
    @ParameterizedTest
    @CsvSource({"false", "true"})
    void theOwnerMayLeaveOutTheDirectPath(boolean inOneProcess) {
        List<String> ours = List.of(VIA, "cuda-direct", "cuda-cumem", "self", "mapped", "shm-ring");
        List<String> theirs = List.of(VIA, "self", "mapped", "shm-ring");
        Participant here = new Participant();
        try (here;
                Peer there =
                        inOneProcess ? new LocalPeer() : PeerProcess.start(jvmArguments(), APART)) {
            here.open(options -> options.withTransports(List.of("shm")).withPaths(ours));
            there.tell(
                    self ->
                            self.open(
                                    options ->
                                            options.withTransports(List.of("shm"))
                                                    .withPaths(theirs)));
            there.acceptFrom(here);
            here.keep("gpu", GpuProbeTest.allocate(here, 0, SMALL), Participant.arena());
            byte[] target =
                    there.run(
                            self ->
                                    self.keep(
                                                    "gpu",
                                                    GpuProbeTest.allocate(self, 0, SMALL),
                                                    Participant.arena())
                                            .remote()
                                            .toBytes());
            here.fill("gpu", 0, SMALL, 3);
            Outcome write = here.write("gpu", 0, SMALL, RemoteMemory.ofBytes(target));
            assertThat(write.assertDone(SMALL).path()).isEqualTo(VIA);
            there.check("gpu", 0, SMALL, 3);
            assertThat(here.connection().explain()).contains("option 'paths' of the peer");
        }
    }

    /// Writes two pieces of "gpu" as one operation, each to the beginning of a region.
    private static Transfer writeBoth(Participant here, RemoteMemory first, RemoteMemory second) {
        return here.connection()
                .write(
                        MemorySlices.of(
                                here.region("gpu"),
                                new long[] {0, SMALL},
                                new long[] {SMALL, SMALL}),
                        RemoteSlices.of(List.of(first.slice(0, SMALL), second.slice(0, SMALL))),
                        TransferOptions.DEFAULTS);
    }

    /// GPU 1 carries bytes for one region; the other one is within reach.
    @Test
    void anOperationOverBothKindsOfRegionsGoesByFrames() {
        try (Couple couple = couple()) {
            assertThat(exchange(couple, SMALL)).isEqualTo(VIA);
            RemoteMemory near = there(couple, "near", 1);
            Participant here = couple.here();
            here.fill("gpu", 0, 2 * SMALL, 8);
            assertThat(here.write("gpu", 0, SMALL, near).assertDone(SMALL).path())
                    .isEqualTo("cuda-direct");
            Transfer both = writeBoth(here, target(couple), near);
            assertThat(Outcome.of(both).assertDone(2 * SMALL).path()).isEqualTo("shm-ring");
            couple.there().check("gpu", 0, SMALL, 8);
            assertThat(here.connection().explain())
                    .contains("operations over several regions", "carries some only");
        }
    }

    /// One region is carried, another one was only opened, by host memory: it is made ready before
    /// frames are thought of.
    @ParameterizedTest
    @CsvSource({"true", "false"})
    void allRegionsOfAnOperationAreMadeReady(boolean carriedFirst) {
        try (Couple couple = couple()) {
            assertThat(exchange(couple, SMALL)).isEqualTo(VIA);
            RemoteMemory carried = target(couple);
            RemoteMemory opened = there(couple, "opened");
            Participant here = couple.here();
            here.add("host", Kind.FOREIGN, SMALL);
            here.write("host", 0, SMALL, opened).assertDone(SMALL);
            here.fill("gpu", 0, 2 * SMALL, 9);
            Transfer both =
                    carriedFirst
                            ? writeBoth(here, carried, opened)
                            : writeBoth(here, opened, carried);
            assertThat(Outcome.of(both).assertDone(2 * SMALL).path()).isEqualTo(VIA);
            couple.there().check(carriedFirst ? "gpu" : "opened", 0, SMALL, 9);
            assertThat(here.connection().explain()).doesNotContain("carries some only");
        }
    }

    /// Nobody knows whether a GPU that is lost still writes.
    @Test
    void theFarSideOfALostGpuIsNotKnown() {
        try (PeerProcess process = PeerProcess.start(jvmArguments(), Map.of())) {
            String found =
                    process.run(
                            unused -> {
                                try (Couple couple =
                                        Couple.open(o -> o.withTransports(List.of("shm")))
                                                .connect()) {
                                    Participant here = couple.here();
                                    here(couple, "gpu");
                                    RemoteMemory target = there(couple, "gpu", 1);
                                    here.write("gpu", 0, LARGE, target).assertDone(LARGE);
                                    FakeGpu.setFaults("run.cuMemcpyAsync:1:700:sticky");
                                    Outcome write = here.write("gpu", 0, LARGE, target);
                                    FakeGpu.setFaults("");
                                    return "%s %s: %s"
                                            .formatted(
                                                    write.state(),
                                                    write.remoteQuiet(),
                                                    write.error().getMessage());
                                }
                            });
            assertThat(found).startsWith("FAILED UNKNOWN").contains("path cuda-direct");
        }
    }

    /// On either leg: what the one in between does not carry goes by frames; after three times all
    /// that comes later.
    @ParameterizedTest
    @CsvSource({"cuMemcpyAsync:1:2", "cuMemcpyAsync:2:2"})
    void aRefusedCopyGoesByFrames(String fault) {
        try (Couple couple = couple()) {
            for (int life = 0; life < 4; life++) {
                couple.here().fill("gpu", 0, LARGE, life);
                FakeGpu.setFaults(life == 0 ? "" : fault);
                Outcome write =
                        couple.here().write("gpu", 0, LARGE, target(couple)).assertDone(LARGE);
                FakeGpu.setFaults("");
                couple.there().check("gpu", 0, LARGE, life);
                assertThat(write.path()).isEqualTo(life == 0 ? VIA : "shm-ring");
                if (life == 1) {
                    assertThat(couple.here().connection().explain()).contains("OUT_OF_MEMORY");
                    assertThat(couple.here().connection().refusals()).isEmpty();
                }
            }
            assertThat(exchange(couple, LARGE)).isEqualTo("shm-ring");
            assertThat(couple.here().connection().refusals())
                    .singleElement()
                    .satisfies(
                            refusal ->
                                    assertThat(refusal.reason())
                                            .contains(VIA, "cuMemcpyAsync", "OUT_OF_MEMORY"));
        }
    }

    /// Memory that is freed while a GPU copies from or to it would lose the fake's context.
    @Test
    void regionsCloseInTheMiddle() {
        try (Couple couple = couple()) {
            assertThat(exchange(couple, LARGE)).isEqualTo(VIA);
            FakeGpu.setDelay(20_000);
            Transfer first = write(couple, target(couple));
            couple.there().tell(self -> self.closeRegion("gpu"));
            if (Outcome.of(first).error() != null) {
                assertThat(first.error()).isInstanceOf(TelpherException.StaleRegion.class);
            }
            FakeGpu.setDelay(0);
            RemoteMemory again = there(couple, "again");
            couple.here().write("gpu", 0, LARGE, again).assertDone(LARGE);
            FakeGpu.setDelay(20_000);
            Transfer second = write(couple, again);
            couple.here().closeRegion("gpu");
            assertThat(second.state().isTerminal()).isTrue();
            FakeGpu.setDelay(0);
            couple.checkWorks();
        }
    }

    private static Transfer write(Couple couple, RemoteMemory target) {
        long copies = FakeGpu.copies();
        Transfer transfer =
                couple.here().connection().write(couple.here().region("gpu").all(), target);
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (FakeGpu.copies() == copies) {
            assertThat(System.nanoTime()).as("no copies begin").isLessThan(end);
            Thread.onSpinWait();
        }
        return transfer;
    }

    /// Runs two endpoints in a process of their own.
    ///
    /// @param faults what the driver does when windows have been opened once
    /// @return the path before, the path afterwards, the explanation, and how the transfer ended
    ///     that met the faults
    private static List<String> elsewhere(Map<String, String> variables, String faults) {
        try (PeerProcess process = PeerProcess.start(jvmArguments(), variables)) {
            return process.run(
                    unused -> {
                        try (Couple couple = couple()) {
                            String before = exchange(couple, LARGE);
                            FakeGpu.setFaults(faults);
                            couple.here().fill("gpu", 0, LARGE, 6);
                            Outcome write = couple.here().write("gpu", 0, LARGE, target(couple));
                            FakeGpu.setFaults("");
                            if (faults.isEmpty()) {
                                couple.there().check("gpu", 0, LARGE, 6);
                            }
                            couple.there().tell(self -> self.closeRegion("gpu"));
                            there(couple, "gpu");
                            String after = exchange(couple, LARGE);
                            return List.of(
                                    before,
                                    after,
                                    couple.here().connection().explain(),
                                    write.state() + " " + write.remoteQuiet());
                        }
                    });
        }
    }

    /// It takes along the transfers that it copied for: nobody knows whether it still writes. For
    /// regions that are opened later another one does it.
    @Test
    void theLossOfTheOneInBetweenIsSurvived() {
        List<String> found = elsewhere(APART, "run.cuMemcpyAsync:2:700:sticky");
        assertThat(found.subList(0, 2)).containsExactly(VIA, VIA);
        assertThat(found.get(2)).contains("CUDA_ERROR_ILLEGAL_ADDRESS");
        assertThat(found.get(3)).isEqualTo("FAILED UNKNOWN");
    }

    /// Without one that reaches both and is allowed: by frames.
    @ParameterizedTest
    @CsvSource({
        "'0-3,1-3,0-2', , 'path cuda-via-gpu: the driver has no peer access'",
        "0-3, NVL, 'path cuda-via-gpu: TELPHER_P2P_LEVEL=NVL, and the path through GPU'"
    })
    void whereNoneCarriesThemBytesGoByFrames(String refused, String level, String reason) {
        Map<String, String> variables = new HashMap<>();
        variables.put("FAKE_CUDA_DEVICES", "4");
        variables.put("FAKE_CUDA_REFUSE_PEERS", refused);
        if (level != null) {
            variables.put("TELPHER_P2P_LEVEL", level);
        }
        List<String> found = elsewhere(variables, "");
        assertThat(found.subList(0, 2)).containsExactly("shm-ring", "shm-ring");
        assertThat(found.get(2)).contains("path cuda-direct by", reason);
        assertThat(found.get(3)).isEqualTo("DONE YES");
    }
}
