package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.spi.Transport;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A transport that is none of Telpher's needs its own classes and a provider entry, and no more.
class ServiceLoaderTest {
    private static final int SIZE = 300_000;

    @TempDir Path folder;

    /// @return how the initiator explains the connection
    private String connectAndWrite(Options options) throws IOException {
        Path entry = folder.resolve("META-INF/services").resolve(Transport.class.getName());
        Files.createDirectories(entry.getParent());
        Files.writeString(entry, CarrierTransport.class.getName() + "\n");
        // Before the class path, which every child has at the end of its command.
        List<String> flags = List.of("-Xbootclasspath/a:" + folder);
        try (PeerProcess here = PeerProcess.start(flags, Map.of());
                PeerProcess there = PeerProcess.start(flags, Map.of())) {
            here.tell(self -> self.open(options::apply));
            there.tell(self -> self.open(options::apply));
            byte[] address = there.run(self -> self.endpoint().address().toBytes());
            var accepted = there.begin(Participant::accept);
            here.tell(self -> self.connect(address));
            Peer.result(accepted);
            RemoteMemory target = there.add("target", Kind.FOREIGN, SIZE);
            byte[] remote = target.toBytes();
            here.add("source", Kind.FOREIGN, SIZE);
            here.fill("source", 0, SIZE, 7);
            here.run(self -> self.write("source", 0, SIZE, RemoteMemory.ofBytes(remote)))
                    .assertDone(SIZE);
            there.check("target", 0, SIZE, 7);
            return here.run(self -> self.connection().explain());
        }
    }

    private interface Options extends UnaryOperator<EndpointOptions>, Serializable {}

    @Test
    void isFoundAndRanksAmongTheOthers() throws IOException {
        assertThat(connectAndWrite(options -> options))
                .contains("shm: not tried, carrier works and comes first");
    }

    @Test
    void mayBeTheOnlyOneThatIsAllowed() throws IOException {
        String explained =
                connectAndWrite(options -> options.withTransports(List.of(CarrierTransport.NAME)));
        assertThat(explained)
                .startsWith("connection with endpoint ")
                .contains(" at ", ": chosen", "tcp: not among the allowed transports")
                .doesNotContain("secret");
    }
}
