package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// The endpoints of a full mesh that one process has: each connects with all that come after it in
/// the mesh, and is connected with by all before it, wherever those are.
final class MeshPart implements AutoCloseable {
    /// Bytes of each transfer, and of each place in a region that has one for every endpoint.
    private static final int SLOT = 3000;

    private static final String SLOTS = "slots";
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    /// Of a peer's process, between a test's tasks.
    private static @Nullable MeshPart kept;

    private final List<Member> members = new ArrayList<>();

    /// @param slots where each endpoint of the mesh writes to at a place of its own
    private record Member(int index, Endpoint endpoint, MemoryRegion slots) {}

    /// @param first the first endpoint's number in the mesh
    /// @param step from each endpoint's number to the next one's
    /// @param count endpoints of the whole mesh
    private MeshPart(TestPath path, int first, int step, int count) {
        EndpointOptions options =
                path.restrict(EndpointOptions.DEFAULTS).withLanes(1).withConnectDeadline(PATIENCE);
        try {
            for (int index = first; index < count; index += step) {
                Endpoint endpoint = Endpoint.open(options);
                MemoryRegion slots = endpoint.allocate((long) SLOT * count);
                members.add(new Member(index, endpoint, slots));
                endpoint.publish(SLOTS, slots);
            }
        } catch (Throwable e) {
            close();
            throw e;
        }
    }

    static MeshPart open(TestPath path, int first, int step, int count) {
        return new MeshPart(path, first, step, count);
    }

    /// Opens one that lasts until [#closeKept].
    static byte[][] openKept(TestPath path, int first, int step, int count) {
        kept = open(path, first, step, count);
        return kept.addresses();
    }

    static void runKept(byte[][] mesh) {
        assertThat(kept).isNotNull();
        kept.run(mesh);
    }

    static void closeKept() {
        assertThat(kept).isNotNull();
        kept.close();
        kept = null;
    }

    byte[][] addresses() {
        return members.stream().map(m -> m.endpoint.address().toBytes()).toArray(byte[][]::new);
    }

    /// Does this part's share: when all parts have, everybody has met everybody.
    ///
    /// @param mesh addresses of all endpoints
    void run(byte[][] mesh) {
        List<EndpointAddress> all = new ArrayList<>();
        for (byte[] address : mesh) {
            all.add(EndpointAddress.ofBytes(address));
        }
        try (ExecutorService executor =
                Executors.newFixedThreadPool(8, Thread.ofPlatform().daemon().factory())) {
            forEach(executor, member -> meet(member, all));
            forEach(executor, member -> receive(member, all));
        }
    }

    private void forEach(ExecutorService executor, Consumer<Member> task) {
        Peer.result(
                CompletableFuture.allOf(
                        members.stream()
                                .map(
                                        m ->
                                                CompletableFuture.runAsync(
                                                        () -> task.accept(m), executor))
                                .toArray(CompletableFuture[]::new)));
    }

    /// Connects with all after it, and writes to, reads from and sends to each of them.
    private static void meet(Member self, List<EndpointAddress> all) {
        try (MemoryRegion source = self.endpoint.allocate(SLOT);
                MemoryRegion copy = self.endpoint.allocate(SLOT)) {
            for (int other = self.index + 1; other < all.size(); other++) {
                Content.fill(source.segment(), 0, SLOT, content(self.index, other));
                Connection connection = self.endpoint.connect(all.get(other), PATIENCE);
                RemoteMemory target =
                        connection.lookup(SLOTS, PATIENCE).slice((long) SLOT * self.index, SLOT);
                Outcome.of(connection.write(source.all(), target)).assertDone(SLOT);
                copy.segment().fill((byte) 0);
                Outcome.of(connection.read(copy.all(), target)).assertDone(SLOT);
                Content.check(copy.segment(), 0, SLOT, content(self.index, other));
                Outcome.of(connection.send(1, source.all())).assertDone(SLOT);
                assertThat(connection.isOpen()).isTrue();
            }
        }
    }

    /// Receives what all before it have sent to it; what they had written is there by then.
    private static void receive(Member self, List<EndpointAddress> all) {
        try (MemoryRegion inbox = self.endpoint.allocate(SLOT)) {
            for (int i = 0; i < self.index; i++) {
                Connection connection = self.endpoint.accept(PATIENCE);
                inbox.segment().fill((byte) 0);
                Outcome.of(connection.receive(1, inbox.all())).assertDone(SLOT);
                long sender = connection.peer().incarnation();
                int from = 0;
                while (all.get(from).incarnation() != sender) {
                    from++;
                }
                Content.check(inbox.segment(), 0, SLOT, content(from, self.index));
                Content.check(
                        self.slots.segment(), (long) SLOT * from, SLOT, content(from, self.index));
            }
        }
    }

    private static long content(int from, int to) {
        return from * 1000L + to;
    }

    @Override
    public void close() {
        members.forEach(m -> m.endpoint.close());
    }
}
