package io.telpher.internal.transport.verbs;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/// A node of the machine of `scripts/rdma-vm`, for tests that play two hosts in it: a process sees
/// the devices of one node alone. The nodes share the kernel's first network namespace, since
/// soft-RoCE sends nothing in another one.
public final class RdmaNode {
    /// The tag of contract tests that run between nodes.
    public static final String SLICE = "rdma-slice";

    private static final String VARIABLE = "RDMA_VM_DEVICES";
    private static final String OWN = "rxe01,rxe02";
    private static final String OTHERS = "rxe10,rxe20";
    private static final int TRIES = 5;
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private static boolean warm;

    private RdmaNode() {}

    /// Whether this is that machine.
    public static boolean isHere() {
        return System.getenv("RDMA_VM") != null;
    }

    /// @return variables that make a process the other node
    public static Map<String, String> other() {
        return isHere() ? Map.of(VARIABLE, OTHERS) : Map.of();
    }

    /// Opens an endpoint on this process's node.
    static Endpoint open(EndpointOptions options) {
        warmUp();
        return FakeVerbs.open(options, provider());
    }

    /// Connects two endpoints of this process, once: under emulation the code of a handshake takes
    /// seconds to load, more than a peer waits for. The first try may meet that limit itself.
    static synchronized void warmUp() {
        EndpointOptions options =
                EndpointOptions.DEFAULTS.withTransports(List.of(VerbsTransport.NAME));
        List<TelpherException> failures = new ArrayList<>();
        while (!warm && failures.size() < TRIES) {
            try (Endpoint one = FakeVerbs.open(options, provider());
                    Endpoint other = FakeVerbs.open(options, provider())) {
                one.connect(other.address(), LIMIT).close();
                warm = true;
            } catch (TelpherException e) {
                failures.add(e);
            }
        }
        if (!warm) {
            System.err.println("warming up: " + failures); // the test that follows fails
        }
    }

    /// @return queue pairs and registrations of any process, as `rdma resource` has them; the
    ///     kernel's own are of another type
    public static List<String> left() throws IOException, InterruptedException {
        return Stream.concat(
                        resources("qp").filter(line -> line.contains("type RC")),
                        resources("mr").filter(line -> line.contains("mrn")))
                .toList();
    }

    private static Stream<String> resources(String kind) throws IOException, InterruptedException {
        Process process =
                new ProcessBuilder("rdma", "resource", "show", kind)
                        .redirectErrorStream(true)
                        .start();
        String said = new String(process.getInputStream().readAllBytes(), UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException("rdma resource: " + said);
        }
        return said.lines();
    }

    /// The system's library with the devices of this process's node.
    static Provider provider() {
        String devices = System.getenv().getOrDefault(VARIABLE, OWN);
        return provider(List.of(devices.split(",")));
    }

    /// The system's library with some of its devices.
    static Provider provider(List<String> devices) {
        return Altered.provider(new SystemProvider(), "devices", (usual, none) -> devices);
    }
}
