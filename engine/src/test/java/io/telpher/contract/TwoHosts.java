package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.ConnectionMetrics;
import io.telpher.RemoteMemory;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;

/// Two hosts that have several links: each host is a network namespace with a process in it.
abstract class TwoHosts {
    static final String SUBNET = "10.99.%d";
    static final byte[] SECRET = "0123456789abcdef".getBytes(US_ASCII);
    static final Duration LIVENESS = Duration.ofSeconds(2);
    static final Participant.Tweak TCP =
            o ->
                    TestPath.TCP
                            .restrict(o)
                            .withLiveness(LIVENESS)
                            .withSecret(SECRET)
                            .withDeadline(Duration.ofSeconds(60));

    Namespaces hosts;
    PeerProcess a;
    PeerProcess b;

    @AfterEach
    void close() {
        try {
            for (PeerProcess process : new PeerProcess[] {a, b}) {
                if (process != null && process.isAlive()) {
                    process.kill();
                }
            }
        } finally {
            if (hosts != null) {
                hosts.close();
            }
        }
    }

    /// Two hosts with two links.
    void prepareTwoLinks() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a", "b");
        hosts.link("a", "b", SUBNET.formatted(0));
        hosts.link("a", "b", SUBNET.formatted(1));
        startOneEach();
    }

    /// A process on each host.
    void startOneEach() {
        a = PeerProcess.start(hosts.exec("a"));
        b = PeerProcess.start(hosts.exec("b"));
    }

    void limit(String... rates) {
        for (int i = 0; i < rates.length; i++) {
            hosts.limit("a", "v" + i, rates[i]);
            hosts.limit("b", "v" + i, rates[i]);
        }
    }

    void connect(Participant.Tweak options) {
        a.tell(self -> self.open(options));
        byte[] address = b.run(self -> self.open(options));
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        a.tell(self -> self.connect(address));
        Peer.result(accepted);
    }

    byte[] target(long size) {
        a.tell(
                self -> {
                    self.add("source", Kind.FOREIGN, size);
                    self.fill("source", 0, size, 4);
                });
        return b.add("target", Kind.FOREIGN, size).toBytes();
    }

    CompletableFuture<Outcome> startWrite(byte[] target, long size) {
        return a.start(self -> self.write("source", 0, size, RemoteMemory.ofBytes(target)));
    }

    static long sent(Participant self, String subnet) {
        return self.connection().metrics().lanes().stream()
                .filter(lane -> lane.description().contains(subnet))
                .mapToLong(ConnectionMetrics.Lane::bytesSent)
                .sum();
    }

    void checkSmallWrite() {
        long id = System.nanoTime();
        String name = "small" + id;
        byte[] target = b.add(name, Kind.TELPHER, 100).toBytes();
        a.tell(
                self -> {
                    self.add(name, Kind.TELPHER, 100);
                    self.fill(name, 0, 100, id);
                    self.write(name, 0, 100, RemoteMemory.ofBytes(target)).assertDone(100);
                });
        b.check(name, 0, 100, id);
    }
}
