package io.telpher.bootstrap;

import io.telpher.Endpoint;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/// A rank in a process of its own: joins, then does what its standard input says.
final class RankMain {
    private RankMain() {}

    /// @param args server, job, rank, world, lease in ms
    public static void main(String[] args) throws Exception {
        RendezvousOptions options =
                RendezvousOptions.of(
                                URI.create(args[0]),
                                args[1],
                                RendezvousOptions.secret(System.getenv()))
                        .withLease(Duration.ofMillis(Long.parseLong(args[4])));
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Endpoint endpoint = Endpoint.open();
                Rendezvous rendezvous = Rendezvous.open(options)) {
            int rank = Integer.parseInt(args[2]);
            rendezvous.join(rank, Integer.parseInt(args[3]), endpoint.address(), Fixtures.SOON);
            System.out.println("joined " + endpoint.address().incarnation());
            String line;
            while ((line = in.readLine()) != null && !line.equals("end")) {
                try {
                    rendezvous.barrier(line, Fixtures.SOON);
                    System.out.println("passed " + line);
                } catch (RuntimeException e) {
                    System.out.println(e.getClass().getSimpleName());
                }
            }
        }
        System.out.println("ended");
    }
}
