package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.cli.doctor.Finding.Severity;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.Availability;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// RDMA devices that are in various states. Two are soft-RoCE on interfaces `n01` and `n02`, as in
/// the machine of `scripts/rdma-vm`.
class RdmaChecksTest {
    private static final String ACTIVE = "4: ACTIVE";

    @TempDir Path root;

    private final FakeProbes probes = new FakeProbes();
    private final Map<String, String> environment = new HashMap<>();

    @BeforeEach
    void twoDevices() throws IOException {
        device("rxe01", "n01", "1: CA", ACTIVE);
        gid("rxe01", 0, "fe80:0000:0000:0000:607c:5cff:fe44:cad6", "RoCE v2");
        gid("rxe01", 1, "0000:0000:0000:0000:0000:ffff:0a09:0101", "RoCE v2");
        device("rxe02", "n02", "1: CA", ACTIVE);
        gid("rxe02", 0, "0000:0000:0000:0000:0000:ffff:0a09:0201", "IB/RoCE v1");
        gid("rxe02", 1, "0000:0000:0000:0000:0000:ffff:0a09:0201", "RoCE v2");
        probes.rdma = rdma(Map.of("rxe01/1", 4096, "rxe02/1", 4096));
    }

    private static Rdma rdma(Map<String, Integer> mtus) {
        return new Rdma(new Availability.Available("libibverbs.so.1"), mtus, Map.of());
    }

    private void device(String name, String netdev, String nodeType, String state)
            throws IOException {
        String at = "sys/devices/virtual/infiniband/" + name;
        write(at + "/parent", netdev);
        write(at + "/node_type", nodeType);
        write(at + "/ports/1/state", state);
        write(at + "/ports/1/link_layer", "Ethernet");
        write(at + "/ports/1/rate", "100 Gb/sec (4X EDR)");
        write("sys/class/net/" + netdev + "/mtu", "4200");
        Path link = root.resolve("sys/class/infiniband/" + name);
        Files.createDirectories(link.getParent());
        Files.createSymbolicLink(link, link.getParent().relativize(root.resolve(at)));
    }

    private void gid(String device, int index, String gid, String type) throws IOException {
        String at = "sys/devices/virtual/infiniband/" + device + "/ports/1/";
        write(at + "gids/" + index, gid);
        write(at + "gid_attrs/types/" + index, type);
    }

    private void write(String path, String text) throws IOException {
        Path file = root.resolve(path);
        Files.createDirectories(file.getParent());
        Files.writeString(file, text + "\n");
    }

    private List<Finding> examine(Check check) {
        List<Nic> nics = List.of(nic("n01", "10.9.1.1"), nic("n02", "10.9.2.1"));
        return check.examine(new Host(root, environment, nics, probes));
    }

    private static Nic nic(String name, String address) {
        Nic.Subnet subnet = new Nic.Subnet(InetAddress.ofLiteral(address), 16);
        return new Nic(name, false, List.of(subnet));
    }

    private List<Finding> wrong(Check check) {
        return examine(check).stream().filter(f -> f.severity() != Severity.INFO).toList();
    }

    @Test
    void aVariableThatCannotBeUnderstoodIsNamed() {
        environment.put("TELPHER_IB_TIMEOUT", "32");
        assertThat(wrong(new SettingsCheck()))
                .singleElement()
                .satisfies(
                        f -> assertThat(f.severity()).isEqualTo(Severity.ERROR),
                        f -> assertThat(f.evidence()).contains("TELPHER_IB_TIMEOUT=32", "1 to 31"),
                        f -> assertThat(f.remedy()).contains("correct or unset it"));
        environment.put("TELPHER_IB_TIMEOUT", "14");
        assertThat(examine(new SettingsCheck()))
                .singleElement()
                .satisfies(f -> assertThat(f.evidence()).contains("TELPHER_IB_TIMEOUT = 14"));
    }

    @Test
    void whatWorksIsToldWithItsReason() {
        assertThat(examine(new RdmaDevicesCheck()))
                .extracting(Finding::summary)
                .containsExactly(
                        "rxe01/1 (n01): RoCE, 100.0 Gb/s, active",
                        "rxe02/1 (n02): RoCE, 100.0 Gb/s, active");
        assertThat(examine(new RdmaGidsCheck()))
                .extracting(Finding::summary)
                .containsExactly(
                        "rxe01/1 (n01) uses index 1, 10.9.1.1: RoCE v2 with an IPv4 address",
                        "rxe02/1 (n02) uses index 1, 10.9.2.1: RoCE v2 with an IPv4 address");
        assertThat(wrong(new RdmaMtuCheck())).isEmpty();
    }

    @Test
    void devicesWithoutRcAreSeenAndNotUsed() throws IOException {
        device("siw0", "n03", "4: RNIC", ACTIVE);
        device("efa0", "n04", "7: <unknown>", ACTIVE);
        device("rxe05", "n05", "1: CA", "1: DOWN");
        assertThat(wrong(new RdmaDevicesCheck())).isEmpty();
        assertThat(examine(new RdmaDevicesCheck()))
                .extracting(Finding::summary)
                .anyMatch(s -> s.startsWith("siw0/1 (n03) is seen and not used: iWARP"))
                .anyMatch(s -> s.startsWith("efa0/1 (n04) is seen and not used: it has no RC"))
                .anyMatch(s -> s.startsWith("rxe05/1 (n05)") && s.contains("not active"));
        assertThat(examine(new RdmaGidsCheck())).as("those of rails only").hasSize(2);
    }

    @Test
    void aLibraryOrADeviceThatCannotBeOpenedIsAWarning() {
        probes.rdma =
                new Rdma(
                        new Availability.Missing("no libibverbs: not found", "install rdma-core"),
                        Map.of(),
                        Map.of());
        assertThat(wrong(new RdmaDevicesCheck()))
                .singleElement()
                .matches(f -> f.summary().contains("no libibverbs"))
                .matches(f -> f.remedy().equals("install rdma-core"))
                .matches(f -> f.evidence().contains("rxe01, rxe02"));
        probes.rdma =
                new Rdma(
                        new Availability.Available("libibverbs.so.1"),
                        Map.of("rxe01/1", 4096),
                        Map.of("rxe02", "ibv_open_device(rxe02) failed: EACCES"));
        assertThat(wrong(new RdmaDevicesCheck()))
                .singleElement()
                .matches(f -> f.summary().startsWith("rxe02 cannot be opened"))
                .matches(f -> f.remedy().contains("/dev/infiniband"));
    }

    @Test
    void portsThatNobodyCanAddressAndIndicesThatNameNothingAreWarnings() throws IOException {
        device("rxe03", "n03", "1: CA", ACTIVE);
        gid("rxe03", 0, "fe80:0000:0000:0000:607c:5cff:fe44:cad7", "IB/RoCE v1");
        assertThat(wrong(new RdmaGidsCheck()))
                .singleElement()
                .matches(f -> f.summary().startsWith("rxe03/1 (n03) has no GID"))
                .matches(f -> f.remedy().contains("dev n03"))
                .matches(f -> f.evidence().contains("0 RoCE v1 fe80"));
        environment.put("NCCL_IB_GID_INDEX", "0");
        assertThat(wrong(new RdmaGidsCheck()))
                .extracting(Finding::summary)
                .containsExactly(
                        "rxe02/1 (n02): NCCL_IB_GID_INDEX=0 names an entry for RoCE v1, which"
                                + " Telpher does not use",
                        "rxe03/1 (n03): NCCL_IB_GID_INDEX=0 names an entry for RoCE v1, which"
                                + " Telpher does not use");
        environment.put("TELPHER_IB_GID_INDEX", "7");
        assertThat(wrong(new RdmaGidsCheck()))
                .hasSize(3)
                .allMatch(f -> f.summary().contains("TELPHER_IB_GID_INDEX=7 names an entry that"));
    }

    @Test
    void packetsOfDifferentSizesAreAWarning() throws IOException {
        probes.rdma = rdma(Map.of("rxe01/1", 4096, "rxe02/1", 1024));
        write("sys/class/net/n02/mtu", "1500");
        assertThat(wrong(new RdmaMtuCheck()))
                .singleElement()
                .matches(f -> f.evidence().contains("1024=[rxe02/1 (n02)]"));
        assertThat(examine(new RdmaMtuCheck()))
                .anyMatch(f -> f.summary().contains("rxe02/1 (n02): 1024 bytes of data"))
                .anyMatch(f -> f.summary().contains("needs an interface of 4192"));
    }

    @Test
    void whatLeavesByAnotherPortIsAWarning() {
        // In a subnet of 16 bits both ask for the way to its first address.
        probes.routes.put("10.9.1.1 10.9.0.1", "n01");
        probes.routes.put("10.9.2.1 10.9.0.1", "n01");
        assertThat(examine(new RdmaRoutesCheck())).hasSize(2);
        assertThat(wrong(new RdmaRoutesCheck()))
                .singleElement()
                .matches(
                        f ->
                                f.summary()
                                        .equals(
                                                "rxe02/1 (n02): what leaves 10.9.2.1 goes out elsewhere: n01"))
                .matches(f -> f.remedy().contains("ip rule add from 10.9.2.1"));
    }

    @Test
    void whatLeavesByAnotherPortIsSeenWithIpv6Too() throws IOException {
        device("rxe03", "n03", "1: CA", ACTIVE);
        gid("rxe03", 0, "fd00:0000:0000:0003:0000:0000:0000:0001", "RoCE v2");
        Nic.Subnet subnet = new Nic.Subnet(InetAddress.ofLiteral("fd00:0:0:3::1"), 64);
        Host host =
                new Host(
                        root, environment, List.of(new Nic("n03", false, List.of(subnet))), probes);
        String asked = "fd00:0:0:3:0:0:0:1 fd00:0:0:3:0:0:0:2";
        probes.routes.put(asked, "n03");
        assertThat(new RdmaRoutesCheck().examine(host))
                .singleElement()
                .matches(f -> f.severity() == Severity.INFO);
        probes.routes.put(asked, "eth0");
        assertThat(new RdmaRoutesCheck().examine(host))
                .singleElement()
                .matches(f -> f.summary().contains("fd00:0:0:3:0:0:0:1 goes out elsewhere: eth0"));
    }

    @Test
    void packetsThatAreBeingLostAreAWarningWithFileAndNumber() throws IOException {
        String at = "sys/devices/virtual/infiniband/rxe01/ports/1/hw_counters/";
        write(at + "rcvd_seq_err", "17");
        write(at + "out_of_seq_request", "0");
        write(at + "sent_pkts", "123456");
        write(at + "rx_pause_frames", "5");
        List<Finding> growing = examine(whileItReads(at + "rcvd_seq_err", "19"));
        assertThat(growing)
                .extracting(f -> f.severity() + " " + f.summary())
                .containsExactly(
                        "WARNING rxe01/1 (n01): packets are being lost, late or out of order",
                        "INFO rxe02/1 (n02): its driver counts no lost packets");
        assertThat(growing.getFirst().evidence())
                .isEqualTo(
                        "/sys/class/infiniband/rxe01/ports/1/hw_counters/rcvd_seq_err = 19, 2 of"
                                + " them now;"
                                + " /sys/class/infiniband/rxe01/ports/1/hw_counters/rx_pause_frames"
                                + " = 5");
        assertThat(wrong(whileItReads(at + "out_of_seq_request", "1")))
                .singleElement()
                .matches(f -> f.evidence().contains("out_of_seq_request = 1, 1 of them now"));
    }

    /// A check during which a counter changes.
    private Check whileItReads(String counter, String value) {
        return new RdmaErrorsCheck(
                () -> {
                    try {
                        write(counter, value);
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                });
    }

    @Test
    void packetsThatWereLostOnceAreShown() throws IOException {
        String at = "sys/devices/virtual/infiniband/rxe01/ports/1/hw_counters/";
        write(at + "rcvd_seq_err", "17");
        write(at + "rx_pause_frames", "5");
        assertThat(examine(new RdmaErrorsCheck(() -> {})).getFirst())
                .matches(f -> f.severity() == Severity.INFO)
                .matches(f -> f.summary().endsWith("loaded, and none within the last second"))
                .matches(f -> f.evidence().contains("rcvd_seq_err = 17; "));
        write(at + "rcvd_seq_err", "0");
        assertThat(examine(new RdmaErrorsCheck(() -> {})).getFirst())
                .matches(f -> f.severity() == Severity.INFO)
                .matches(f -> f.summary().contains("no packet was lost"))
                .matches(f -> f.evidence().endsWith("rx_pause_frames = 5"));
    }

    @Test
    void cablesAreHeldAgainstTheirPlan() throws IOException {
        Path file =
                Files.writeString(
                        root.resolve("plan"),
                        """
                        # the rack's drawing
                        rxe01    10.9.1.2   node 1, left
                        n02      10.9.2.2
                        rxe02/1  10.9.3.2
                        rxe09    10.9.9.9
                        rxe01    fd00::1
                        """);
        CablePlan plan = CablePlan.read(file);
        assertThat(plan.cables()).hasSize(5);
        assertThat(plan.cables().getFirst().peer()).isEqualTo(InetAddress.ofLiteral("10.9.1.2"));
        probes.neighbours.put("n01 10.9.1.2", "02:00:00:00:00:01");
        probes.neighbours.put("n01 10.9.2.2", "02:00:00:00:00:02");
        assertThat(examine(new CablesCheck(plan, List.of())))
                .extracting(f -> f.severity() + " " + f.summary())
                .containsExactly(
                        "INFO rxe01/1 (n01) reaches 10.9.1.2 at 02:00:00:00:00:01",
                        "ERROR miscabled: 10.9.2.2 should be at rxe02/1 (n02) and is at rxe01/1"
                                + " (n01)",
                        "ERROR nobody answers for 10.9.3.2 at rxe02/1 (n02)",
                        "ERROR the plan's port rxe09 is not there, not active or without IPv4",
                        "INFO fd00:0:0:0:0:0:0:1 is not looked for: no IPv4");
        probes.neighbours.put("n02 10.9.2.2", "02:00:00:00:00:02");
        assertThat(examine(new CablesCheck(plan, List.of())).get(1))
                .matches(f -> f.severity() == Severity.WARNING)
                .matches(f -> f.summary().contains("and by others"));
    }

    /// An address that lists two ports, with packets of 4096 and 1024 bytes.
    private static EndpointAddress peer() {
        return peer(locator("rxe10", 2, 5, 10, 9, 1, 2), locator("rxe20", 3, 3, 10, 9, 2, 2));
    }

    private static EndpointAddress peer(Locator... ports) {
        return EndpointAddress.ofBytes(
                AddressCodec.encode(
                        new AddressCodec.Address(
                                new byte[32],
                                new PeerAddress(7, HostIdentity.here(), List.of(ports)))));
    }

    /// As docs/rdma.md has it: a RoCE port with an IPv4 address.
    private static Locator locator(String device, int index, int mtu, int... ip) {
        ByteBuffer data = ByteBuffer.allocate(32 + device.length()).order(ByteOrder.LITTLE_ENDIAN);
        data.put(new byte[] {1, 1, 1, 24, (byte) mtu, (byte) device.length(), 0, 0});
        data.putInt(0).putInt(100_000).put(new byte[10]).putShort((short) -1);
        for (int each : ip) {
            data.put((byte) each);
        }
        data.put(device.getBytes(StandardCharsets.US_ASCII));
        return new Locator("verbs", data.array(), device + " " + index);
    }

    @Test
    void withoutAPlanTheMatrixOfAPeersPortsIsShown() {
        probes.neighbours.put("n01 10.9.1.2", "02:00:00:00:00:01");
        probes.neighbours.put("n02 10.9.1.2", "02:00:00:00:00:02");
        Check cables =
                Doctor.checks(peer(), null).stream()
                        .filter(c -> c.name().equals("cables"))
                        .findFirst()
                        .orElseThrow();
        assertThat(examine(cables))
                .extracting(f -> f.severity() + " " + f.summary())
                .containsExactly(
                        "INFO the peer's rxe10/1 10.9.1.2 is reached by rxe01/1 (n01), rxe02/1"
                                + " (n02)",
                        "INFO the peer's rxe20/1 10.9.2.2 is on no cable or switch of a port here");
        assertThat(Doctor.checks(null, null)).noneMatch(c -> c.name().equals("cables"));
    }

    @Test
    void aPeersPortWithOtherPacketsIsAWarning() {
        List<Nic> nics =
                List.of(
                        new Nic(
                                "n01",
                                false,
                                List.of(new Nic.Subnet(InetAddress.ofLiteral("10.9.1.1"), 24))),
                        new Nic(
                                "n02",
                                false,
                                List.of(new Nic.Subnet(InetAddress.ofLiteral("10.9.2.1"), 24))));
        List<Finding> found =
                new PeerCheck(peer()).examine(new Host(root, environment, nics, probes));
        assertThat(found)
                .filteredOn(f -> f.summary().startsWith("the peer's rxe"))
                .extracting(f -> f.severity() + " " + f.summary())
                .containsExactly(
                        "INFO the peer's rxe10/1 10.9.1.2: in the subnet of rxe01/1 (n01) 4096",
                        "WARNING the peer's rxe20/1 10.9.2.2 and the port here differ in the size"
                                + " of their packets: both use the smaller");
        assertThat(found)
                .anyMatch(
                        f ->
                                f.evidence().contains("1024 bytes of data in a packet")
                                        && f.evidence().contains("rxe02/1 (n02) 4096"));
    }

    @Test
    void portsOfAnInfiniBandPeerAreFoundByTheirSubnetPrefix() throws IOException {
        device("mlx5_0", "ib0", "1: CA", ACTIVE);
        write("sys/devices/virtual/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
        gid("mlx5_0", 0, "fe80:0000:0000:0001:506b:4b03:00ab:cdef", "IB/RoCE v1");
        EndpointAddress peer =
                peer(
                        infiniband("mlx5_4", 0xfe80000000000001L),
                        infiniband("mlx5_5", 0xfe80000000000002L));
        assertThat(examine(new PeerCheck(peer)))
                .filteredOn(f -> f.summary().startsWith("the peer's mlx"))
                .extracting(Finding::summary)
                .satisfiesExactly(
                        near -> assertThat(near).endsWith(": in the subnet of mlx5_0/1 (ib0)"),
                        far -> assertThat(far).endsWith(": no RDMA port here is in its subnet"));
    }

    private static Locator infiniband(String device, long prefix) {
        ByteBuffer data = ByteBuffer.allocate(32 + device.length()).order(ByteOrder.LITTLE_ENDIAN);
        data.put(new byte[] {1, 0, 1, 64, 5, (byte) device.length(), 0, 0});
        data.putInt(7).putInt(100_000);
        data.order(ByteOrder.BIG_ENDIAN).putLong(prefix).putLong(0x506b4b0300abcd00L);
        data.put(device.getBytes(StandardCharsets.US_ASCII));
        return new Locator("verbs", data.array(), device);
    }

    @Test
    void aPlanThatCannotBeReadNamesTheLine() throws IOException {
        for (String text : List.of("rxe01", "rxe01 nowhere")) {
            Path file = Files.writeString(root.resolve("plan"), "\n" + text + "\n");
            assertThatThrownBy(() -> CablePlan.read(file))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("plan:2: '" + text + "'");
        }
        Path empty = Files.writeString(root.resolve("plan"), "# nothing\n");
        assertThatThrownBy(() -> CablePlan.read(empty)).hasMessageEndingWith("names no cable");
    }

    @Test
    void theKernelsTableSaysWhoAnswered() throws IOException {
        String table =
                """
                IP address       HW type     Flags       HW address            Mask     Device
                10.9.1.2         0x1         0x2         02:00:00:00:00:01     *        n01
                10.9.1.3         0x1         0x0         00:00:00:00:00:00     *        n01
                """;
        InetAddress peer = InetAddress.ofLiteral("10.9.1.2");
        assertThat(Neighbours.entry(table, "n01", peer)).isEqualTo("02:00:00:00:00:01");
        assertThat(Neighbours.entry(table, "n02", peer)).isNull();
        assertThat(Neighbours.entry(table, "n01", InetAddress.ofLiteral("10.9.1.3"))).isNull();
    }
}
