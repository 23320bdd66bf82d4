package io.telpher.bootstrap;

import java.net.URI;
import java.time.Duration;
import java.util.Map;

/// Where and how to meet. Immutable.
///
/// @param server `tcp://HOST:PORT`, `redis://...` or `rediss://...`
/// @param job keeps jobs apart that meet at one server; 1 to 128 characters
/// @param secret what all ranks of the job hold, 16 to 64 bytes
/// @param lease how long a rank may be silent before it is lost; 200 ms to an hour
public record RendezvousOptions(URI server, String job, byte[] secret, Duration lease) {
    private static final Duration LEASE = Duration.ofSeconds(5);
    private static final Duration SHORTEST = Duration.ofMillis(200);
    private static final Duration LONGEST = Duration.ofHours(1);

    /// Checks every value.
    public RendezvousOptions {
        String scheme = String.valueOf(server.getScheme());
        if (!scheme.matches("tcp|rediss?")) {
            throw new IllegalArgumentException(
                    hidden(server)
                            + " is no rendezvous: write tcp://HOST:PORT or redis://HOST:PORT");
        }
        if (server.getHost() == null || (scheme.equals("tcp") && server.getPort() < 1)) {
            throw new IllegalArgumentException(
                    hidden(server) + " lacks a host or a port: write " + scheme + "://HOST:PORT");
        }
        if (job.isEmpty() || job.length() > 128) {
            throw new IllegalArgumentException(
                    "a job's name has 1 to 128 characters, this has " + job.length());
        }
        if (secret.length < 16 || secret.length > 64) {
            throw new IllegalArgumentException(
                    "a secret has 16 to 64 bytes, this one has " + secret.length);
        }
        secret = secret.clone();
        if (lease.compareTo(SHORTEST) < 0 || lease.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException("a lease lasts 200 ms to an hour, not " + lease);
        }
    }

    /// A lease of 5 s.
    public static RendezvousOptions of(URI server, String job, byte[] secret) {
        return new RendezvousOptions(server, job, secret, LEASE);
    }

    /// What the launcher says, with the secret of `TELPHER_SECRET`.
    ///
    /// @throws IllegalArgumentException when the secret is missing
    public static RendezvousOptions of(Launch launch) {
        return of(launch.rendezvous(), launch.job(), secret(System.getenv()));
    }

    /// The same from other variables than this process's.
    ///
    /// @throws IllegalArgumentException when the secret is missing
    public static RendezvousOptions of(Launch launch, Map<String, String> environment) {
        return of(launch.rendezvous(), launch.job(), secret(environment));
    }

    static byte[] secret(Map<String, String> env) {
        String secret = env.get("TELPHER_SECRET");
        if (secret == null || secret.isEmpty()) {
            throw new IllegalArgumentException(
                    "TELPHER_SECRET is not set: give all ranks the same text of 16 to 64 bytes, for"
                            + " example from: head -c 24 /dev/urandom | base64");
        }
        return secret.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    /// @return the same with another lease
    public RendezvousOptions withLease(Duration value) {
        return new RendezvousOptions(server, job, secret, value);
    }

    @Override
    public byte[] secret() {
        return secret.clone();
    }

    /// @return without the secret and the server's password
    @Override
    public String toString() {
        return "job '%s' at %s, lease %d ms".formatted(job, hidden(server), lease.toMillis());
    }

    static String hidden(URI server) {
        return server.toString().replaceFirst("//[^@/]*@", "//...@");
    }
}
