package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.transport.verbs.FakeObjects.Channel;
import io.telpher.internal.transport.verbs.FakeObjects.Context;
import io.telpher.internal.transport.verbs.FakeObjects.Cq;
import io.telpher.internal.transport.verbs.FakeObjects.Domain;
import io.telpher.internal.transport.verbs.FakeObjects.Qp;
import io.telpher.internal.transport.verbs.FakeObjects.Region;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// What goes wrong with devices, links and calls, on the double: who notices, what it says, and
/// that nothing is left behind. Bytes go through the rings, unless a test says otherwise;
/// [VerbsWindowsTest] is about those that do not.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsFaultsTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = 32 << 20;
    private static final FakeVerbs VERBS = FakeVerbs.HERE;

    private static final List<String> RINGS = List.of("verbs-ring");
    static final List<String> ALL = List.of();

    static final EndpointOptions OPTIONS =
            EndpointOptions.DEFAULTS
                    .withTransports(List.of(VerbsTransport.NAME))
                    .withDeadline(LIMIT)
                    .withConnectDeadline(LIMIT);

    /// Calls that end something, each with what is left when it fails: the thing, and all that it
    /// uses.
    private static final Map<String, Set<Class<?>>> ENDING =
            Map.of(
                    "ibv_close_device", Set.of(Context.class),
                    "ibv_dealloc_pd", Set.of(Context.class, Domain.class),
                    "ibv_dereg_mr", Set.of(Context.class, Domain.class, Region.class),
                    "ibv_destroy_comp_channel", Set.of(Context.class, Domain.class, Channel.class),
                    "ibv_destroy_cq", Set.of(Context.class, Domain.class, Channel.class, Cq.class),
                    "ibv_destroy_qp",
                            Set.of(
                                    Context.class,
                                    Domain.class,
                                    Region.class,
                                    Channel.class,
                                    Cq.class,
                                    Qp.class));

    /// What ports are asked for is asked again when it is needed.
    private static final List<String> ASKED = List.of("ibv_query_gid_table", "ibv_query_port");

    /// Without the bytes that requests carry themselves a lane works, too.
    private static final String OPTIONAL = "ibv_create_qp";

    /// Calls that a lane makes once it is there: the lane ends, and the rail has another one.
    private static final List<String> CARRYING =
            List.of(
                    "ibv_get_cq_event",
                    "ibv_poll_cq",
                    "ibv_post_recv",
                    "ibv_post_send",
                    "ibv_req_notify_cq");

    /// Two endpoints and a connection.
    static final class Couple implements AutoCloseable {
        final Endpoint here;
        final Endpoint there;
        final Connection connection;
        final Connection accepted;

        /// @param paths that bytes may go; empty for all
        Couple(List<String> paths) {
            this(paths, VERBS);
        }

        /// @param theirs the provider of the side that is connected to
        Couple(List<String> paths, Provider theirs) {
            this(paths, VERBS, theirs);
        }

        Couple(List<String> paths, Provider near, Provider far) {
            this(OPTIONS.withPaths(paths), near, far);
        }

        Couple(EndpointOptions options, Provider near, Provider far) {
            this(() -> FakeVerbs.open(options, near), () -> FakeVerbs.open(options, far));
        }

        /// @param settings variables of both
        Couple(Map<String, String> settings, Provider near, Provider far) {
            this(
                    () -> FakeVerbs.open(OPTIONS, near, settings),
                    () -> FakeVerbs.open(OPTIONS, far, settings));
        }

        private Couple(Supplier<Endpoint> near, Supplier<Endpoint> far) {
            here = near.get();
            boolean made = false;
            Endpoint other = null;
            try {
                other = far.get();
                there = other;
                Endpoint accepting = other;
                CompletableFuture<Connection> incoming =
                        CompletableFuture.supplyAsync(() -> accepting.accept(LIMIT));
                connection = here.connect(there.address(), LIMIT);
                accepted = incoming.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
                made = true;
            } catch (InterruptedException | ExecutionException | TimeoutException e) {
                throw new AssertionError(e);
            } finally {
                if (!made) {
                    if (other != null) {
                        other.close();
                    }
                    here.close();
                }
            }
        }

        @Override
        public void close() {
            here.close();
            there.close();
        }
    }

    /// A write that is under way.
    private record Write(MemoryRegion source, MemoryRegion target, Transfer transfer) {
        static Write start(Couple couple, int bytes) {
            MemoryRegion source = couple.here.allocate(bytes, Access.READ_WRITE);
            MemoryRegion target = couple.there.allocate(bytes, Access.READ_WRITE);
            for (int i = 0; i < bytes; i += 4093) {
                source.segment().set(JAVA_BYTE, i, (byte) (i * 31));
            }
            return new Write(
                    source,
                    target,
                    couple.connection.write(source.slice(0, bytes), target.remote()));
        }

        TransferState end() {
            assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
            return transfer.state();
        }

        void assertDone() {
            assertThat(end()).isEqualTo(TransferState.DONE);
            assertThat(source.segment().mismatch(target.segment())).isEqualTo(-1);
        }
    }

    @Test
    void allRailsAreUsed() {
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, BYTES).assertDone();
            assertThat(couple.connection.explain())
                    .contains("fake0/1 10.77.0.1", "fake1/1 10.77.1.1");
            assertThat(couple.connection.metrics().lanes())
                    .hasSize(3)
                    .allSatisfy(lane -> assertThat(lane.alive()).isTrue());
        }
    }

    /// Every call that is made from the opening of the endpoints to their end fails once. It costs
    /// nothing, a lane, or all, and then the exception names it.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void everyCallThatFailsIsNamedAndLeavesNothing(boolean rings) {
        List<String> paths = rings ? RINGS : ALL;
        VERBS.removeDevice("fake1");
        assertThat(attempt(paths)).isNull();
        Set<String> verbs = new TreeSet<>(VERBS.called());
        assertThat(verbs).hasSizeGreaterThan(20);
        List<String> survived = new ArrayList<>();
        for (String verb : verbs) {
            VERBS.reset();
            VERBS.removeDevice("fake1");
            VERBS.failNext(verb, Errno.EIO);
            String failure = attempt(paths);
            assertThat(VERBS.unfailed()).as(verb).isEmpty();
            assertThat(VERBS.misuses()).as(verb).isEmpty();
            Set<Class<?>> due = ENDING.getOrDefault(verb, Set.of());
            Set<Class<?>> left = awaitLeft(due);
            if (rings) {
                assertThat(left).as(verb).isEqualTo(due);
            } else {
                // Queue pairs of one-sided transfers own no memory, and regions are tried again.
                assertThat(due).as(verb).containsAll(left);
            }
            VERBS.forgetAll();
            if (failure == null) {
                survived.add(verb);
            } else {
                assertThat(failure).contains(verb, "EIO");
            }
        }
        assertThat(survived).containsAll(ENDING.keySet()).contains(OPTIONAL);
        survived.removeAll(ENDING.keySet());
        survived.removeAll(ASKED);
        survived.remove(OPTIONAL);
        assertThat(CARRYING).as("what the other lane survives").containsAll(survived);
    }

    /// Waits for threads that end later than their endpoint.
    ///
    /// @return the kinds of what is left
    private static Set<Class<?>> awaitLeft(Set<Class<?>> due) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            Set<Class<?>> left =
                    VERBS.left().stream().map(Object::getClass).collect(Collectors.toSet());
            if (due.containsAll(left) || System.nanoTime() > end) {
                return left;
            }
            Thread.onSpinWait();
        }
    }

    /// @return how a connection or a transfer failed, as both sides see it, or null
    private static String attempt(List<String> paths) {
        try (Couple couple = new Couple(paths)) {
            Write write = Write.start(couple, 1 << 20);
            if (write.end() == TransferState.DONE) {
                Thread.sleep(100); // idle lanes park, and are woken
                write = Write.start(couple, 1000);
            }
            return write.end() == TransferState.DONE
                    ? null
                    : couple.connection.failure() + "; " + couple.accepted.failure();
        } catch (TelpherException e) {
            return e.toString();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void refusedMemoryNamesTheLimit() {
        VERBS.removeDevice("fake1");
        VERBS.failNext("ibv_reg_mr", Errno.ENOMEM);
        assertThat(attempt(RINGS)).contains("ibv_reg_mr", "RLIMIT_MEMLOCK is ", "ulimit -l");
    }

    /// The provider's buffers of queues are pinned, too. Without inline data nothing is tried
    /// again.
    @Test
    void refusedQueuesNameTheLimit() {
        VERBS.removeDevice("fake1");
        for (String method : List.of("createCq", "createQp")) {
            String verb = "ibv_create_" + method.substring(6).toLowerCase(Locale.ROOT);
            Provider refusing =
                    Altered.provider(
                            VERBS,
                            method,
                            (usual, arguments) -> {
                                throw Errno.failure(Errno.ENOMEM, verb);
                            });
            try (Endpoint here = FakeVerbs.open(OPTIONS, refusing);
                    Endpoint there = FakeVerbs.open(OPTIONS, VERBS)) {
                assertThat(refusal(here, there))
                        .hasMessageContaining(verb)
                        .hasMessageContaining("ENOMEM")
                        .hasMessageContaining("for a lane (1056 send and 1088 receive requests)")
                        .hasMessageContaining("RLIMIT_MEMLOCK is ")
                        .hasMessageContaining("ulimit -l");
            }
        }
    }

    @Test
    void anotherRailTakesOverFromASilentOne() {
        try (Couple couple = new Couple(RINGS)) {
            Write write = Write.start(couple, BYTES);
            VERBS.silence("fake0", true);
            write.assertDone();
            Write.start(couple, BYTES).assertDone();
            assertThat(couple.connection.metrics().lanes())
                    .anySatisfy(lane -> assertThat(lane.alive()).isFalse());
            VERBS.silence("fake0", false);
        }
    }

    /// Its port is up, and handshakes go another way.
    @Test
    void aRailThatCarriesNothingIsNotTaken() throws InterruptedException {
        VERBS.silence("fake1", true);
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, BYTES).assertDone();
            awaitSaid(couple, "fake1/1 10.77.1.1: the first packet to 10.77.1.1 came to nothing");
            assertThat(couple.connection.metrics().lanes())
                    .hasSize(2)
                    .allSatisfy(lane -> assertThat(lane.alive()).isTrue());
        }
    }

    /// The device repeats it when its time-out is over, and that is longer than the proof may take.
    @Test
    void aLostPacketFailsNoWay() {
        VERBS.port("fake0").losesFirst = true;
        VERBS.port("fake1").losesFirst = true;
        try (Couple couple = new Couple(RINGS)) {
            // Those beside the first may take longer than `connect` waits for them.
            long end = System.nanoTime() + LIMIT.toNanos();
            while (couple.connection.metrics().lanes().size() < 3 && System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            Write.start(couple, BYTES).assertDone();
            assertThat(couple.connection.metrics().lanes())
                    .hasSize(3)
                    .allSatisfy(lane -> assertThat(lane.alive()).isTrue());
        }
    }

    /// Packets of the port's MTU do not leave one side: its peer's do arrive.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void eachDirectionIsProven(boolean initiator) {
        VERBS.addDevice("fake2", FakeVerbs.gid(3, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, 0, 2));
        try (Endpoint here = FakeVerbs.open(OPTIONS, FakeVerbs.only("fake0"));
                Endpoint there = FakeVerbs.open(OPTIONS, FakeVerbs.only("fake2"))) {
            VERBS.port(initiator ? "fake0" : "fake2").narrow = 1500;
            assertThat(refusal(here, there))
                    .hasMessageContaining(
                            initiator
                                    ? "fake0/1 10.77.0.1: the first packet to 10.77.0.2 came to"
                                    : "the peer says: fake2/1 10.77.0.2: the first packet to");
        }
    }

    /// The port is down, and has another place in its table for its address when it comes back.
    @Test
    void aLaneComesBackWithItsPort() throws InterruptedException {
        try (Couple couple = new Couple(RINGS)) {
            // Not the one that connected first, which has two lanes.
            int rail = couple.connection.explain().contains("lane 0 (verbs-ring fake0") ? 1 : 0;
            FakeObjects.FakePort port = VERBS.port("fake" + rail);
            port.active = false;
            Write.start(couple, BYTES).assertDone();
            awaitSaid(couple, "2 lanes of 3; the others are dialled again, in vain");
            port.gids.clear();
            port.gids.add(FakeVerbs.gid(7, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, rail, 1));
            port.active = true;
            awaitSaid(couple, "joined as lane 3");
            Write.start(couple, BYTES).assertDone();
            assertThat(couple.connection.metrics().lanes())
                    .hasSize(4)
                    .filteredOn(ConnectionMetrics.Lane::alive)
                    .hasSize(3)
                    .last()
                    .satisfies(lane -> assertThat(lane.bytesSent()).isPositive());
        }
    }

    @Test
    void anotherRailTakesOverFromABrokenOne() {
        try (Couple couple = new Couple(RINGS)) {
            Write write = Write.start(couple, BYTES);
            VERBS.breakQueuePairs("fake1");
            write.assertDone();
        }
    }

    @Test
    void anotherRailTakesOverWhenAKeyIsWrong() {
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, 1000).assertDone();
            VERBS.revokeKeys("fake0");
            Write.start(couple, BYTES).assertDone();
        }
    }

    @Test
    void theLastQueuePairsEndNamesItsReason() {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, 1000).assertDone();
            VERBS.silence("fake0", true);
            Write write = Write.start(couple, 1000);
            VERBS.breakQueuePairs("fake0");
            assertThat(write.end()).isEqualTo(TransferState.FAILED);
            assertThat(couple.connection.failure())
                    .isInstanceOf(TelpherException.PeerLost.class)
                    .hasMessageContaining("fake0/1 10.77.0.1")
                    .hasMessageContaining("transport retry counter exceeded");
        }
    }

    /// Nothing is under way, and no completion comes: only the event tells.
    @Test
    void lanesOfADeviceThatFailsEndAtOnce() throws InterruptedException {
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, 1000).assertDone();
            Thread.sleep(100); // idle lanes park
            VERBS.tell("fake0", "port error", false);
            VERBS.tell("fake1", "local catastrophic error", true);
            awaitSaid(couple, "the device fake1 failed: local catastrophic error");
            assertThat(couple.connection.metrics().lanes())
                    .as("those of the other device, whose event harms nobody")
                    .anySatisfy(lane -> assertThat(lane.alive()).isTrue());
            Write.start(couple, BYTES).assertDone();
        }
    }

    private static void awaitSaid(Couple couple, String why) throws InterruptedException {
        long end = System.nanoTime() + LIMIT.toNanos();
        String said;
        do { // one side may hear of it from the other first
            said = couple.connection.explain() + couple.accepted.explain();
            assertThat(System.nanoTime()).as(said).isLessThan(end);
            Thread.sleep(1);
        } while (!said.contains(why));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aQueueThatBreaksEndsItsLaneAtOnce(boolean completion) throws InterruptedException {
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, 1000).assertDone();
            Thread.sleep(100); // idle lanes park
            VERBS.tellOfQueues("fake1", "queue error", completion);
            awaitSaid(couple, "fake1/1 10.77.1.1: queue error");
            Write.start(couple, BYTES).assertDone();
        }
    }

    @Test
    void aMessageInPlaceOfARecordEndsTheLane() throws InterruptedException {
        try (Couple couple = new Couple(RINGS)) {
            Write.start(couple, 1000).assertDone();
            VERBS.sendMessages("fake1");
            awaitSaid(couple, "protocol: the peer sent a message");
            Write.start(couple, BYTES).assertDone();
        }
    }

    @Test
    void portsThatAreDownAndAddressesThatAreGoneAreNamed() {
        VERBS.removeDevice("fake1");
        try (Endpoint here = FakeVerbs.open(OPTIONS, VERBS);
                Endpoint there = FakeVerbs.open(OPTIONS, VERBS)) {
            EndpointAddress address = there.address();
            VERBS.port("fake0").active = false;
            assertThat(refusal(here, address)).hasMessageContaining("fake0/1: not active");
            VERBS.port("fake0").active = true;
            // The way home to the peer is known by an address that it no longer has.
            VERBS.port("fake0").gids.clear();
            VERBS.port("fake0")
                    .gids
                    .add(FakeVerbs.gid(3, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, 0, 9));
            assertThat(refusal(here, address))
                    .hasMessageContaining("the peer says: no active port here has the address")
                    .hasMessageContaining("10.77.0.1");
        }
    }

    /// The peer has authenticated, and does nothing more.
    @Test
    void aPeerThatStallsInTheHandshakeCostsALimitedTime() {
        CountDownLatch end = new CountDownLatch(1);
        Provider stalling =
                Altered.provider(
                        VERBS,
                        "createChannel",
                        (usual, arguments) -> {
                            assertThat(end.await(LIMIT.toSeconds(), TimeUnit.SECONDS)).isTrue();
                            return usual.answer();
                        });
        VERBS.removeDevice("fake1");
        try (Endpoint here = FakeVerbs.open(OPTIONS, VERBS);
                Endpoint there = FakeVerbs.open(OPTIONS, stalling)) {
            long start = System.nanoTime();
            TelpherException refusal = refusal(here, there);
            assertThat(refusal).hasMessageContaining("fake0/1 10.77.0.1");
            assertThat(System.nanoTime() - start).isLessThan(LIMIT.toNanos() / 2);
            end.countDown();
        }
    }

    @Test
    void aPeerThatSaysNonsenseInTheHandshakeIsTurnedAway() {
        Provider lying = Altered.provider(VERBS, "number", (usual, arguments) -> Integer.MAX_VALUE);
        VERBS.removeDevice("fake1");
        try (Endpoint here = FakeVerbs.open(OPTIONS, VERBS);
                Endpoint there = FakeVerbs.open(OPTIONS, lying)) {
            assertThat(refusal(here, there))
                    .hasMessageContaining(
                            "the peer's offer of a queue pair has the queue pair number");
            assertThat(refusal(there, here)).isNotNull();
        }
    }

    private static TelpherException refusal(Endpoint here, Endpoint there) {
        return refusal(here, there.address());
    }

    private static TelpherException refusal(Endpoint here, EndpointAddress there) {
        return catchThrowableOfType(
                TelpherException.class, () -> here.connect(there, LIMIT).close());
    }

    @Test
    void withoutAPortConnectingSaysWhy() {
        VERBS.port("fake0").gids.clear();
        VERBS.port("fake1").active = false;
        try (Endpoint here = FakeVerbs.open(OPTIONS, VERBS);
                Endpoint there = FakeVerbs.open(OPTIONS, VERBS)) {
            assertThat(refusal(here, there))
                    .hasMessageContaining("the peer's address lists no RDMA port")
                    .hasMessageContaining("fake0/1: no RoCE v2 GID")
                    .hasMessageContaining("fake1/1: not active");
        }
    }
}
