package io.telpher.cli.soak;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.Notification;
import io.telpher.TelpherException;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/// One endpoint of a rank, for one path, and its conversations. Dials those of greater name, again
/// and again; is dialled by the others. Thread-safe.
final class Side {
    private static final Duration DIAL = Duration.ofSeconds(5);
    private static final Duration HELLO = Duration.ofSeconds(30);
    private static final long PATIENCE = Duration.ofSeconds(90).toNanos();

    private final SoakRank rank;
    private final SoakPath path;
    private final String name;
    private final Endpoint endpoint;
    private final Map<String, EndpointAddress> addresses = new ConcurrentHashMap<>();
    private final Map<String, Conversation> conversations = new ConcurrentHashMap<>();
    private final AtomicInteger counter = new AtomicInteger();
    private final AtomicInteger dialling = new AtomicInteger();
    private volatile boolean stopping;

    Side(SoakRank rank, SoakPath path, String name) {
        this.rank = rank;
        this.path = path;
        this.name = name;
        endpoint = Endpoint.open(path.options());
    }

    void start() {
        rank.start(name + "-accept", this::accept);
    }

    SoakPath path() {
        return path;
    }

    String name() {
        return name;
    }

    Endpoint endpoint() {
        return endpoint;
    }

    Collection<Conversation> conversations() {
        return conversations.values();
    }

    /// A peer, or its next life. It is dialled if its name is greater than this side's.
    void peer(String peer, EndpointAddress address) {
        EndpointAddress before = addresses.put(peer, address);
        if (before == null && name.compareTo(peer) < 0) {
            rank.start(name + "-" + peer, () -> dial(peer));
        }
    }

    // --- dialling -------------------------------------------------------------------------------

    private void dial(String peer) {
        dialling.incrementAndGet();
        try {
            dialAgainAndAgain(peer);
        } finally {
            dialling.decrementAndGet();
        }
    }

    private void dialAgainAndAgain(String peer) {
        SplittableRandom random = new SplittableRandom(rank.seed(name, peer, 0));
        EndpointAddress last = null;
        long since = System.nanoTime();
        while (!stopping) {
            EndpointAddress address = addresses.get(peer);
            if (address == null) {
                return;
            }
            if (last != null && !last.equals(address)) {
                since = System.nanoTime();
                if (random.nextBoolean()) {
                    dialTheDead(last, peer);
                }
            }
            last = address;
            try {
                Connection connection = endpoint.connect(address, DIAL);
                connection.notifyPeer(Note.of(Note.Kind.HELLO, 0, name).segment()).await();
                converse(peer, connection);
                since = System.nanoTime();
            } catch (TelpherException e) {
                rank.log(() -> name + " cannot connect to " + peer + ": " + e.getMessage());
                if (System.nanoTime() - since > PATIENCE
                        && address.equals(addresses.getOrDefault(peer, address))) {
                    throw new SoakFailure(
                            name + " cannot connect to " + peer + ": " + e.getMessage());
                }
            }
            LockSupport.parkNanos(random.nextLong(300_000_000));
        }
    }

    /// An address of a process that was killed.
    private void dialTheDead(EndpointAddress address, String peer) {
        Connection connection;
        try {
            connection = endpoint.connect(address, Duration.ofSeconds(1));
        } catch (TelpherException e) {
            rank.log(() -> name + " does not reach the dead " + peer + ": " + e.getMessage());
            return;
        }
        connection.close();
        throw new SoakFailure(name + " has connected to an earlier life of " + peer);
    }

    // --- being dialled --------------------------------------------------------------------------

    private void accept() {
        while (true) {
            try {
                Connection connection = endpoint.accept(Duration.ofSeconds(1));
                rank.start(name + "-accepted", () -> greet(connection));
            } catch (TelpherException.TimedOut e) {
                continue; // nobody came
            } catch (TelpherException.Closed e) {
                return;
            }
        }
    }

    private void greet(Connection connection) {
        String peer;
        try {
            Notification first = connection.awaitNotification(HELLO);
            Note hello = Note.of(first.payload());
            if (hello.kind() != Note.Kind.HELLO) {
                throw new SoakFailure(name + ": the first note of a connection is " + hello.kind());
            }
            peer = hello.text();
        } catch (TelpherException e) {
            rank.log(() -> name + ": who has dialled is gone: " + e.getMessage());
            connection.close();
            return;
        }
        long since = System.nanoTime();
        while (conversations.containsKey(peer)) {
            if (System.nanoTime() - since > PATIENCE) {
                throw new SoakFailure(
                        name + ": the conversation with " + peer + " before this one goes on");
            }
            LockSupport.parkNanos(1_000_000);
        }
        Thread.currentThread().setName(name + "-" + peer);
        converse(peer, connection);
    }

    private void converse(String peer, Connection connection) {
        if (stopping) {
            rank.closing(connection, "since this rank ends");
            connection.close();
            return;
        }
        long seed = rank.seed(name, peer, counter.incrementAndGet());
        Conversation conversation = new Conversation(rank, this, peer, connection, seed);
        conversations.put(peer, conversation);
        rank.opened(conversation);
        try {
            if (stopping) { // since it was looked at
                conversation.close(Conversation.Wish.PARTING);
            }
            conversation.run();
        } finally {
            conversations.remove(peer);
        }
    }

    // --- the end --------------------------------------------------------------------------------

    /// Lets every conversation end with a goodbye, and starts no new one.
    void part() {
        stopping = true;
        conversations.values().forEach(c -> c.close(Conversation.Wish.PARTING));
    }

    /// @return whether nobody is dialled any more, and every conversation is over
    boolean isQuiet() {
        return dialling.get() == 0 && conversations.isEmpty();
    }

    void close() {
        endpoint.close();
    }
}
