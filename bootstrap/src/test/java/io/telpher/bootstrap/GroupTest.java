package io.telpher.bootstrap;

import static io.telpher.bootstrap.Fixtures.SOON;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.lang.foreign.MemorySegment;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// Groups of real processes at the embedded server.
class GroupTest {
    private static final Duration LEASE = Duration.ofMillis(800);

    /// Within this 64 ranks are up, or two processors are busy: how long the work takes is the
    /// machine's affair (docs/bootstrap.md).
    private static final Duration UP = Duration.ofSeconds(3);

    private static final Duration MOST_IDLE = Duration.ofSeconds(1);

    /// Several times the processor time that it takes: what each rank did for each other one would
    /// take more.
    private static final Duration MOST_WORK = Duration.ofSeconds(30);

    private final List<AutoCloseable> open = new ArrayList<>();

    @AfterEach
    void closeAll() throws Exception {
        for (AutoCloseable one : open.reversed()) {
            one.close();
        }
    }

    private <T extends AutoCloseable> T opened(T one) {
        open.add(one);
        return one;
    }

    private Child child(URI server, int first, int here, int world, Duration lease) {
        return opened(
                Child.java(GroupMain.class, server, "j", first, here, world, lease.toMillis()));
    }

    private static URI uri(int port) {
        return URI.create("tcp://127.0.0.1:" + port);
    }

    private Group group(Endpoint endpoint, URI server, int rank, int world) {
        RendezvousOptions options =
                RendezvousOptions.of(server, "j", Fixtures.secret()).withLease(LEASE);
        return opened(Group.join(endpoint, Rendezvous.open(options), rank, world, SOON));
    }

    @Test
    void sixtyFourRanksInFourProcesses() {
        RendezvousServer server =
                opened(RendezvousServer.listen(Fixtures.freePort(), Fixtures.secret()));
        List<Child> children = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            children.add(child(uri(server.port()), 16 * i, 16, 64, Duration.ofSeconds(20)));
        }
        children.forEach(child -> assertThat(child.hear()).isEqualTo("ready"));
        Duration used = processorTime(children);
        Duration idle = Processors.idle();
        long start = System.nanoTime();
        timeOf("join", children);
        timeOf("barrier all", children);
        used = processorTime(children).minus(used);
        idle = Processors.idle().minus(idle);
        Duration clock = Duration.ofNanos(System.nanoTime() - start);
        System.out.printf(
                "64 ranks in 4 processes, up: %d ms, %d ms of processors, each idle for %d ms%n",
                clock.toMillis(), used.toMillis(), idle.toMillis());
        if (clock.compareTo(UP) > 0) {
            assertThat(idle).as("time that a processor had no work").isLessThan(MOST_IDLE);
        }
        assertThat(used).as("processor time").isLessThan(MOST_WORK);
        timeOf("connect", children); // of the full mesh nothing is promised but its deadline
        timeOf("check", children);
        children.forEach(child -> child.say("end"));
        children.forEach(child -> assertThat(child.hear()).isEqualTo("ended"));
        children.forEach(child -> assertThat(child.awaitEnd()).isZero());
    }

    /// That of the server, which is in this process, too.
    private static Duration processorTime(List<Child> children) {
        return children.stream()
                .map(Child::processorTime)
                .reduce(
                        ProcessHandle.current().info().totalCpuDuration().orElseThrow(),
                        Duration::plus);
    }

    private static Duration timeOf(String command, List<Child> children) {
        long begin = System.nanoTime();
        children.forEach(child -> child.say(command));
        children.forEach(child -> assertThat(child.hear()).startsWith("ok "));
        Duration time = Duration.ofNanos(System.nanoTime() - begin);
        System.out.printf("64 ranks in 4 processes, %s: %d ms%n", command, time.toMillis());
        return time;
    }

    @Test
    void killedRankIsReachedAgainAfterItsRestart() {
        RendezvousServer server =
                opened(RendezvousServer.listen(Fixtures.freePort(), Fixtures.secret()));
        URI uri = uri(server.port());
        Child neighbour = child(uri, 1, 1, 3, LEASE);
        Child first = child(uri, 2, 1, 3, LEASE);
        for (Child child : List.of(neighbour, first)) {
            child.say("join");
            child.say("connect");
        }
        Endpoint endpoint = opened(Endpoint.open());
        Group self = group(endpoint, uri, 0, 3);
        self.connectAll(SOON);
        for (Child child : List.of(neighbour, first)) {
            assertThat(child.hear()).isEqualTo("ready");
            assertThat(child.hear()).startsWith("ok ");
            assertThat(child.hear()).startsWith("ok ");
        }
        Connection old = self.connection(2);
        Watch watch = self.watch();
        Member before = ((RendezvousEvent.Snapshot) watch.next(SOON)).members().get(2);
        first.kill();
        Child second = child(uri, 2, 1, 3, LEASE);
        second.say("join");
        second.say("connect");
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Lost.class);
        Member after = ((RendezvousEvent.Joined) watch.next(SOON)).member();
        assertThat(after.incarnation()).isNotEqualTo(before.incarnation());
        assertThat(after.epoch()).isGreaterThan(before.epoch());
        Connection fresh = self.connection(2, SOON);
        assertThat(fresh).isNotSameAs(old);
        assertThat(fresh.peer().incarnation()).isEqualTo(after.incarnation());
        assertThat(old.isOpen()).isFalse();
        assertThat(second.hear()).isEqualTo("ready");
        assertThat(second.hear()).startsWith("ok ");
        assertThat(second.hear()).startsWith("ok ");
        fresh.notifyPeer(MemorySegment.ofArray("again".getBytes(StandardCharsets.UTF_8))).await();
        second.say("hear 0");
        assertThat(second.hear()).isEqualTo("again");
        second.say("tell 1 hello");
        assertThat(second.hear()).startsWith("ok ");
        neighbour.say("hear 2");
        assertThat(neighbour.hear()).isEqualTo("hello");
    }

    @Test
    void deadServerLeavesConnectionsAlone() {
        int port = Fixtures.freePort();
        Child server = opened(Child.java(ServerMain.class, port));
        assertThat(server.hear()).isEqualTo("listening " + port);
        Endpoint one = opened(Endpoint.open());
        Endpoint two = opened(Endpoint.open());
        Future<Group> other = Fixtures.start(() -> group(two, uri(port), 1, 2));
        Group self = group(one, uri(port), 0, 2);
        Group peer = Fixtures.result(other);
        Future<Boolean> connected =
                Fixtures.start(
                        () -> {
                            peer.connectAll(SOON);
                            return true;
                        });
        self.connectAll(SOON);
        assertThat(Fixtures.result(connected)).isTrue();
        server.kill();
        long begin = System.nanoTime();
        assertThatThrownBy(() -> self.barrier("b", Duration.ofSeconds(2)))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("127.0.0.1:" + port);
        assertThat(Duration.ofNanos(System.nanoTime() - begin))
                .as("barrier of 2 s")
                .isLessThan(Duration.ofSeconds(2).plus(Fixtures.BUSY));
        // Leases would have ended twice by now.
        MemoryRegion source = opened(one.allocate(100));
        MemoryRegion target = opened(two.allocate(100));
        source.segment().fill((byte) 7);
        self.connection(1).write(source.all(), target.remote()).await();
        assertThat(target.segment().mismatch(source.segment())).isEqualTo(-1);
        assertThat(peer.connection(0).isOpen()).isTrue();
        assertThat(self.members()).hasSize(2);
    }

    /// Rank 0 serves, passes the last barrier first or last, and leaves at once.
    @Test
    void launchedRanksMissNothingWhenRankZeroEnds() {
        Map<String, String> variables =
                Map.of(
                        "WORLD_SIZE", "4",
                        "MASTER_ADDR", "127.0.0.1",
                        "MASTER_PORT", "" + (Fixtures.freePort() - 1));
        List<Child> children = new ArrayList<>();
        for (int rank = 0; rank < 4; rank++) {
            java.util.HashMap<String, String> own = new java.util.HashMap<>(variables);
            own.put("RANK", "" + rank);
            children.add(
                    opened(
                            Child.java(
                                    own, System.getProperty("java.class.path"), GroupMain.class)));
        }
        for (Child child : children) {
            child.say("join");
            child.say("check");
            child.say("barrier last");
            child.say("end");
        }
        for (Child child : children) {
            assertThat(child.hear()).isEqualTo("ready");
            assertThat(child.hear()).startsWith("ok ");
            assertThat(child.hear()).startsWith("ok ");
            assertThat(child.hear()).as("the last barrier").startsWith("ok ");
            assertThat(child.hear()).isEqualTo("ended");
            assertThat(child.awaitEnd()).isZero();
        }
    }

    /// The others need not wait for its lease.
    @Test
    void anInterruptedJoinLeavesInGoodOrder() {
        RendezvousServer server =
                opened(RendezvousServer.listen(Fixtures.freePort(), Fixtures.secret()));
        RendezvousOptions options =
                RendezvousOptions.of(uri(server.port()), "j", Fixtures.secret());
        Watch watch = opened(Rendezvous.open(options)).watch();
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Snapshot.class);
        Endpoint endpoint = opened(Endpoint.open());
        FutureTask<Group> join =
                new FutureTask<>(() -> Group.join(endpoint, Rendezvous.open(options), 0, 2, SOON));
        Thread joining = Thread.ofPlatform().daemon().start(join);
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Joined.class);
        joining.interrupt();
        assertThatThrownBy(() -> Fixtures.result(join))
                .isInstanceOf(TelpherException.Cancelled.class);
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Left.class);
    }

    /// Such as that a job's snapshot is longer than a notification may be.
    @Test
    void whatTheServerCannotAnswerIsRefusedAndOthersAreServed() {
        RendezvousServer server =
                opened(
                        RendezvousServer.listen(
                                RendezvousServer.control(EndpointOptions.DEFAULTS)
                                        .withPort(Fixtures.freePort())
                                        .withSecret(Fixtures.secret())
                                        .withMaxNotification(1000)));
        URI uri = uri(server.port());
        TcpStore store = opened(new TcpStore(uri, Fixtures.secret()));
        for (int rank = 0; rank < 20; rank++) {
            Request announce =
                    new Request.Announce("large", rank, 21, 100 + rank, 0, 600_000, new byte[100]);
            assertThat(store.call(announce, Deadline.in(SOON))).isInstanceOf(Answer.Ok.class);
        }
        Rendezvous last =
                opened(Rendezvous.open(RendezvousOptions.of(uri, "large", Fixtures.secret())));
        assertThatThrownBy(() -> last.join(20, 21, Fixtures.address(), Duration.ofSeconds(3)))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("is above the limit of 1000");
        assertThat(group(opened(Endpoint.open()), uri, 0, 1).members()).hasSize(1);
    }

    @Test
    void answersMayBeLongHoweverShortTheRanksWantTheirs() {
        EndpointOptions small = EndpointOptions.DEFAULTS.withMaxNotification(64);
        assertThat(RendezvousServer.control(small).maxNotification())
                .isEqualTo(EndpointOptions.DEFAULTS.maxNotification());
    }

    @Test
    void strangersCostTheServerNothing() {
        RendezvousServer server =
                opened(RendezvousServer.listen(Fixtures.freePort(), Fixtures.secret()));
        Endpoint endpoint = opened(Endpoint.open());
        // Somebody with the secret, and nonsense to say.
        Connection nonsense =
                endpoint.connect(
                        io.telpher.EndpointAddress.of(
                                "127.0.0.1", server.port(), Fixtures.secret()));
        nonsense.notifyPeer(MemorySegment.ofArray(new byte[] {1, 99, 3}));
        assertThatThrownBy(() -> nonsense.awaitNotification(SOON))
                .isInstanceOf(TelpherException.PeerLost.class);
        Group self = group(endpoint, uri(server.port()), 0, 1);
        assertThat(self.members()).hasSize(1);
        assertThatThrownBy(() -> self.connection(0)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> RendezvousServer.listen(server.port(), Fixtures.secret()))
                .isInstanceOf(TelpherException.class)
                .hasMessageContaining("" + server.port());
    }
}
