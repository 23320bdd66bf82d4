package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Peers in containers: each with processes, IPC, mounts and a `/dev/shm` of its own.
class ContainersTest {
    /// A second as promised, and a second for two busy cores.
    private static final Duration NOTICE = Duration.ofSeconds(2);

    private static final int SIZE = 300_000;

    @TempDir Path folder;

    /// @param flags more namespaces of its own
    private static PeerProcess container(String... flags) {
        assumeTrue(
                "root".equals(System.getProperty("user.name"))
                        && Files.isExecutable(Path.of("/usr/bin/unshare")),
                "needs root and unshare of the package util-linux");
        assumeTrue(Attempt.WORKS, "no namespaces can be made, though this is root: a container?");
        List<String> command = new ArrayList<>(List.of("/usr/bin/unshare"));
        command.addAll(Arrays.asList(flags));
        command.addAll(
                List.of("--pid", "--ipc", "--mount", "--fork", "--kill-child", "--mount-proc"));
        command.addAll(List.of("sh", "-c", "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"", "sh"));
        // Both are process 1, and the JVM names a file in /tmp by that.
        return PeerProcess.start(
                List.of("-XX:-UsePerfData"), Map.of(), command.toArray(String[]::new));
    }

    /// Made once, when the first container is wanted.
    private static final class Attempt {
        static final boolean WORKS = works();

        private static boolean works() {
            try {
                return new ProcessBuilder(
                                        "/usr/bin/unshare",
                                        "--pid",
                                        "--ipc",
                                        "--mount",
                                        "--net",
                                        "true")
                                .redirectErrorStream(true)
                                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                                .start()
                                .waitFor()
                        == 0;
            } catch (IOException | InterruptedException e) {
                return false;
            }
        }
    }

    /// Connects two peers, moves bytes over the paths that are expected, and kills one.
    private static void check(
            PeerProcess a, PeerProcess b, Participant.Tweak options, String telpher, String other) {
        a.tell(self -> self.open(options));
        byte[] address = b.run(self -> self.open(options));
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        a.tell(self -> self.connect(address));
        Peer.result(accepted);
        a.add("source", Kind.FOREIGN, SIZE);
        for (Kind kind : List.of(Kind.TELPHER, Kind.FOREIGN)) {
            String expected = kind == Kind.TELPHER ? telpher : other;
            long seed = kind.ordinal() + 5L;
            a.fill("source", 0, SIZE, seed);
            byte[] target = b.add("target" + kind, kind, SIZE).toBytes();
            a.tell(self -> writeAndReadBack(self, target, expected, seed));
            b.check("target" + kind, 0, SIZE, seed);
        }
        String explained = a.run(self -> explain(self.connection()));
        assertThat(explained).contains(telpher, other);

        a.tell(self -> self.keep("r", self.connection().receive(1, self.slice("source", 0, 9))));
        long start = System.nanoTime();
        b.kill();
        Outcome outcome = a.outcome("r");
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(NOTICE);
        outcome.assertError(TelpherException.PeerLost.class);
    }

    private static void writeAndReadBack(
            Participant self, byte[] target, String expected, long seed) {
        RemoteMemory remote = RemoteMemory.ofBytes(target);
        Outcome write = self.write("source", 0, SIZE, remote).assertDone(SIZE);
        assertThat(write.path()).isEqualTo(expected);
        self.segment("source").fill((byte) 0);
        Outcome read =
                Outcome.of(self.connection().read(self.region("source").all(), remote))
                        .assertDone(SIZE);
        assertThat(read.path()).isEqualTo(expected);
        self.check("source", 0, SIZE, seed);
    }

    private static String explain(Connection connection) {
        return connection.explain();
    }

    /// Neither sees the other's processes, so the kernel does not copy between them.
    @Test
    void aSharedFolderIsEnoughForSharedMemory() {
        String sockets = folder.toString();
        try (PeerProcess a = container("--net");
                PeerProcess b = container("--net")) {
            check(a, b, o -> o.withSocketDirectory(sockets), "mapped", "shm-ring");
        }
    }

    @Test
    void aSharedNetworkIsEnoughForSharedMemory() {
        try (PeerProcess a = container();
                PeerProcess b = container()) {
            check(a, b, o -> o, "mapped", "shm-ring");
        }
    }
}
