package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Two GPUs are tried, by a child process, before they copy from and to each other's memory. The
/// driver is a fake one, which can be made to damage bytes, or never to end, while it says that all
/// is well.
class GpuProbeTest {
    private static final int SIZE = 300_000;

    @TempDir Path cache;

    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeBuilt();
    }

    private PeerProcess start(int seconds, Map<String, String> variables) {
        List<String> flags = new ArrayList<>(FakeGpu.jvmArguments());
        flags.add("-Dtelpher.cuda.probe=1");
        flags.add("-Dtelpher.cuda.probe.seconds=" + seconds);
        Map<String, String> environment = new HashMap<>(variables);
        environment.put("XDG_CACHE_HOME", cache.toString());
        PeerProcess peer = PeerProcess.start(flags, environment);
        // A third GPU, that none of them uses, wants to be asked for; the list is no other limit.
        List<String> paths = List.of("cuda-cumem", "cuda-via-gpu", "mapped", "shm-ring");
        peer.tell(
                self ->
                        self.open(
                                options ->
                                        options.withTransports(List.of("shm")).withPaths(paths)));
        return peer;
    }

    /// Writes from GPU 0 of one process to GPU 1 of another until one goes this way and the
    /// initiator explains why; every write must arrive.
    ///
    /// @return the explanation
    private String writeUntil(
            String path, String explained, int seconds, Map<String, String> variables) {
        try (PeerProcess here = start(seconds, variables);
                PeerProcess there = start(seconds, variables)) {
            byte[] target = prepare(here, there);
            long end = System.nanoTime() + 3 * Participant.LIMIT.toNanos();
            for (long seed = 0; ; seed++) {
                Outcome outcome = write(here, there, target, seed);
                String text = here.run(self -> self.connection().explain());
                if (outcome.path().equals(path) && text.contains(explained)) {
                    return text + here.run(self -> Runtimes.keptTrials().toString());
                }
                assertThat(System.nanoTime()).as(text).isLessThan(end);
            }
        }
    }

    /// Connects the two, and gives each memory of a GPU of its own.
    ///
    /// @return the target's
    private static byte[] prepare(PeerProcess here, PeerProcess there) {
        byte[] address = there.run(self -> self.endpoint().address().toBytes());
        var accepted = there.begin(Participant::accept);
        here.tell(self -> self.connect(address));
        Peer.result(accepted);
        here.tell(self -> self.keep("gpu", allocate(self, 0), Participant.arena()));
        return there.run(
                self ->
                        self.keep("gpu", allocate(self, 1), Participant.arena())
                                .remote()
                                .toBytes());
    }

    private static Outcome write(PeerProcess here, PeerProcess there, byte[] target, long seed) {
        here.fill("gpu", 0, SIZE, seed);
        Outcome outcome =
                here.run(self -> self.write("gpu", 0, SIZE, RemoteMemory.ofBytes(target)));
        outcome.assertDone(SIZE);
        there.check("gpu", 0, SIZE, seed);
        return outcome;
    }

    private static MemoryRegion allocate(Participant self, int device) {
        return allocate(self, device, SIZE);
    }

    static MemoryRegion allocate(Participant self, int device, int bytes) {
        return self.endpoint().allocate(Device.list().get(device), bytes, Access.READ_WRITE);
    }

    private List<String> kept() throws IOException {
        List<String> texts = new ArrayList<>();
        try (Stream<Path> files = Files.list(cache.resolve("telpher"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".probe")).toList()) {
                texts.add(Files.readString(file));
            }
        }
        return texts;
    }

    /// Staged until the child has ended; the next process knows at once.
    @Test
    void goodPairsAreUsedAfterATrial() throws IOException {
        String first = writeUntil("cuda-cumem", "a child process tries", 60, Map.of());
        assertThat(first).doesNotContain("does not work").contains("good=true, found=good]");
        assertThat(kept()).containsExactly("good");
        String second = writeUntil("cuda-cumem", "", 60, Map.of());
        assertThat(second).doesNotContain("a child process tries");
    }

    /// The folder may be another machine's, too: its files stay, and keep nothing else from being
    /// kept.
    @Test
    void pairsThatDamageBytesAreRefused() throws IOException {
        Path elsewhere = cache.resolve("telpher").resolve("peers-elsewhere-1-2-3.lock");
        Files.createDirectories(elsewhere.resolve("held"));
        String found =
                writeUntil(
                        "shm-ring",
                        "a trial has shown that it does not work",
                        60,
                        Map.of("FAKE_CUDA_CORRUPT_PEERS", "0-1"));
        assertThat(found)
                .contains("arrives as")
                .containsPattern("processes that start after .*\\.probe was removed")
                .containsPattern("KeptTrial\\[one=\\S+00, other=\\S+01, file=\\S+, good=false, ");
        assertThat(kept()).singleElement().asString().contains("arrives as");
        assertThat(elsewhere.resolve("held")).exists();
    }

    /// A third GPU carries their bytes, once it has been tried with both.
    @Test
    void whereATrialFailsAThirdGpuCopies() throws IOException {
        String found =
                writeUntil(
                        "cuda-via-gpu",
                        "carries bytes between",
                        60,
                        Map.of("FAKE_CUDA_DEVICES", "3", "FAKE_CUDA_CORRUPT_PEERS", "0-1"));
        assertThat(found).contains("path cuda-cumem by", "a trial has shown that it does not work");
        assertThat(kept()).hasSize(3).filteredOn("good"::equals).hasSize(2);
    }

    /// A driver that takes the child along has said nothing of what would arrive: the pair is
    /// tried again later, and bytes are staged meanwhile.
    @Test
    void aDriverThatCrashesTakesTheChildAloneAndIsNoVerdict() throws IOException {
        Map<String, String> crashes = Map.of("FAKE_CUDA_CRASH_PEERS", "0-1");
        try (PeerProcess here = start(60, crashes);
                PeerProcess there = start(60, crashes)) {
            ProcessHandle initiator = ProcessHandle.of(here.pid()).orElseThrow();
            CompletableFuture<Void> crash =
                    CompletableFuture.runAsync(
                            () -> {
                                awaitChild(initiator, true);
                                awaitChild(initiator, false);
                            });
            byte[] target = prepare(here, there);
            write(here, there, target, 1);
            crash.join();
            Outcome after = write(here, there, target, 2);
            assertThat(after.path()).isEqualTo("shm-ring");
            String explained = here.run(self -> self.connection().explain());
            assertThat(explained).contains("a child process tries").doesNotContain("does not work");
        }
        assertThat(kept()).isEmpty();
    }

    private static void awaitChild(ProcessHandle parent, boolean alive) {
        await().atMost(Participant.LIMIT)
                .pollInterval(Duration.ofMillis(10))
                .until(() -> parent.descendants().findAny().isPresent() == alive);
    }

    @Test
    void pairsThatHangAreRefused() {
        String found =
                writeUntil(
                        "shm-ring",
                        "a trial has shown that it does not work",
                        6,
                        Map.of("FAKE_CUDA_HANG_PEERS", "0-1"));
        assertThat(found).contains("did not end within 6 s");
    }
}
