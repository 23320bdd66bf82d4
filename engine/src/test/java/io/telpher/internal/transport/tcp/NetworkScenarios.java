package io.telpher.internal.transport.tcp;

import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.spi.Deadline;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Lane;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/// The near side of what [TcpNetworkTest] tries between two network namespaces: this process runs
/// in the first and starts [NetworkPeer] in the second. Ends with status 0 when all is as it
// should.
public final class NetworkScenarios {
    private static final int LARGE = TcpLane.MAX_PAYLOAD;
    private static final Object OWNER = new Object();

    private final String far;
    private final Process peer;
    private final int peerPid;
    private final List<Locator> locators = new ArrayList<>();
    private final FakeContext context;
    private final TcpEndpoint endpoint;
    private final Arena arena = Arena.ofShared();

    private NetworkScenarios(String far, String interfaces) throws IOException {
        this.far = far;
        peer =
                new ProcessBuilder(
                                "ip",
                                "netns",
                                "exec",
                                far,
                                ProcessHandle.current().info().command().orElseThrow(),
                                "--enable-native-access=ALL-UNNAMED",
                                "-cp",
                                System.getProperty("java.class.path"),
                                NetworkPeer.class.getName(),
                                interfaces)
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        BufferedReader out =
                new BufferedReader(
                        new InputStreamReader(peer.getInputStream(), StandardCharsets.UTF_8));
        String line = out.readLine();
        while (line != null && !line.startsWith("ready ")) {
            locators.add(new Locator("tcp", HexFormat.of().parseHex(line), line));
            line = out.readLine();
        }
        check(line != null, "the peer did not start");
        peerPid = Integer.parseInt(line.substring("ready ".length()));
        context = new FakeContext(EndpointOptions.DEFAULTS.withInterfaces(List.of(interfaces)));
        endpoint = TcpEndpoint.open(context);
    }

    /// @param args scenario, the peer's namespace, interfaces to use
    public static void main(String[] args) throws Exception {
        NetworkScenarios scenarios = new NetworkScenarios(args[1], args[2]);
        try {
            switch (args[0]) {
                case "cables" -> scenarios.everyPairUsesItsCable();
                case "stopped" -> scenarios.aStoppedPeerIsNotSilent();
                case "dropped" -> scenarios.aLostPeerIsSilent();
                case "idle" -> scenarios.aLostPeerOfAnIdleLaneIsSilent();
                case "window" -> scenarios.aLostPeerWithAClosedWindowIsSilent();
                case "blackhole" -> scenarios.aBlackHoleRunsIntoTheDeadline();
                case "eyeballs" -> scenarios.aSilentAddressDoesNotHoldUpTheNext();
                default -> throw new IllegalArgumentException(args[0]);
            }
        } finally {
            scenarios.close();
        }
        System.exit(0);
    }

    private static void check(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }

    private List<Route> routes() {
        PeerAddress address = new PeerAddress(1, HostIdentity.UNKNOWN, locators);
        return endpoint.routes(address).stream().filter(r -> r.rejected() == null).toList();
    }

    private Lane connect(Route route) {
        PeerAddress address = new PeerAddress(1, HostIdentity.UNKNOWN, locators);
        Deadline soon = Deadline.in(Duration.ofSeconds(5));
        return endpoint.link(endpoint.dial(route, soon), Role.INITIATOR, address, soon).lane();
    }

    private int send(Lane lane, int length) {
        MemorySegment payload = arena.allocate(LARGE);
        return lane.send(Frames.header(arena, 1, length), 0, payload, 0, length, OWNER);
    }

    private static long sentBy(String nic) throws IOException {
        Path file = Path.of("/sys/class/net/" + nic + "/statistics/tx_bytes");
        return Long.parseLong(Files.readString(file).strip());
    }

    private void everyPairUsesItsCable() throws Exception {
        List<Route> routes = routes();
        check(routes.size() >= 2, "routes: " + routes);
        for (Route route : routes.subList(0, 2)) {
            String nic = route.text().replaceAll("^[^(]*\\(([^)]*)\\).*", "$1");
            Lane lane = connect(route);
            long before = sentBy(nic);
            for (int i = 0; i < 8; i++) {
                check(send(lane, LARGE) == Lane.OK, "not taken");
                while (lane.flush() == Lane.FULL) {
                    Thread.onSpinWait();
                }
            }
            long until = System.nanoTime() + 5_000_000_000L;
            while (sentBy(nic) - before < 8L * LARGE) {
                check(System.nanoTime() < until, (sentBy(nic) - before) + " bytes by " + nic);
                Thread.sleep(5);
            }
            lane.close();
        }
    }

    /// Sends until neither kernel has room.
    private void fill(Lane lane) throws InterruptedException {
        long full = 0;
        while (full < 300) {
            int result = lane.wantsWrite() ? lane.flush() : send(lane, LARGE);
            check(result != Lane.DEAD, String.valueOf(lane.failure()));
            full = result == Lane.FULL ? full + 1 : 0;
            if (full > 0) {
                Thread.sleep(1);
            }
        }
    }

    private void aStoppedPeerIsNotSilent() throws Exception {
        Lane idle = connect(routes().getFirst());
        Lane lane = connect(routes().getFirst());
        check(Processes.kill(peerPid, Processes.SIGSTOP) == 0, "kill");
        fill(lane);
        long most = 0;
        long until = System.nanoTime() + 8_000_000_000L;
        while (System.nanoTime() < until) {
            most = Math.max(most, Math.max(lane.silence(), idle.silence()));
            Thread.sleep(50);
        }
        check(most < 2_000_000_000L, "silent for " + most / 1_000_000 + " ms");
        check(Processes.kill(peerPid, Processes.SIGCONT) == 0, "kill");
        until = System.nanoTime() + 5_000_000_000L;
        while (lane.flush() != Lane.OK) {
            check(System.nanoTime() < until, "does not go on");
            Thread.sleep(1);
        }
    }

    private void drop(String action) throws Exception {
        Process iptables =
                new ProcessBuilder(
                                "ip",
                                "netns",
                                "exec",
                                far,
                                "iptables",
                                action,
                                "INPUT",
                                "-j",
                                "DROP")
                        .inheritIO()
                        .start();
        check(iptables.waitFor() == 0, "iptables");
    }

    /// Waits for the default liveness time-out to be passed.
    private static void awaitSilence(Lane lane, long mostMillis) throws InterruptedException {
        long began = System.nanoTime();
        while (lane.silence() < 5_000_000_000L) {
            long millis = (System.nanoTime() - began) / 1_000_000;
            check(
                    millis < mostMillis,
                    "after %d ms silent for %d ms".formatted(millis, lane.silence() / 1_000_000));
            Thread.sleep(20);
        }
        System.out.println("noticed after " + (System.nanoTime() - began) / 1_000_000 + " ms");
    }

    private void aLostPeerIsSilent() throws Exception {
        Lane lane = connect(routes().getFirst());
        // An old acknowledgement must not count as silence.
        send(lane, 100);
        lane.flush();
        Thread.sleep(3000);
        drop("-A");
        send(lane, 100);
        lane.flush();
        check(lane.silence() < 1_000_000_000L, "silent at once");
        awaitSilence(lane, 6500);
        check(lane.failure() == null, String.valueOf(lane.failure()));
        drop("-D");
        long until = System.nanoTime() + 5_000_000_000L;
        while (lane.silence() > 0) {
            check(System.nanoTime() < until, "stays silent");
            Thread.sleep(5);
        }
    }

    private void aLostPeerOfAnIdleLaneIsSilent() throws Exception {
        Lane lane = connect(routes().getFirst());
        Thread.sleep(1500);
        drop("-A");
        awaitSilence(lane, 8500);
        drop("-D");
    }

    private void aLostPeerWithAClosedWindowIsSilent() throws Exception {
        Lane lane = connect(routes().getFirst());
        check(Processes.kill(peerPid, Processes.SIGSTOP) == 0, "kill");
        fill(lane);
        Thread.sleep(8000);
        check(lane.silence() < 2_000_000_000L, "silent");
        drop("-A");
        awaitSilence(lane, 9000);
        drop("-D");
        check(Processes.kill(peerPid, Processes.SIGCONT) == 0, "kill");
    }

    private void aBlackHoleRunsIntoTheDeadline() throws Exception {
        drop("-A");
        long began = System.nanoTime();
        try {
            endpoint.dial(routes().getFirst(), Deadline.in(Duration.ofMillis(700)));
            check(false, "connected");
        } catch (TelpherException.TimedOut e) {
            String message = String.valueOf(e.getMessage());
            check(message.contains("10.77.1.2") && message.contains("no answer"), message);
        }
        long millis = (System.nanoTime() - began) / 1_000_000;
        check(millis >= 699 && millis < 3000, "took " + millis + " ms");
        drop("-D");
    }

    /// Nobody has the first address; the kernel would look for three seconds.
    private void aSilentAddressDoesNotHoldUpTheNext() throws Exception {
        NetAddress good = NetAddress.decode(locators.getFirst().data());
        InetSocketAddress nobody = new InetSocketAddress("10.77.1.99", good.port());
        InetSocketAddress somebody = new InetSocketAddress(good.ip(), good.port());
        long began = System.nanoTime();
        int fd =
                TcpDialer.dial(
                        "either",
                        List.of(
                                new TcpDialer.Attempt(nobody, null, null, "nobody"),
                                new TcpDialer.Attempt(somebody, null, null, "somebody")),
                        Deadline.in(Duration.ofSeconds(10)));
        long millis = (System.nanoTime() - began) / 1_000_000;
        check(millis >= 199 && millis < 2500, "took " + millis + " ms");
        new TcpChannel(fd).close();
        try {
            TcpDialer.dial(
                    "nobody",
                    List.of(new TcpDialer.Attempt(nobody, null, null, "nobody")),
                    Deadline.in(Duration.ofSeconds(20)));
            check(false, "connected");
        } catch (TelpherException.ConnectFailed e) {
            check(String.valueOf(e.getMessage()).contains("EHOSTUNREACH"), e.toString());
        }
    }

    private void close() throws Exception {
        peer.getOutputStream().close();
        Processes.kill(peerPid, Processes.SIGCONT);
        endpoint.close();
        context.close();
        peer.waitFor();
        arena.close();
    }
}
