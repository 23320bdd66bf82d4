package io.telpher.internal.transport.verbs;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.Transfer;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/// What long writes reach over two cables with a limited rate, against what each of them reaches by
/// itself, in the machine of `scripts/rdma-vm`: prints MB/s. Not a test: `docs/rdma.md` has the
/// figures.
final class VerbsRailsRate {
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final int ROUNDS = 5;

    private static final EndpointOptions OPTIONS =
            EndpointOptions.DEFAULTS
                    .withTransports(List.of(VerbsTransport.NAME))
                    .withPaths(List.of("verbs"))
                    .withDeadline(LIMIT)
                    .withConnectDeadline(LIMIT)
                    .withLiveness(LIMIT);

    private VerbsRailsRate() {}

    /// @param arguments rates of the two cables in Mbit/s and length of a write in MiB, as A:B:C
    public static void main(String[] arguments) throws Exception {
        RdmaNode.warmUp();
        for (String rates : arguments) {
            String[] each = rates.split(":");
            limit("n01", each[0]);
            limit("n02", each[1]);
            int bytes = Integer.parseInt(each[2]) << 20;
            double a = measure(rates + " first", bytes, List.of("rxe01"), List.of("rxe10"));
            double b = measure(rates + " second", bytes, List.of("rxe02"), List.of("rxe20"));
            double both =
                    measure(
                            rates + " both",
                            bytes,
                            List.of("rxe01", "rxe02"),
                            List.of("rxe10", "rxe20"));
            System.out.printf("%s: %.2f of the sum%n", rates, both / (a + b));
        }
    }

    /// A queue that drops nothing: what is under way fits into it.
    private static void limit(String cable, String mbit) throws IOException, InterruptedException {
        String command =
                "tc qdisc replace dev %s root tbf rate %smbit burst 64kb limit 16mb"
                        .formatted(cable, mbit);
        Process tc = new ProcessBuilder(command.split(" ")).inheritIO().start();
        if (tc.waitFor() != 0) {
            throw new IOException("failed: " + command);
        }
    }

    /// @return the median
    private static double measure(String what, int bytes, List<String> near, List<String> far)
            throws Exception {
        try (Endpoint here = FakeVerbs.open(OPTIONS, RdmaNode.provider(near));
                Endpoint there = FakeVerbs.open(OPTIONS, RdmaNode.provider(far))) {
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> there.accept(LIMIT));
            Connection connection = here.connect(there.address(), LIMIT);
            accepted.join();
            MemoryRegion from = here.allocate(bytes, Access.READ_WRITE);
            MemoryRegion into = there.allocate(bytes, Access.READ_WRITE);
            List<Double> rates = new ArrayList<>();
            // The first two have windows opened, and show how fast each link is.
            for (int i = -2; i < ROUNDS; i++) {
                from.segment().fill((byte) i);
                long start = System.nanoTime();
                Transfer write = connection.write(from.all(), into.remote());
                if (!write.await(LIMIT) || from.segment().mismatch(into.segment()) >= 0) {
                    throw new AssertionError(write + ": " + write.error());
                }
                double rate = bytes * 1e3 / (System.nanoTime() - start);
                if (i >= 0) {
                    rates.add(rate);
                }
            }
            double[] sorted = rates.stream().mapToDouble(r -> r).sorted().toArray();
            System.out.printf("%s: %s MB/s%n", what, Arrays.toString(sorted));
            return sorted[ROUNDS / 2];
        }
    }
}
