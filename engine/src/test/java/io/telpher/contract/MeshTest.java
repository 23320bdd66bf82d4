package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.Transfer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Many endpoints, each connected with every other one.
class MeshTest {
    private static final int COUNT = 64;
    private static final int SLOT = 3000;

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_NONE, names = "CUDA_.*|VERBS")
    void sixtyFourEndpoints(TestPath path) {
        int count = Math.min(COUNT, Math.max(4, Scale.count(COUNT)));
        assumeThat(mostDescriptors())
                .as("descriptors that 64 endpoints in one process need; raise ulimit -n")
                .isGreaterThan(18_000);
        warmUp(path);
        Resources before = Resources.now();
        List<Endpoint> endpoints = new ArrayList<>();
        // One thread each for dialling and accepting, as separate processes would have.
        try (ExecutorService executor =
                Executors.newFixedThreadPool(8, Thread.ofPlatform().daemon().factory())) {
            EndpointOptions options =
                    path.restrict(EndpointOptions.DEFAULTS)
                            .withLanes(1)
                            .withConnectDeadline(Duration.ofSeconds(60));
            try {
                for (int i = 0; i < count; i++) {
                    endpoints.add(Endpoint.open(options));
                }
                run(executor, count, i -> meet(endpoints, i));
                run(executor, count, i -> receive(endpoints, i));
            } finally {
                endpoints.forEach(Endpoint::close);
            }
        }
        before.awaitSame();
    }

    /// The JVM has raised its soft limit to the hard one.
    private static int mostDescriptors() {
        try (java.util.stream.Stream<String> limits =
                java.nio.file.Files.lines(java.nio.file.Path.of("/proc/self/limits"))) {
            String line = limits.filter(l -> l.startsWith("Max open files")).findFirst().orElse("");
            String soft = line.replaceFirst("Max open files\\s+(\\S+).*", "$1");
            return soft.equals("unlimited") ? Integer.MAX_VALUE : Integer.parseInt(soft);
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static void warmUp(TestPath path) {
        try (Couple couple = Couple.open(path)) {
            couple.connect().checkWorks();
        }
    }

    private static void run(
            ExecutorService executor, int count, java.util.function.IntConsumer task) {
        CompletableFuture<?>[] all =
                IntStream.range(0, count)
                        .mapToObj(i -> CompletableFuture.runAsync(() -> task.accept(i), executor))
                        .toArray(CompletableFuture[]::new);
        Peer.result(CompletableFuture.allOf(all));
    }

    /// Connects one endpoint with all after it, and writes to, reads from and sends to each of
    /// them.
    private static void meet(List<Endpoint> endpoints, int index) {
        Endpoint self = endpoints.get(index);
        try (MemoryRegion source = self.allocate(SLOT);
                MemoryRegion copy = self.allocate(SLOT)) {
            Content.fill(source.segment(), 0, SLOT, index);
            for (int other = index + 1; other < endpoints.size(); other++) {
                Endpoint peer = endpoints.get(other);
                Connection connection = self.connect(peer.address(), Duration.ofSeconds(60));
                try (MemoryRegion target = peer.allocate(SLOT)) {
                    Transfer write = connection.write(source.all(), target.remote());
                    Outcome.of(write).assertDone(SLOT);
                    Content.check(target.segment(), 0, SLOT, index);
                    copy.segment().fill((byte) 0);
                    Outcome.of(connection.read(copy.all(), target.remote())).assertDone(SLOT);
                    Content.check(copy.segment(), 0, SLOT, index);
                }
                Outcome.of(connection.send(1, source.all())).assertDone(SLOT);
                assertThat(connection.isOpen()).isTrue();
            }
        }
    }

    /// Receives what all endpoints before one have sent to it.
    private static void receive(List<Endpoint> endpoints, int index) {
        Endpoint self = endpoints.get(index);
        try (MemoryRegion inbox = self.allocate(SLOT)) {
            for (int i = 0; i < index; i++) {
                Connection connection = self.accept(Duration.ofSeconds(60));
                Outcome.of(connection.receive(1, inbox.all())).assertDone(SLOT);
                long sender = connection.peer().incarnation();
                int from = 0;
                while (endpoints.get(from).address().incarnation() != sender) {
                    from++;
                }
                Content.check(inbox.segment(), 0, SLOT, from);
            }
        }
    }
}
