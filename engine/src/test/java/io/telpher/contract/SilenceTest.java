package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/// A library prints nothing, whatever goes wrong.
class SilenceTest {
    private static final Duration SHORT = Duration.ofMillis(300);

    @Test
    void nothingIsPrinted() throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(PeerProcess.java(List.of()));
        command.add(SilenceTest.class.getName());
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String printed =
                new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
        assertThat(printed).isEmpty();
        assertThat(process.exitValue()).isZero();
    }

    /// Much goes wrong here; ends with 1 if something does not.
    public static void main(String[] args) {
        EndpointAddress nobody = EndpointAddress.of("127.0.0.1", 1, new byte[32]);
        int failures = 0;
        for (String transport : List.of("tcp", "shm")) {
            EndpointOptions options = EndpointOptions.DEFAULTS.withTransports(List.of(transport));
            try (Endpoint one = Endpoint.open(options)) {
                failures += fails(() -> one.connect(nobody, SHORT));
                Connection connection;
                MemoryRegion source = one.allocate(1000);
                Transfer pending;
                try (Endpoint two = Endpoint.open(options)) {
                    connection = one.connect(two.address());
                    RemoteMemory gone;
                    try (MemoryRegion target = two.allocate(1000)) {
                        gone = target.remote();
                    }
                    failures += fails(() -> connection.write(source.all(), gone).await());
                    failures += fails(() -> connection.lookup("nothing", SHORT));
                    pending = connection.receive(1, source.all());
                }
                failures += fails(pending::await);
                failures += fails(() -> connection.send(1, source.all()).await());
            }
        }
        System.exit(failures == 10 ? 0 : 1);
    }

    private static int fails(Runnable action) {
        try {
            action.run();
            return 0;
        } catch (TelpherException e) {
            return 1;
        }
    }
}
