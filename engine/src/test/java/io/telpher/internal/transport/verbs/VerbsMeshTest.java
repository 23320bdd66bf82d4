package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Two endpoints on the kernel's own RDMA devices, joined by two cables: rxe01 with rxe10, rxe02
/// with rxe20. Only in the machine of `scripts/rdma-vm`, whose links may be cut.
@Tag("rdma")
@Timeout(300)
class VerbsMeshTest {
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final int BYTES = 8 << 20;

    /// One for each cable, and one for control.
    private static final int LANES = 3;

    private static final List<String> CABLES = List.of("n01", "n02");

    private static final List<String> RINGS = List.of("verbs-ring");
    private static final List<String> ALL = List.of();

    private static final EndpointOptions OPTIONS =
            EndpointOptions.DEFAULTS
                    .withTransports(List.of(VerbsTransport.NAME))
                    .withDeadline(LIMIT)
                    .withConnectDeadline(LIMIT);

    @BeforeAll
    static void checkMachine() {
        assumeThat(RdmaNode.isHere()).as("this is the machine of scripts/rdma-vm").isTrue();
        RdmaNode.warmUp();
    }

    /// The system's library, some of its devices, and a time-out that lost packets do not stretch:
    /// the time-out that is usual means seconds for each.
    private static Endpoint open(List<String> paths, String... devices) {
        Provider quick =
                Altered.provider(
                        RdmaNode.provider(List.of(devices)),
                        "readyToSend",
                        (usual, arguments) -> {
                            VerbsQueuePairs.Sending slow = (VerbsQueuePairs.Sending) arguments[1];
                            arguments[1] =
                                    new VerbsQueuePairs.Sending(
                                            slow.firstPacket(),
                                            14,
                                            slow.retries(),
                                            slow.notReadyRetries(),
                                            slow.reads());
                            return usual.answer();
                        });
        return FakeVerbs.open(OPTIONS.withPaths(paths), quick);
    }

    private interface Body {
        void run(Endpoint here, Endpoint there, Connection connection) throws Exception;
    }

    private static void connected(Body body) throws Exception {
        connected(RINGS, body);
    }

    private static void connected(List<String> paths, Body body) throws Exception {
        connected(paths, CABLES, body);
    }

    /// @param cables what each is called at this end; one more lane is for control
    private static void connected(List<String> paths, List<String> cables, Body body)
            throws Exception {
        String[] near = cables.stream().map(n -> "rxe" + n.substring(1)).toArray(String[]::new);
        String[] far =
                cables.stream().map(n -> "rxe" + n.charAt(2) + n.charAt(1)).toArray(String[]::new);
        try (Endpoint here = open(paths, near);
                Endpoint there = open(paths, far)) {
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> there.accept(LIMIT));
            Connection connection = here.connect(there.address(), LIMIT);
            assertThat(accepted.get(LIMIT.toSeconds(), TimeUnit.SECONDS).isOpen()).isTrue();
            long end = System.nanoTime() + LIMIT.toNanos();
            while (live(connection) <= cables.size()) {
                assertThat(System.nanoTime()).as(connection.explain()).isLessThan(end);
                Thread.sleep(20);
            }
            assertThat(execute("rdma", "resource", "show", "qp")).contains("type RC");
            body.run(here, there, connection);
        }
        // The kernel's own are of another type. Each names the thread that made it.
        awaitGone("qp", "type RC");
        awaitGone("mr", "mrn");
    }

    /// A lane that is being dialled again when its endpoint closes is given up by its own thread.
    private static void awaitGone(String resource, String mark) throws Exception {
        long end = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        String left = execute("rdma", "resource", "show", resource);
        while (left.contains(mark) && System.nanoTime() < end) {
            Thread.sleep(50);
            left = execute("rdma", "resource", "show", resource);
        }
        assertThat(left).doesNotContain(mark);
    }

    private static String execute(String... command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor()).as(Arrays.toString(command) + ": " + said).isZero();
        return said;
    }

    /// Has the kernel lose packets of a cable (100 % is one that is cut), or delay them.
    private static void impair(String cable, String how, String much)
            throws IOException, InterruptedException {
        String unused = execute("tc", "qdisc", "add", "dev", cable, "root", "netem", how, much);
    }

    private static void mend(String cable) throws IOException, InterruptedException {
        String unused = execute("tc", "qdisc", "del", "dev", cable, "root");
    }

    private static Transfer write(Connection connection, MemoryRegion from, MemoryRegion to) {
        for (long i = 0; i < from.size(); i += 509) {
            from.segment().set(JAVA_BYTE, i, (byte) (from.segment().get(JAVA_BYTE, i) + 1 + i));
        }
        return connection.write(from.slice(0, from.size()), to.remote());
    }

    private static void assertDone(Transfer transfer, MemoryRegion from, MemoryRegion to) {
        assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
        assertThat(transfer.state()).as("%s", transfer.error()).isEqualTo(TransferState.DONE);
        assertThat(from.segment().mismatch(to.segment())).isEqualTo(-1);
    }

    @Test
    void bothCablesCarryBytesBothWays() throws Exception {
        connected(
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(BYTES, Access.READ_WRITE);
                    MemoryRegion b = there.allocate(BYTES, Access.READ_WRITE);
                    assertDone(write(connection, a, b), a, b);
                    b.segment().fill((byte) 7);
                    Transfer read = connection.read(a.slice(0, BYTES), b.remote());
                    assertDone(read, a, b);
                    assertThat(read.path()).isEqualTo("verbs-ring");
                    assertThat(connection.explain())
                            .contains("rxe01/1 10.9.1.1 -> rxe10/1", "rxe02/1 10.9.2.1 -> rxe20/1");
                    assertThat(connection.metrics().lanes())
                            .filteredOn(lane -> lane.bytesSent() > BYTES / 20)
                            .hasSizeGreaterThan(1);
                });
    }

    @Test
    void theNicWritesAndReadsByItself() throws Exception {
        connected(
                ALL,
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(BYTES, Access.READ_WRITE);
                    MemoryRegion b = there.allocate(BYTES, Access.READ_WRITE);
                    Transfer write = write(connection, a, b);
                    assertDone(write, a, b);
                    assertThat(write.path()).isEqualTo("verbs");
                    b.segment().fill((byte) 7);
                    Transfer read = connection.read(a.slice(0, BYTES), b.remote());
                    assertDone(read, a, b);
                    assertThat(read.path()).isEqualTo("verbs");
                });
    }

    /// Its queue pair is in error then: another one takes what was behind it.
    @Test
    void aRegionThatIsClosedCostsItsTransfersOnly() throws Exception {
        connected(
                ALL,
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(BYTES, Access.READ_WRITE);
                    MemoryRegion lasting = there.allocate(BYTES, Access.READ_WRITE);
                    assertDone(write(connection, a, lasting), a, lasting);
                    for (int round = 0; round < 3; round++) {
                        MemoryRegion closing = there.allocate(BYTES, Access.READ_WRITE);
                        assertDone(write(connection, a, closing), a, closing);
                        List<Transfer> transfers = new ArrayList<>();
                        for (int i = 0; i < 4; i++) {
                            transfers.add(write(connection, a, closing));
                            transfers.add(connection.read(a.slice(0, 4096), closing.remote()));
                        }
                        Transfer other = write(connection, a, lasting);
                        closing.close();
                        for (Transfer transfer : transfers) {
                            assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
                            assertThat(transfer.error())
                                    .satisfiesAnyOf(
                                            none -> assertThat(none).isNull(),
                                            stale ->
                                                    assertThat(stale)
                                                            .isInstanceOf(
                                                                    TelpherException.StaleRegion
                                                                            .class));
                        }
                        assertThat(other.await(LIMIT)).as("ends in time").isTrue();
                        assertThat(other.state())
                                .as("%s", other.error())
                                .isEqualTo(TransferState.DONE);
                        assertDone(write(connection, a, lasting), a, lasting);
                    }
                    assertThat(connection.metrics().lanes())
                            .allMatch(ConnectionMetrics.Lane::alive);
                });
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void theOtherCableTakesOverFromOneThatIsCut(boolean rings) throws Exception {
        connected(
                rings ? RINGS : ALL,
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(BYTES, Access.READ_WRITE);
                    MemoryRegion b = there.allocate(BYTES, Access.READ_WRITE);
                    assertDone(write(connection, a, b), a, b);
                    String cable = cableOf(connection.metrics().lanes().getFirst());
                    Transfer transfer = write(connection, a, b);
                    try {
                        impair(cable, "loss", "100%");
                        assertDone(transfer, a, b);
                        assertDone(write(connection, a, b), a, b);
                        assertThat(connection.metrics().lanes())
                                .anyMatch(lane -> !lane.alive())
                                .anyMatch(ConnectionMetrics.Lane::alive);
                    } finally {
                        mend(cable);
                    }
                });
    }

    /// One after the other, in one transfer. Nothing that both had under way is lost, nor arrives
    /// later, in memory that has another use then.
    @Test
    void aThirdCableTakesOverFromTwoThatAreCut() throws Exception {
        List<String> cut = new ArrayList<>();
        connected(
                ALL,
                List.of("n01", "n02", "n12"),
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(2L * BYTES, Access.READ_WRITE);
                    MemoryRegion b = there.allocate(2L * BYTES, Access.READ_WRITE);
                    for (int i = 0; i < 3; i++) { // until the windows of all links are open
                        assertDone(write(connection, a, b), a, b);
                    }
                    try {
                        Transfer transfer = write(connection, a, b);
                        for (String cable : CABLES) {
                            cut.add(cable);
                            impair(cable, "loss", "100%");
                        }
                        assertDone(transfer, a, b);
                        assertDone(write(connection, a, b), a, b);
                        assertThat(connection.metrics().lanes())
                                .filteredOn(lane -> !lane.alive())
                                .hasSizeGreaterThanOrEqualTo(2);
                        b.segment().fill((byte) 9);
                    } finally {
                        for (String cable : cut) {
                            mend(cable);
                        }
                    }
                    Thread.sleep(500); // what the cables held back
                    assertThat(b.segment().asSlice(1).mismatch(b.segment()))
                            .isEqualTo(b.size() - 1);
                    assertThat(b.segment().get(JAVA_BYTE, 0)).isEqualTo((byte) 9);
                });
    }

    /// The network device of a lane. What the NIC writes by itself goes by the first lane's link,
    /// which may be either cable's.
    private static String cableOf(ConnectionMetrics.Lane lane) {
        assertThat(lane.description()).startsWith("rxe0");
        return "n0" + lane.description().charAt(4);
    }

    /// On both cables: it may be done by then or not, but nothing is done that is not.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aThirdOfAllPacketsIsLost(boolean rings) throws Exception {
        connected(
                rings ? RINGS : ALL,
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(1 << 18, Access.READ_WRITE);
                    MemoryRegion b = there.allocate(1 << 18, Access.READ_WRITE);
                    assertDone(write(connection, a, b), a, b);
                    try {
                        for (String cable : CABLES) {
                            impair(cable, "loss", "30%");
                        }
                        a.segment().fill((byte) 3);
                        Transfer transfer =
                                connection.write(
                                        a.slice(0, a.size()),
                                        b.remote(),
                                        TransferOptions.DEFAULTS.withDeadline(
                                                Duration.ofSeconds(5)));
                        assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
                        if (transfer.state() == TransferState.DONE) {
                            assertThat(a.segment().mismatch(b.segment())).isEqualTo(-1);
                        } else {
                            assertThat(transfer.error())
                                    .isInstanceOfAny(
                                            TelpherException.TimedOut.class,
                                            TelpherException.PeerLost.class);
                        }
                    } finally {
                        for (String cable : CABLES) {
                            mend(cable);
                        }
                    }
                });
    }

    /// The kernel takes the addresses of a port that goes down out of its table.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aPortThatComesBackGetsItsLanesBack(boolean rings) throws Exception {
        connected(
                rings ? RINGS : ALL,
                (here, there, connection) -> {
                    MemoryRegion a = here.allocate(BYTES, Access.READ_WRITE);
                    MemoryRegion b = there.allocate(BYTES, Access.READ_WRITE);
                    assertDone(write(connection, a, b), a, b);
                    Transfer transfer = write(connection, a, b);
                    execute("ip", "link", "set", "n01", "down");
                    try {
                        assertDone(transfer, a, b);
                        long end = System.nanoTime() + LIMIT.toNanos();
                        while (live(connection) == LANES) { // an idle lane does not notice
                            assertThat(System.nanoTime()).isLessThan(end);
                            assertDone(write(connection, a, b), a, b);
                        }
                    } finally {
                        execute("/run/mesh", "up", "n01");
                    }
                    long end = System.nanoTime() + LIMIT.toNanos();
                    while (live(connection) < LANES) {
                        assertThat(System.nanoTime()).as(connection.explain()).isLessThan(end);
                        Thread.sleep(20);
                    }
                    assertDone(write(connection, a, b), a, b);
                    if (rings) { // what the NIC writes by itself is no lane's
                        assertThat(connection.metrics().lanes())
                                .as("one that came back carries something")
                                .anyMatch(
                                        lane ->
                                                lane.index() >= LANES
                                                        && lane.alive()
                                                        && lane.bytesSent() > 0);
                    }
                });
    }

    private static long live(Connection connection) {
        return connection.metrics().lanes().stream().filter(ConnectionMetrics.Lane::alive).count();
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void lostPacketsAreSentAgain(boolean rings) throws Exception {
        try {
            impair("n01", "loss", "3%");
            impair("n20", "delay", "5ms");
            connected(
                    rings ? RINGS : ALL,
                    (here, there, connection) -> {
                        MemoryRegion a = here.allocate(1 << 20, Access.READ_WRITE);
                        MemoryRegion b = there.allocate(1 << 20, Access.READ_WRITE);
                        assertDone(write(connection, a, b), a, b);
                    });
        } finally {
            mend("n01");
            mend("n20");
        }
    }
}
