package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiPredicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Which ports find each other, on the double.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsCablesTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final FakeVerbs VERBS = FakeVerbs.HERE;
    private static final int PEERS = 64;

    /// A busy machine may not bring all to one place within the time that a handshake has.
    private static final int AT_ONCE = 16;

    /// Both ports of both sides in one subnet, and each cabled to the other side's other one; the
    /// addresses cannot be resolved by the side that connects, or by the other one.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void portsThatAreCabledCrosswiseFindEachOther(boolean near) {
        VERBS.port("fake0").prefix = 16;
        VERBS.port("fake1").prefix = 16;
        AtomicInteger vain = new AtomicInteger();
        Provider crossed = cabled((here, there) -> !here.equals(there), vain);
        try (Couple couple =
                near
                        ? new Couple(VerbsFaultsTest.ALL, crossed, VERBS)
                        : new Couple(VerbsFaultsTest.ALL, VERBS, crossed)) {
            Connection connection = couple.connection;
            for (int connects = 0; connects < 3; connects++) {
                assertThat(bothWays(connection))
                        .anySatisfy(way -> assertThat(way).startsWith("fake0/1").endsWith("77.1.1"))
                        .anySatisfy(
                                way -> assertThat(way).startsWith("fake1/1").endsWith("77.0.1"));
                assertThat(vain).as("connect %d", connects + 1).hasValue(2);
                connection.close();
                connection = couple.here.connect(couple.there.address(), LIMIT);
            }
        }
    }

    /// Each side's other port leads elsewhere.
    @Test
    void theOneCableIsTakenEachTime() {
        VERBS.port("fake0").prefix = 16;
        VERBS.port("fake1").prefix = 16;
        Provider one = cabled((here, there) -> here == 1 && there == 1, new AtomicInteger());
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, one, VERBS)) {
            Connection connection = couple.connection;
            for (int connects = 0; connects < 5; connects++) {
                assertThat(connection.metrics().lanes().getFirst().description())
                        .as("connect %d", connects + 1)
                        .startsWith("fake1/1")
                        .endsWith("10.77.1.1");
                connection.close();
                connection = couple.here.connect(couple.there.address(), LIMIT);
            }
        }
    }

    /// Each port is tried for seconds: with the default deadline the next transport has its turn.
    @Test
    void wherePacketsArriveAtNoPortTheNextTransportHasTimeToo() {
        for (int device = 2; device < 8; device++) {
            VERBS.addDevice(device);
        }
        VERBS.devices().forEach(device -> VERBS.silence(device, true));
        EndpointOptions options =
                EndpointOptions.DEFAULTS.withTransports(List.of(VerbsTransport.NAME, "tcp"));
        try (Endpoint here = FakeVerbs.open(options, VERBS);
                Endpoint there = FakeVerbs.open(options, VERBS)) {
            assertThat(here.connect(there.address(), options.connectDeadline()).metrics().lanes())
                    .isNotEmpty()
                    .allSatisfy(lane -> assertThat(lane.path()).isEqualTo("tcp"));
        }
    }

    /// Memory that has run out says nothing of the way.
    @Test
    void whatFailsHereIsNoReasonForOtherCombinations() {
        VERBS.port("fake0").prefix = 16;
        VERBS.port("fake1").prefix = 16;
        VERBS.failNext("ibv_reg_mr", Errno.ENOMEM);
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            couple.connection.close();
            assertThat(bothWays(couple.here.connect(couple.there.address(), LIMIT)))
                    .allSatisfy(
                            way ->
                                    assertThat(way)
                                            .endsWith(
                                                    "10.77." + way.charAt("fake".length()) + ".1"));
        }
    }

    /// The double whose ports reach some of the peer's alone.
    ///
    /// @param reaches whether port `fake0` or `fake1` reaches the one with the address 10.77.0.1 or
    ///     10.77.1.1
    /// @param vain counts what was tried in vain
    private static Provider cabled(BiPredicate<Integer, Integer> reaches, AtomicInteger vain) {
        return Altered.provider(
                VERBS,
                "readyToReceive",
                (usual, arguments) -> {
                    byte[] peer = ((VerbsQueuePairs.Receiving) arguments[1]).path().gid();
                    String device = VERBS.deviceOf((long) arguments[0]);
                    if (!reaches.test(device.charAt("fake".length()) - '0', (int) peer[14])) {
                        vain.incrementAndGet();
                        throw Errno.failure(-Errno.ETIMEDOUT, "ibv_modify_qp", "no answer to ARP");
                    }
                    return usual.answer();
                });
    }

    @Test
    void aPortThatComesUpLaterIsInTheAddress() {
        VERBS.port("fake1").active = false;
        try (Endpoint here = FakeVerbs.open(VerbsFaultsTest.OPTIONS, VERBS);
                Endpoint there = FakeVerbs.open(VerbsFaultsTest.OPTIONS, VERBS)) {
            EndpointAddress old = there.address();
            assertThat(old.toString()).contains("fake0/1").doesNotContain("fake1/1");
            VERBS.port("fake1").active = true;
            assertThat(there.address().toString()).contains("fake0/1", "fake1/1");
            assertThat(here.connect(there.address(), LIMIT).explain())
                    .contains("fake1/1 10.77.1.1 -> fake1/1");
            VERBS.port("fake0").active = false;
            assertThat(there.address().toString()).contains("fake1/1").doesNotContain("fake0/1");
        }
    }

    @Test
    void anEndpointMayOpenBeforeItsFirstPortIsUp() {
        VERBS.port("fake0").active = false;
        VERBS.port("fake1").active = false;
        try (Endpoint here = FakeVerbs.open(VerbsFaultsTest.OPTIONS, VERBS);
                Endpoint there = FakeVerbs.open(VerbsFaultsTest.OPTIONS, VERBS)) {
            assertThatThrownBy(() -> here.connect(there.address(), LIMIT))
                    .isInstanceOf(TelpherException.ConnectFailed.class)
                    .hasMessageContaining("lists no RDMA port");
            VERBS.port("fake0").active = true;
            assertThat(here.connect(there.address(), LIMIT).isOpen()).isTrue();
        }
    }

    /// As many as a job of 64 has peers. They are let through when enough stand in the handshake
    /// at once: one after another none would come through.
    @Test
    void peersAreSetUpAtOnce() throws Exception {
        VERBS.removeDevice("fake1");
        CountDownLatch inside = new CountDownLatch(AT_ONCE);
        Provider slow =
                Altered.provider(
                        VERBS,
                        "readyToReceive",
                        (usual, arguments) -> {
                            inside.countDown();
                            assertThat(inside.await(LIMIT.toSeconds(), TimeUnit.SECONDS))
                                    .as(
                                            "%d stand here, not %d",
                                            AT_ONCE - inside.getCount(), AT_ONCE)
                                    .isTrue();
                            return usual.answer();
                        });
        List<Endpoint> peers = new ArrayList<>();
        try (Endpoint here = FakeVerbs.open(VerbsFaultsTest.OPTIONS, slow);
                ExecutorService threads = Executors.newFixedThreadPool(PEERS)) {
            for (int i = 0; i < PEERS; i++) {
                peers.add(FakeVerbs.open(VerbsFaultsTest.OPTIONS, VERBS));
            }
            List<Future<Connection>> connecting = new ArrayList<>();
            for (Endpoint peer : peers) {
                connecting.add(threads.submit(() -> here.connect(peer.address(), LIMIT)));
            }
            for (Future<Connection> each : connecting) {
                assertThat(each.get().isOpen()).isTrue();
            }
        } finally {
            peers.forEach(Endpoint::close);
        }
    }

    /// Waits for lanes by both ports.
    ///
    /// @return the ways of all lanes
    private static List<String> bothWays(Connection connection) {
        long end = System.nanoTime() + LIMIT.toNanos();
        List<String> ways;
        do {
            ways =
                    connection.metrics().lanes().stream()
                            .map(ConnectionMetrics.Lane::description)
                            .toList();
        } while (ways.stream().map(way -> way.substring(0, 5)).distinct().count() < 2
                && System.nanoTime() < end);
        assertThat(ways).as(connection.explain()).isNotEmpty();
        return ways;
    }
}
