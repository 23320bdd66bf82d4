package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/// Which ports find each other, on the double.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsCablesTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final FakeVerbs VERBS = FakeVerbs.HERE;
    private static final int PEERS = 64;

    /// A busy machine may not bring all to one place within the time that a handshake has.
    private static final int AT_ONCE = 16;

    /// Both ports of both sides in one subnet, and each cabled to the other side's other one.
    @Test
    void portsThatAreCabledCrosswiseFindEachOther() {
        VERBS.port("fake0").prefix = 16;
        VERBS.port("fake1").prefix = 16;
        AtomicInteger vain = new AtomicInteger();
        Provider crossed =
                Altered.provider(
                        VERBS,
                        "readyToReceive",
                        (usual, arguments) -> {
                            byte[] peer = ((VerbsQueuePairs.Receiving) arguments[1]).path().gid();
                            String device = VERBS.deviceOf((long) arguments[0]);
                            if (VERBS.port(device).gids.stream()
                                    .anyMatch(own -> Arrays.equals(own.gid(), peer))) {
                                vain.incrementAndGet();
                                throw Errno.failure(
                                        -Errno.ETIMEDOUT, "ibv_modify_qp", "no answer to ARP");
                            }
                            return usual.answer();
                        });
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, crossed, VERBS)) {
            long end = System.nanoTime() + LIMIT.toNanos();
            while (!both(couple) && System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            assertThat(couple.connection.metrics().lanes())
                    .extracting(ConnectionMetrics.Lane::description)
                    .as(couple.connection.explain())
                    .anySatisfy(way -> assertThat(way).startsWith("fake0/1").endsWith("10.77.1.1"))
                    .anySatisfy(way -> assertThat(way).startsWith("fake1/1").endsWith("10.77.0.1"));
            assertThat(vain).hasValue(2);
        }
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

    private static boolean both(Couple couple) {
        return couple.connection.metrics().lanes().stream()
                        .map(lane -> lane.description().substring(0, 5))
                        .distinct()
                        .count()
                == 2;
    }
}
