package io.telpher.cli.watch;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.io.IOException;
import java.time.Duration;
import java.util.List;

/// A program to be watched: one endpoint writes into another over TCP until its input ends.
final class TrafficMain {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private TrafficMain() {}

    public static void main(String[] args) throws IOException {
        EndpointOptions options =
                EndpointOptions.fromEnvironment()
                        .withTransports(List.of("tcp"))
                        .withPaths(List.of("tcp"));
        Thread.ofPlatform()
                .daemon()
                .start(
                        () -> {
                            try (Endpoint a = Endpoint.open(options);
                                    Endpoint b = Endpoint.open(options);
                                    Connection out = a.connect(b.address());
                                    Connection in = b.accept(LIMIT)) {
                                MemoryRegion from = a.allocate(1 << 20);
                                MemoryRegion to = b.allocate(1 << 20);
                                RemoteMemory gone;
                                try (MemoryRegion closed = b.allocate(64)) {
                                    gone = closed.remote();
                                }
                                out.write(from.slice(0, 8), gone).await(LIMIT);
                                Transfer write =
                                        out.prepareWrite(
                                                from.all(), to.remote(), TransferOptions.DEFAULTS);
                                System.out.println("ready");
                                while (in.isOpen()) {
                                    write.post();
                                    write.await(LIMIT);
                                    Thread.sleep(1);
                                }
                            } catch (InterruptedException e) {
                                Thread.currentThread().interrupt();
                            }
                        });
        if (System.in.read() < 0) {
            Runtime.getRuntime().halt(0); // the test is over, whichever way
        }
    }
}
