package io.telpher.contract;

import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Many endpoints, each connected with every other one.
class MeshTest {
    private static final int COUNT = 64;

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_NONE, names = "CUDA_.*|VERBS")
    void sixtyFourEndpoints(TestPath path) {
        assumeDescriptors();
        warmUp(path);
        Resources before = Resources.now();
        try (MeshPart all = MeshPart.open(path, 0, 1, count())) {
            all.run(all.addresses());
        }
        before.awaitSame();
    }

    /// Those with even numbers here, those with odd numbers there, so that both sides connect.
    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_NONE, names = "SELF|CUDA_.*|VERBS")
    void sixtyFourEndpointsOfTwoProcesses(TestPath path) {
        assumeDescriptors();
        warmUp(path);
        int count = count();
        Resources here = Resources.now();
        try (Peer peer = new Setting(path, Place.TWO).startPeer()) {
            Resources there =
                    peer.run(
                            self -> {
                                warmUp(path);
                                return Resources.now();
                            });
            byte[][] odd = peer.run(self -> MeshPart.openKept(path, 1, 2, count));
            try (MeshPart part = MeshPart.open(path, 0, 2, count)) {
                byte[][] even = part.addresses();
                byte[][] mesh = new byte[count][];
                for (int i = 0; i < count; i++) {
                    mesh[i] = (i % 2 == 0 ? even : odd)[i / 2];
                }
                CompletableFuture<Boolean> other = peer.begin(self -> MeshPart.runKept(mesh));
                part.run(mesh);
                Peer.result(other);
            }
            peer.tell(
                    self -> {
                        MeshPart.closeKept();
                        there.awaitSame();
                    });
        }
        here.awaitSame();
    }

    private static int count() {
        return Math.min(COUNT, Math.max(4, Scale.count(COUNT)));
    }

    private static void assumeDescriptors() {
        assumeThat(mostDescriptors())
                .as("descriptors that 64 endpoints in one process need; raise ulimit -n")
                .isGreaterThan(18_000);
    }

    /// The JVM has raised its soft limit to the hard one.
    private static int mostDescriptors() {
        try (Stream<String> limits = Files.lines(Path.of("/proc/self/limits"))) {
            String line = limits.filter(l -> l.startsWith("Max open files")).findFirst().orElse("");
            String soft = line.replaceFirst("Max open files\\s+(\\S+).*", "$1");
            return soft.equals("unlimited") ? Integer.MAX_VALUE : Integer.parseInt(soft);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void warmUp(TestPath path) {
        try (Couple couple = Couple.open(path)) {
            couple.connect().checkWorks();
        }
    }
}
