package io.telpher.internal.ffi.verbs;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// Goes through every binding on RDMA devices, and looks at the bytes: in the machine of
/// `scripts/rdma-vm` between two devices that are cabled to each other, elsewhere within the first
/// device that can be used.
@Tag("rdma")
class VerbsDeviceTest {
    private static final boolean VIRTUAL = System.getenv("RDMA_VM") != null;
    private static final int HALF = RdmaPort.BYTES / 2;

    private final long seed = System.nanoTime();
    private final Random random = new Random(seed);
    private final List<RdmaPort> ports = new ArrayList<>();
    private RdmaPort one;
    private RdmaPort two;

    private static List<String> usable() {
        return VerbsDevices.list().stream()
                .filter(device -> device.transportType() == VerbsDevices.IBV_TRANSPORT_IB)
                .map(VerbsDevices.Device::name)
                .filter(VerbsDeviceTest::active)
                .sorted()
                .toList();
    }

    private static boolean active(String device) {
        long context = VerbsDevices.open(device);
        try {
            return VerbsPorts.query(context, 1).state() == VerbsPorts.IBV_PORT_ACTIVE;
        } finally {
            assertThat(VerbsDevices.close(context)).isZero();
        }
    }

    @BeforeEach
    void connect() {
        if (Verbs.availability() instanceof Availability.Missing(String reason, String remedy)) {
            assumeThat(false).as(reason + "; " + remedy).isTrue();
        }
        assumeThat(usable()).as("no RDMA device of type RC whose port 1 is active").isNotEmpty();
        one = new RdmaPort(VIRTUAL ? "rxe01" : usable().getFirst());
        ports.add(one);
        two = new RdmaPort(VIRTUAL ? "rxe10" : usable().getFirst());
        ports.add(two);
        System.out.printf(
                "%s to %s, %d-byte packets, seed %d%n",
                one.device, two.device, VerbsPorts.mtuBytes(one.attributes.activeMtu()), seed);
        one.connect(two);
        two.connect(one);
        fill(one.memory);
        fill(two.memory);
    }

    @AfterEach
    void destroy() {
        for (RdmaPort port : ports) {
            port.close();
        }
    }

    @Test
    void portsAndGidsAreThoseOfTheKernel() throws IOException {
        Path port = Path.of("/sys/class/infiniband", one.device, "ports/1");
        String state = Files.readString(port.resolve("state"));
        assertThat(state).startsWith(one.attributes.state() + ": ");
        String lid = Files.readString(port.resolve("lid")).strip();
        assertThat(one.attributes.lid()).isEqualTo(Integer.decode(lid));
        assertThat(Files.readString(port.resolve("link_layer")).strip())
                .isEqualTo(
                        one.attributes.linkLayer() == VerbsPorts.IBV_LINK_LAYER_ETHERNET
                                ? "Ethernet"
                                : "InfiniBand");
        int most = one.attributes.gids() * VerbsDevices.query(one.context).ports();
        List<VerbsPorts.Gid> gids = VerbsPorts.gids(one.context, most);
        assertThat(gids).isNotEmpty();
        for (VerbsPorts.Gid gid : gids) {
            Path file = port.resolveSibling("" + gid.port()).resolve("gids/" + gid.index());
            assertThat(Files.readString(file).strip().replace(":", "")).isEqualTo(hex(gid.gid()));
            VerbsPorts.Gid again = VerbsPorts.gid(one.context, gid.port(), gid.index());
            assertThat(again.type()).isEqualTo(gid.type());
            assertThat(again.ifindex()).isEqualTo(gid.ifindex());
            assertThat(again.gid()).isEqualTo(gid.gid());
        }
        if (VIRTUAL) {
            assertThat(hex(one.gid.gid())).isEqualTo("00000000000000000000ffff0a090101");
            assertThat(one.gid.type()).isEqualTo(VerbsPorts.IBV_GID_TYPE_ROCE_V2);
            assertThat(VerbsPorts.mtuBytes(one.attributes.activeMtu())).isEqualTo(4096);
            assertThat(VerbsDevices.list())
                    .extracting(VerbsDevices.Device::name)
                    .contains("rxe01", "rxe02", "rxe10", "rxe12", "rxe20", "rxe21");
        }
        VerbsQueuePairs.Status status = VerbsQueuePairs.query(one.pair);
        assertThat(status.state()).isEqualTo(VerbsQueuePairs.IBV_QPS_RTS);
        assertThat(status.peer()).isEqualTo(two.number());
        assertThat(status.capacity().sends()).isGreaterThanOrEqualTo(16);
        assertThat(VerbsCompletions.entries(one.queue)).isGreaterThanOrEqualTo(64);
    }

    @Test
    void writesAndReadsAreWhereTheyBelong() {
        byte[] written = bytes(one.memory, 0, HALF);
        byte[] kept = bytes(two.memory, 0, HALF);
        long write = remote(0, 1, SendRequest.IBV_WR_RDMA_WRITE, 0, 0, HALF, HALF);
        // Behind it in one list, and only this one completes.
        long small = SendRequest.IBV_SEND_INLINE | SendRequest.IBV_SEND_SIGNALED;
        long inline = remote(1, 2, SendRequest.IBV_WR_RDMA_WRITE, (int) small, 8, 32, HALF + 100);
        SendRequest.next(write, inline);
        assertThat(one.post(write)).isZero();
        // What is inline was taken: its source may change at once.
        assertThat(one.await(1, wc -> (int) WorkCompletion.id(wc))).containsExactly(2);
        System.arraycopy(written, 8, written, 100, 32);
        assertThat(bytes(two.memory, HALF, HALF)).isEqualTo(written);
        assertThat(bytes(two.memory, 0, HALF)).isEqualTo(kept);

        long read = remote(0, 3, SendRequest.IBV_WR_RDMA_READ, signalled(), HALF, HALF, 0);
        assertThat(one.post(read)).isZero();
        assertThat(one.await(1, WorkCompletion::status))
                .containsExactly(WorkCompletion.IBV_WC_SUCCESS);
        assertThat(bytes(one.memory, HALF, HALF)).isEqualTo(kept);
    }

    @Test
    void messagesArriveWithTheirImmediates() {
        byte[] sent = bytes(one.memory, 0, 5000);
        two.receive(71, HALF, HALF);
        two.receive(72, 0, 0);
        long send = one.request(0, 1, SendRequest.IBV_WR_SEND_WITH_IMM, signalled(), 0, 5000);
        SendRequest.immediate(send, 0x12345678);
        long write = remote(1, 2, SendRequest.IBV_WR_RDMA_WRITE_WITH_IMM, signalled(), 0, 16, 0);
        SendRequest.immediate(write, -2);
        SendRequest.next(send, write);
        assertThat(one.post(send)).isZero();

        long[] arrived = new long[4];
        two.await(
                1,
                wc -> {
                    arrived[0] = WorkCompletion.id(wc);
                    arrived[1] = WorkCompletion.length(wc);
                    arrived[2] = WorkCompletion.immediate(wc);
                    arrived[3] = WorkCompletion.opcode(wc);
                    return 0;
                });
        assertThat(arrived).containsExactly(71, 5000, 0x12345678, WorkCompletion.IBV_WC_RECV);
        assertThat(bytes(two.memory, HALF, 5000)).isEqualTo(sent);
        assertThat(two.await(1, WorkCompletion::immediate)).containsExactly(-2);
        assertThat(one.await(2, wc -> (int) WorkCompletion.id(wc))).containsExactly(1, 2);
    }

    @Test
    void aWrongKeyBreaksThePairAndFlushesTheRest() {
        long wrong = remote(0, 1, SendRequest.IBV_WR_RDMA_WRITE, signalled(), 0, 64, 0);
        SendRequest.remote(
                wrong, two.memory.address(), VerbsMemory.remoteKey(two.region) ^ 0x5a5a00);
        long behind = remote(1, 2, SendRequest.IBV_WR_RDMA_WRITE, signalled(), 0, 64, 0);
        SendRequest.next(wrong, behind);
        byte[] kept = bytes(two.memory, 0, RdmaPort.BYTES);
        assertThat(one.post(wrong)).isZero();
        assertThat(one.await(2, WorkCompletion::status))
                .containsExactly(
                        WorkCompletion.IBV_WC_REM_ACCESS_ERR, WorkCompletion.IBV_WC_WR_FLUSH_ERR);
        assertThat(bytes(two.memory, 0, RdmaPort.BYTES)).isEqualTo(kept);
        assertThat(VerbsQueuePairs.query(one.pair).state()).isEqualTo(VerbsQueuePairs.IBV_QPS_ERR);
        // Back to the beginning, and it works again.
        for (RdmaPort port : List.of(one, two)) {
            assertThat(VerbsQueuePairs.stop(port.pair, VerbsQueuePairs.IBV_QPS_RESET)).isZero();
        }
        one.connect(two);
        two.connect(one);
        assertThat(one.post(remote(0, 3, SendRequest.IBV_WR_RDMA_WRITE, signalled(), 0, 64, 0)))
                .isZero();
        assertThat(one.await(1, WorkCompletion::status))
                .containsExactly(WorkCompletion.IBV_WC_SUCCESS);
        assertThat(bytes(two.memory, 0, 64)).isEqualTo(bytes(one.memory, 0, 64));
    }

    @Test
    void whatIsRefusedSaysWhy() {
        long good = remote(0, 1, SendRequest.IBV_WR_RDMA_WRITE, signalled(), 0, 8, 0);
        int flags = SendRequest.IBV_SEND_INLINE | SendRequest.IBV_SEND_SIGNALED;
        int tooMuch = VerbsQueuePairs.query(one.pair).capacity().inline() + 1;
        long refused = remote(1, 2, SendRequest.IBV_WR_RDMA_WRITE, flags, 0, tooMuch, 0);
        SendRequest.next(good, refused);
        assertThat(one.post(good)).isIn(Errno.EINVAL, Errno.ENOMEM);
        assertThat(one.firstRefused()).isEqualTo(refused);
        // What stood before it is under way.
        assertThat(one.await(1, wc -> (int) WorkCompletion.id(wc))).containsExactly(1);

        assertThat(VerbsMemory.freeProtectionDomain(one.domain)).isEqualTo(Errno.EBUSY);
        int remoteOnly = VerbsMemory.IBV_ACCESS_REMOTE_WRITE;
        long refusedRegion =
                VerbsMemory.tryRegister(one.domain, one.memory.address(), 4096, remoteOnly);
        assertThat(refusedRegion).isEqualTo(-Errno.EINVAL);
        assertThat(VerbsMemory.tryRegisterDmaBuf(one.domain, 0, 4096, 0, -1, 1)).isNegative();
        assertThat(VerbsQueuePairs.stop(one.pair, VerbsQueuePairs.IBV_QPS_ERR)).isZero();
        assertThat(VerbsQueuePairs.query(one.pair).state()).isEqualTo(VerbsQueuePairs.IBV_QPS_ERR);
    }

    @Test
    void aPortThatGoesDownAndUpSaysSo() throws Exception {
        assumeThat(VIRTUAL)
                .as("takes a port down: only in the machine of scripts/rdma-vm")
                .isTrue();
        shell("ip link set n01 down");
        try {
            VerbsEvents.Event down = one.event(List.of(VerbsEvents.IBV_EVENT_PORT_ERR));
            assertThat(down.element()).isEqualTo(1);
            assertThat(VerbsEvents.text(down.type())).isEqualTo("port error");
            assertThat(VerbsPorts.query(one.context, 1).state())
                    .isEqualTo(VerbsPorts.IBV_PORT_DOWN);
        } finally {
            shell("/run/mesh up n01");
        }
        VerbsEvents.Event up = one.event(List.of(VerbsEvents.IBV_EVENT_PORT_ACTIVE));
        assertThat(up.element()).isEqualTo(1);
    }

    private static void shell(String command) throws Exception {
        Process process =
                new ProcessBuilder("bash", "-c", command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor()).as(command + ": " + said).isZero();
    }

    private static int signalled() {
        return SendRequest.IBV_SEND_SIGNALED;
    }

    /// A request of the first port that reaches into the second one's memory.
    private long remote(int slot, long id, int opcode, int flags, long at, int length, long there) {
        long request = one.request(slot, id, opcode, flags, at, length);
        SendRequest.remote(
                request, two.memory.address() + there, VerbsMemory.remoteKey(two.region));
        return request;
    }

    private void fill(MemorySegment memory) {
        byte[] content = new byte[RdmaPort.BYTES];
        random.nextBytes(content);
        MemorySegment.copy(content, 0, memory, ValueLayout.JAVA_BYTE, 0, RdmaPort.BYTES);
    }

    private static byte[] bytes(MemorySegment memory, long at, int length) {
        return memory.asSlice(at, length).toArray(ValueLayout.JAVA_BYTE);
    }

    private static String hex(byte[] gid) {
        return HexFormat.of().formatHex(gid);
    }
}
