package io.telpher.bootstrap;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.Notification;
import io.telpher.TelpherException;
import java.lang.foreign.MemorySegment;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/// The embedded rendezvous server: holds the state of jobs in memory, and serves whoever knows the
/// secret. It needs one thread for each client connection. Thread-safe.
public final class RendezvousServer implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.telpher.bootstrap");
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final Duration LOOK = Duration.ofMillis(100);

    /// Jobs that nobody is in are forgotten when there are so many.
    private static final int MANY_JOBS = 1024;

    /// How long [#close()] waits until all have heard the last news.
    private static final Duration LAST_WORDS = Duration.ofSeconds(1);

    private final Endpoint endpoint;
    private final int port;
    private final Map<String, Ledger> jobs = new ConcurrentHashMap<>();
    private final CountDownLatch closed = new CountDownLatch(1);

    private RendezvousServer(Endpoint endpoint, int port) {
        this.endpoint = endpoint;
        this.port = port;
    }

    /// Listens on every address of this host.
    ///
    /// @param port TCP port, 1 to 65535
    /// @param secret what clients must hold, 16 to 64 bytes
    /// @throws TelpherException.Unsupported when the port is taken
    public static RendezvousServer listen(int port, byte[] secret) {
        if (port < 1) {
            throw new IllegalArgumentException("port " + port + " is not a TCP port");
        }
        return listen(
                control(EndpointOptions.fromEnvironment())
                        .withPort(port)
                        .withSecret(secret)
                        .withInterfaces(List.of()));
    }

    static RendezvousServer listen(EndpointOptions options) {
        RendezvousServer server = new RendezvousServer(Endpoint.open(options), options.port());
        server.start("telpher-rendezvous", server::accept);
        server.start("telpher-leases", server::look);
        return server;
    }

    /// What both sides of the control connections have in common.
    static EndpointOptions control(EndpointOptions from) {
        return from.withTransports(List.of("tcp"))
                .withPaths(List.of())
                .withPort(0)
                .withLanes(1)
                .withMaxSockets(1)
                // Snapshots of large jobs are long, whatever the ranks allow each other.
                .withMaxNotification(EndpointOptions.DEFAULTS.maxNotification())
                .withSpin(Duration.ZERO);
    }

    /// @return the TCP port
    public int port() {
        return port;
    }

    private void start(String name, Runnable task) {
        Thread.ofPlatform().daemon().name(name).start(task);
    }

    private void accept() {
        while (closed.getCount() > 0) {
            Connection connection;
            try {
                connection = endpoint.accept(Duration.ofSeconds(10));
            } catch (TelpherException.TimedOut e) {
                continue; // nobody came
            } catch (TelpherException.Closed e) {
                return;
            } catch (RuntimeException e) {
                failed("accepting a client failed", e);
                continue;
            }
            try {
                start("telpher-rendezvous-session", () -> serve(connection));
            } catch (OutOfMemoryError e) { // no thread for it; those that are served go on
                failed("a client was turned away", e);
                connection.close();
            }
        }
    }

    /// A server that goes on deaf would be worse than one that fails: whatever goes wrong with one
    /// client, or in one look, the others are served.
    private void failed(String what, Throwable cause) {
        if (LOG.isLoggable(System.Logger.Level.DEBUG)) { // silent otherwise, as the engine is
            LOG.log(
                    System.Logger.Level.ERROR,
                    "the rendezvous on port " + port + ": " + what,
                    cause);
        }
        try {
            boolean over = closed.await(LOOK.toMillis(), TimeUnit.MILLISECONDS);
            assert over == (closed.getCount() == 0);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void look() {
        try {
            while (!closed.await(LOOK.toMillis(), TimeUnit.MILLISECONDS)) {
                try {
                    jobs.values().forEach(Ledger::look);
                } catch (RuntimeException e) {
                    failed("looking for leases that have ended failed", e);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /// Answers one client until its connection ends.
    private void serve(Connection connection) {
        try (connection) {
            while (connection.isOpen()) {
                respond(connection);
            }
        } catch (TelpherException e) {
            LOG.log(System.Logger.Level.DEBUG, () -> "a rendezvous client is gone: " + e);
        } catch (RuntimeException e) {
            failed("serving a client failed", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            jobs.values().forEach(job -> job.ended(connection));
        }
    }

    private void respond(Connection connection) throws InterruptedException {
        Notification request = connection.awaitNotification(Duration.ofHours(1));
        try {
            send(connection, answer(Codec.request(request.payload()), connection));
        } catch (TelpherException e) {
            throw e;
        } catch (RuntimeException e) { // such as an answer that is too long for a notification
            LOG.log(System.Logger.Level.DEBUG, "a request could not be answered", e);
            send(connection, new Answer.Refused(String.valueOf(e.getMessage())));
        }
    }

    private static void send(Connection connection, Answer answer) {
        connection.notifyPeer(MemorySegment.ofArray(Codec.encode(answer)));
    }

    private Answer answer(Request request, Connection connection) throws InterruptedException {
        Ledger job = jobs.get(request.job());
        if (job == null) {
            if (jobs.size() >= MANY_JOBS) {
                jobs.values().removeIf(Ledger::isIdle);
            }
            if (jobs.size() >= MANY_JOBS) {
                return new Answer.Refused("this server has " + jobs.size() + " jobs already");
            }
            job = jobs.computeIfAbsent(request.job(), name -> newLedger());
        }
        return switch (request) {
            case Request.Announce r -> job.announce(r);
            case Request.Leave r -> job.leave(r);
            case Request.Arrive r -> job.arrive(r);
            case Request.Withdraw r -> job.withdraw(r);
            case Request.Changes r -> job.changes(r, connection);
        };
    }

    private static Ledger newLedger() {
        return new Ledger(() -> System.nanoTime() / 1_000_000, RANDOM.nextLong() | 1);
    }

    /// Waits up to a second until every connected client has heard the last change, so that nobody
    /// misses a barrier that has been passed; then ends. Closing again does nothing.
    @Override
    public void close() {
        long end = System.nanoTime() + LAST_WORDS.toNanos();
        try {
            for (Ledger job : jobs.values()) {
                job.awaitHeard(end);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        closed.countDown();
        endpoint.close();
    }
}
