package io.telpher.cli.soak;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.Notification;
import io.telpher.TelpherException;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/// One endpoint of a rank, for one path, and its conversations. Dials those of greater name, again
/// and again; is dialled by the others. Thread-safe.
final class Side {
    private static final Duration DIAL = Duration.ofSeconds(5);
    private static final long HELLO = Duration.ofSeconds(30).toNanos();
    private static final Duration HELLO_STEP = Duration.ofSeconds(1);
    private static final long PATIENCE = Duration.ofSeconds(90).toNanos();

    private final SoakRank rank;
    private final SoakPath path;
    private final String name;
    private final Endpoint endpoint;
    private final Map<String, EndpointAddress> addresses = new ConcurrentHashMap<>();

    /// Killed, and not heard of again yet.
    private final Set<String> gone = ConcurrentHashMap.newKeySet();

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
        gone.remove(peer);
        if (before == null && name.compareTo(peer) < 0) {
            rank.start(name + "-" + peer, () -> dial(peer));
        }
    }

    /// A rank has been killed: nobody answers at its addresses, however long its next life takes to
    /// come up.
    void gone(String rank) {
        addresses.keySet().stream().filter(peer -> peer.startsWith(rank + ".")).forEach(gone::add);
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
        long since = Clock.OWN.now();
        while (!stopping) {
            EndpointAddress address = addresses.get(peer);
            if (address == null) {
                return;
            }
            if (last != null && !last.equals(address)) {
                since = Clock.OWN.now();
                if (random.nextBoolean()) {
                    dialTheDead(last, peer);
                }
            }
            last = address;
            if (gone.contains(peer)) {
                since = Clock.OWN.now();
            }
            try {
                Connection connection = endpoint.connect(address, DIAL);
                introduce(connection);
                converse(peer, connection);
                since = Clock.OWN.now();
            } catch (TelpherException e) {
                rank.log(() -> name + " cannot connect to " + peer + ": " + e.getMessage());
                if (Clock.OWN.now() - since > PATIENCE
                        && address.equals(addresses.getOrDefault(peer, address))) {
                    throw new SoakFailure(
                            name + " cannot connect to " + peer + ": " + e.getMessage());
                }
            }
            LockSupport.parkNanos(random.nextLong(300_000_000));
        }
    }

    private void introduce(Connection connection) {
        try {
            connection.notifyPeer(Note.of(Note.Kind.HELLO, 0, name).segment()).await();
        } catch (TelpherException e) {
            rank.closing(connection, "since its first note was not taken");
            connection.close();
            throw e;
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
            Note hello = Note.of(firstOf(connection).payload());
            if (hello.kind() != Note.Kind.HELLO) {
                throw new SoakFailure(name + ": the first note of a connection is " + hello.kind());
            }
            peer = hello.text();
        } catch (TelpherException e) {
            rank.log(() -> name + ": who has dialled is gone: " + e.getMessage());
            connection.close();
            return;
        }
        long since = Clock.OWN.now();
        while (conversations.containsKey(peer)) {
            if (Clock.OWN.now() - since > PATIENCE) {
                throw new SoakFailure(
                        name + ": the conversation with " + peer + " before this one goes on");
            }
            LockSupport.parkNanos(1_000_000);
        }
        Thread.currentThread().setName(name + "-" + peer);
        converse(peer, connection);
    }

    /// Waits in steps, so that a pause of this process does not use up its patience.
    private static Notification firstOf(Connection connection) {
        long since = Clock.OWN.now();
        while (true) {
            try {
                return connection.awaitNotification(HELLO_STEP);
            } catch (TelpherException.TimedOut e) {
                if (Clock.OWN.now() - since > HELLO) {
                    throw e;
                }
            }
        }
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
