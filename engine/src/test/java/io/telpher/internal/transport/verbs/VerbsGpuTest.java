package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.Transfer;
import io.telpher.internal.ffi.cuda.FakeGpu;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Memory of GPUs beside RDMA devices, which do not reach it: it is never given to them, and goes
/// staged through the rings; memory of hosts on the same connection goes by the NIC as before. Both
/// libraries are doubles.
@Tag(FakeGpu.TAG)
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsGpuTest {
    private static final int BYTES = (3 << 20) + 5;

    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeHere();
    }

    private static MemoryRegion region(Endpoint of, boolean gpu) {
        return gpu
                ? of.allocate(Device.list().getFirst(), BYTES)
                : of.allocate(BYTES, Access.READ_WRITE);
    }

    private static byte[] bytes(MemoryRegion of) {
        byte[] bytes = new byte[BYTES];
        of.copyOut(0, MemorySegment.ofArray(bytes));
        return bytes;
    }

    @ParameterizedTest
    @CsvSource({"true, false", "false, true", "true, true"})
    void itIsStagedThroughTheRings(boolean gpuHere, boolean gpuThere) {
        Set<Long> registered = ConcurrentHashMap.newKeySet();
        Provider counting =
                Altered.provider(
                        FakeVerbs.HERE,
                        "register",
                        (usual, arguments) -> {
                            if (arguments[2].equals((long) BYTES)) { // rings are shorter
                                registered.add((Long) arguments[1]);
                            }
                            return usual.answer();
                        });
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, counting, counting)) {
            MemoryRegion hostHere = region(couple.here, false);
            MemoryRegion hostThere = region(couple.there, false);
            Transfer byNic = couple.connection.write(hostHere.all(), hostThere.remote());
            VerbsWindowsTest.assertByNic(byNic);
            MemoryRegion here = region(couple.here, gpuHere);
            MemoryRegion there = region(couple.there, gpuThere);
            byte[] content = new byte[BYTES];
            for (int round = 1; round <= 2; round++) {
                Arrays.fill(content, (byte) round);
                here.copyIn(0, MemorySegment.ofArray(content));
                assertByRings(couple.connection.write(here.all(), there.remote()));
                assertThat(bytes(there)).isEqualTo(content);
                Arrays.fill(content, (byte) -round);
                there.copyIn(0, MemorySegment.ofArray(content));
                assertByRings(couple.connection.read(here.all(), there.remote()));
                assertThat(bytes(here)).isEqualTo(content);
            }
            Set<Long> hosts =
                    Stream.of(
                                    hostHere,
                                    hostThere,
                                    gpuHere ? hostHere : here,
                                    gpuThere ? hostThere : there)
                            .map(region -> region.segment().address())
                            .collect(Collectors.toSet());
            assertThat(registered).isSubsetOf(hosts).hasSizeGreaterThanOrEqualTo(2);
            if (gpuThere) {
                assertThat(couple.connection.explain()).contains("is memory of a GPU");
            }
            hostHere.segment().fill((byte) 7);
            VerbsWindowsTest.assertByNic(
                    couple.connection.write(hostHere.all(), hostThere.remote()));
            assertThat(hostThere.segment().get(JAVA_BYTE, BYTES - 1)).isEqualTo((byte) 7);
            VerbsWindowsTest.assertAllLanesLive(couple);
            List.of(here, there, hostHere, hostThere).forEach(MemoryRegion::close);
        }
    }

    private static void assertByRings(Transfer transfer) {
        VerbsWindowsTest.assertDone(transfer);
        assertThat(transfer.path()).isEqualTo("verbs-ring");
    }
}
