package io.telpher.internal.transport.verbs;

import static io.telpher.internal.transport.verbs.VerbsWindowsTest.assertAllLanesLive;
import static io.telpher.internal.transport.verbs.VerbsWindowsTest.assertByNic;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.transport.verbs.FakeObjects.FakePort;
import io.telpher.internal.transport.verbs.FakeObjects.Qp;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import io.telpher.internal.transport.verbs.VerbsWindowsTest.Regions;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// What queue pairs are connected with, between two hosts of the double, which drops packets whose
/// address, number, partition or length the other end does not expect.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsPathsTest {
    private static final FakeVerbs VERBS = FakeVerbs.HERE;
    private static final int BYTES = 1 << 20;

    private static List<VerbsQueuePairs.Receiving> ends() {
        return VERBS.connected().stream().map(qp -> Objects.requireNonNull(qp.peer)).toList();
    }

    private static void exchange(Couple couple) {
        Regions regions = Regions.of(couple, BYTES);
        assertByNic(regions.write(couple));
        regions.assertSame();
        regions.there().segment().fill((byte) 9);
        assertByNic(regions.read(couple));
        regions.assertSame();
        assertAllLanesLive(couple);
    }

    /// By LID, unless one of the ports wants GIDs.
    @ParameterizedTest
    @CsvSource({"false, false", "true, false", "false, true"})
    void infiniBand(boolean globalHere, boolean globalThere) {
        VERBS.addInfiniBand("ib0", 11).global = globalHere;
        VERBS.addInfiniBand("ib1", 12).global = globalThere;
        try (Couple couple =
                new Couple(VerbsFaultsTest.ALL, FakeVerbs.only("ib0"), FakeVerbs.only("ib1"))) {
            exchange(couple);
            assertThat(ends())
                    .as("two lanes, and one side's queues of one-sided transfers")
                    .hasSize(2 * (2 + ActivePairs.COUNT))
                    .allSatisfy(
                            end -> {
                                assertThat(end.path().global())
                                        .isEqualTo(globalHere || globalThere);
                                assertThat(end.path().lid()).isBetween(11, 12);
                            });
        }
    }

    @ParameterizedTest
    @CsvSource({"3, 5", "5, 3"})
    void theSmallerMtuCounts(int here, int there) {
        VERBS.port("fake0").mtu = here;
        FakePort other =
                VERBS.addDevice(
                        "fake2", FakeVerbs.gid(3, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, 0, 2));
        other.mtu = there;
        try (Couple couple =
                new Couple(VerbsFaultsTest.ALL, FakeVerbs.only("fake0"), FakeVerbs.only("fake2"))) {
            exchange(couple);
            assertThat(ends()).isNotEmpty().allSatisfy(e -> assertThat(e.mtu()).isEqualTo(3));
        }
    }

    @Test
    void everySettingReachesTheQueuePairs() {
        VERBS.port("fake1")
                .gids
                .add(FakeVerbs.gid(7, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, 9, 1));
        Map<String, String> settings =
                Map.of(
                        "NCCL_IB_HCA", "=fake1:1",
                        "NCCL_IB_GID_INDEX", "7",
                        "NCCL_IB_TC", "0x6a",
                        "NCCL_IB_SL", "3",
                        "NCCL_IB_PKEY", "2",
                        "NCCL_IB_TIMEOUT", "14",
                        "NCCL_IB_RETRY_CNT", "5",
                        "NCCL_IB_QPS_PER_CONNECTION", "3");
        try (Couple couple = new Couple(settings, VERBS, VERBS)) {
            exchange(couple);
            assertThat(couple.connection.metrics().lanes()).hasSize(1 + 3);
            assertThat(VERBS.connected())
                    .isNotEmpty()
                    .allSatisfy(
                            qp -> {
                                VerbsQueuePairs.Path path = Objects.requireNonNull(qp.peer).path();
                                assertThat(VERBS.deviceOf(qp)).isEqualTo("fake1");
                                assertThat(path.port()).isEqualTo(1);
                                assertThat(path.gidIndex()).isEqualTo(7);
                                assertThat(Rail.text(path.gid())).isEqualTo("10.77.9.1");
                                assertThat(path.trafficClass()).isEqualTo(106);
                                assertThat(path.serviceLevel()).isEqualTo(3);
                                assertThat(qp.pkey).isEqualTo(2);
                                assertSending(qp);
                            });
        }
    }

    private static void assertSending(Qp qp) {
        VerbsQueuePairs.Sending sending = Objects.requireNonNull(qp.sending);
        assertThat(sending.timeout()).isEqualTo(14);
        assertThat(sending.retries()).isEqualTo(5);
    }
}
