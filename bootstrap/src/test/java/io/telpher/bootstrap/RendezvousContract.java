package io.telpher.bootstrap;

import static io.telpher.bootstrap.Fixtures.BUSY;
import static io.telpher.bootstrap.Fixtures.SOON;
import static io.telpher.bootstrap.Fixtures.address;
import static io.telpher.bootstrap.Fixtures.result;
import static io.telpher.bootstrap.Fixtures.secret;
import static io.telpher.bootstrap.Fixtures.start;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.assertj.core.api.AbstractThrowableAssert;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

/// What every rendezvous server promises to its clients; each kind of server inherits it.
abstract class RendezvousContract {
    private static final Duration LEASE = Duration.ofMillis(800);
    private static final Duration SHORT = Duration.ofMillis(400);

    private final List<AutoCloseable> open = new ArrayList<>();
    private String job;

    /// @return a server that runs
    abstract URI server();

    /// Kills it and starts it again on the same port, with nothing left of what it knew.
    abstract void restartServer();

    /// @return a URI like [#server()] with this port
    abstract URI at(int port);

    @BeforeEach
    void name(TestInfo test) {
        job = test.getDisplayName();
    }

    @AfterEach
    void closeAll() throws Exception {
        for (AutoCloseable one : open.reversed()) {
            one.close();
        }
    }

    private RendezvousOptions options() {
        return RendezvousOptions.of(server(), job, secret()).withLease(LEASE);
    }

    private Rendezvous client(RendezvousOptions options) {
        Rendezvous rendezvous = Rendezvous.open(options);
        open.add(rendezvous);
        return rendezvous;
    }

    private Rendezvous client() {
        return client(options());
    }

    private Child child(int rank, int world) {
        return child(server(), rank, world);
    }

    private Child child(URI server, int rank, int world) {
        Child child = Child.java(RankMain.class, server, job, rank, world, LEASE.toMillis());
        open.add(child);
        return child;
    }

    /// Joins all ranks of a world.
    private List<Rendezvous> world(int size) {
        List<Rendezvous> ranks = new ArrayList<>();
        List<Future<List<Member>>> joins = new ArrayList<>();
        for (int rank = 0; rank < size; rank++) {
            int number = rank;
            Rendezvous client = client();
            ranks.add(client);
            joins.add(start(() -> client.join(number, size, address(), SOON)));
        }
        joins.forEach(Fixtures::result);
        return ranks;
    }

    // --- joining --------------------------------------------------------------------------------

    @Test
    void everyRankGetsAllAddresses() {
        int size = 8;
        List<EndpointAddress> addresses = new ArrayList<>();
        List<Future<List<Member>>> joins = new ArrayList<>();
        for (int rank = 0; rank < size; rank++) {
            int number = rank;
            EndpointAddress address = address();
            addresses.add(address);
            Rendezvous client = client();
            joins.add(start(() -> client.join(number, size, address, SOON)));
        }
        List<Member> members = result(joins.getFirst());
        assertThat(members).extracting(Member::rank).containsExactly(0, 1, 2, 3, 4, 5, 6, 7);
        assertThat(members).extracting(Member::address).isEqualTo(addresses);
        assertThat(members)
                .allMatch(member -> member.incarnation() == member.address().incarnation());
        assertThat(members)
                .extracting(Member::epoch)
                .containsExactlyInAnyOrder(1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L);
        for (Future<List<Member>> join : joins) {
            assertThat(result(join)).isEqualTo(members);
        }
    }

    @Test
    void missingRanksAreNamedAndMayComeLater() {
        Rendezvous client = client();
        assertThatThrownBy(() -> client.join(1, 4, address(), SHORT))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("missing at the rendezvous: ranks 0, 2 to 3 of 4");
        List<Future<List<Member>>> joins = new ArrayList<>();
        for (int rank : new int[] {0, 2, 3}) {
            Rendezvous other = client();
            joins.add(start(() -> other.join(rank, 4, address(), SOON)));
        }
        assertThat(client.awaitMembers(SOON)).hasSize(4);
        joins.forEach(Fixtures::result);
    }

    @Test
    void rankThatIsAliveCannotBeTaken() {
        Rendezvous first = client();
        EndpointAddress address = address();
        first.join(0, 1, address, SOON);
        Rendezvous second = client();
        assertThatThrownBy(() -> second.join(0, 1, address(), SOON))
                .isInstanceOf(RendezvousException.RankTaken.class)
                .hasMessageContaining("rank 0")
                .hasMessageContaining("%016x".formatted(address.incarnation()));
        first.barrier("still there", SOON);
        assertThat(first.members()).extracting(Member::address).containsExactly(address);
    }

    /// Shorter than the lease, so that nobody knows whether the holder is alive.
    @Test
    void whoseDeadlineIsTooShortForALeaseHearsOfTheLease() {
        EndpointAddress address = address();
        RendezvousOptions options =
                RendezvousOptions.of(server(), job, secret()).withLease(Duration.ofSeconds(60));
        client(options).join(0, 1, address, SOON);
        Duration soon = Duration.ofSeconds(3);
        assertThatThrownBy(() -> client(options).join(0, 1, address(), soon))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("is still held by endpoint %016x", address.incarnation())
                .hasMessageContaining("join with a longer deadline");
        assertThatThrownBy(() -> client(options).join(1, 2, address(), soon))
                .isInstanceOf(RendezvousException.WorldDiffers.class);
    }

    @Test
    void worldsOfDifferentSizesAreTold() {
        Rendezvous first = client();
        assertThatThrownBy(() -> first.join(0, 3, address(), SHORT))
                .isInstanceOf(TelpherException.TimedOut.class);
        assertThatThrownBy(() -> client().join(1, 4, address(), SOON))
                .isInstanceOf(RendezvousException.WorldDiffers.class)
                .hasMessageContaining("4 ranks")
                .hasMessageContaining("say 3");
    }

    @Test
    void worldMayChangeWhenAllAreGone() {
        world(2).forEach(Rendezvous::close);
        assertThat(world(3).getFirst().members()).hasSize(3);
    }

    @Test
    void otherSecretIsRefused() {
        world(2);
        byte[] other = "another secret, just as long".getBytes(StandardCharsets.UTF_8);
        assertThatThrownBy(
                        () ->
                                client(RendezvousOptions.of(server(), job, other))
                                        .join(0, 2, address(), SOON))
                .isInstanceOfAny(
                        TelpherException.AccessDenied.class,
                        RendezvousException.RankTaken.class); // Redis: the store cannot tell
    }

    @Test
    void jobsAreSeparate() {
        world(2);
        Rendezvous other = client(RendezvousOptions.of(server(), job + " 2", secret()));
        assertThat(other.join(0, 1, address(), SOON)).hasSize(1);
    }

    // --- barriers -------------------------------------------------------------------------------

    @Test
    void nobodyPassesABarrierBeforeAllHaveCome() {
        Random dice = Fixtures.dice(job);
        int size = 4;
        int rounds = 20;
        AtomicIntegerArray arrived = new AtomicIntegerArray(rounds);
        List<Rendezvous> ranks = world(size);
        List<Future<Boolean>> all = new ArrayList<>();
        for (Rendezvous rank : ranks) {
            long seed = dice.nextLong();
            all.add(
                    start(
                            () -> {
                                Random own = new Random(seed);
                                for (int round = 0; round < rounds; round++) {
                                    Thread.sleep(own.nextInt(10));
                                    arrived.incrementAndGet(round);
                                    rank.barrier("x", SOON);
                                    assertThat(arrived.get(round)).isEqualTo(size);
                                }
                                return true;
                            }));
        }
        assertThat(all).allMatch(one -> result(one));
    }

    @Test
    void barrierThatTimedOutIsAsIfNeverCalled() {
        List<Rendezvous> ranks = world(3);
        assertThatThrownBy(() -> ranks.get(0).barrier("b", SHORT))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("barrier 'b'")
                .hasMessageContaining("missing: ranks 1 to 2");
        Future<Boolean> one = start(() -> pass(ranks.get(1)));
        assertThatThrownBy(() -> ranks.get(2).barrier("b", SHORT))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("missing: rank 0");
        Future<Boolean> two = start(() -> pass(ranks.get(2)));
        assertThat(pass(ranks.get(0))).isTrue();
        assertThat(result(one)).isTrue();
        assertThat(result(two)).isTrue();
    }

    private static boolean pass(Rendezvous rank) {
        rank.barrier("b", SOON);
        return true;
    }

    @Test
    void repeatedRequestsCountOnce() {
        URI uri = server();
        try (Store store =
                uri.getScheme().equals("tcp") ? new TcpStore(uri, secret()) : new RedisStore(uri)) {
            Repeats.check(store, job);
        }
    }

    // --- coming and going -----------------------------------------------------------------------

    @Test
    void watchTellsEverythingInOrder() {
        List<Rendezvous> ranks = world(2);
        Watch watch = ranks.get(0).watch();
        RendezvousEvent first = watch.next(SOON);
        assertThat(first).isInstanceOf(RendezvousEvent.Snapshot.class);
        assertThat(((RendezvousEvent.Snapshot) first).members()).hasSize(2);
        Future<Boolean> other = start(() -> pass(ranks.get(1)));
        pass(ranks.get(0));
        result(other);
        ranks.get(1).close();
        client().join(1, 2, address(), SOON);
        long revision = first.revision();
        assertThat(watch.next(SOON)).isEqualTo(new RendezvousEvent.Passed(revision + 1, "b", 1));
        assertThat(watch.next(SOON))
                .isInstanceOfSatisfying(
                        RendezvousEvent.Left.class,
                        left -> {
                            assertThat(left.member().rank()).isEqualTo(1);
                            assertThat(left.revision()).isEqualTo(revision + 2);
                        });
        assertThat(watch.next(SOON))
                .isInstanceOfSatisfying(
                        RendezvousEvent.Joined.class,
                        joined -> {
                            assertThat(joined.member().epoch()).isEqualTo(3);
                            assertThat(joined.revision()).isEqualTo(revision + 3);
                        });
        assertThatThrownBy(() -> watch.next(SHORT)).isInstanceOf(TelpherException.TimedOut.class);
        watch.close();
        watch.close();
        assertThatThrownBy(() -> watch.next(SOON)).isInstanceOf(TelpherException.Closed.class);
    }

    @Test
    void killedRankIsLostAndComesBackAsAnother() {
        Rendezvous self = client();
        Future<List<Member>> join = start(() -> self.join(0, 2, address(), SOON));
        Child first = child(1, 2);
        Member before = result(join).get(1);
        assertThat(first.hear()).isEqualTo("joined " + before.incarnation());
        Watch watch = self.watch();
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Snapshot.class);
        first.kill();
        Future<Boolean> barrier = start(() -> pass(self)); // it waits for the successor
        Child second = child(1, 2);
        assertThat(watch.next(SOON))
                .isInstanceOfSatisfying(
                        RendezvousEvent.Lost.class,
                        lost -> assertThat(lost.member()).isEqualTo(before));
        assertThat(watch.next(SOON))
                .isInstanceOfSatisfying(
                        RendezvousEvent.Joined.class,
                        joined -> {
                            assertThat(joined.member().rank()).isEqualTo(1);
                            assertThat(joined.member().epoch()).isGreaterThan(before.epoch());
                            assertThat(second.hear())
                                    .isEqualTo("joined " + joined.member().incarnation());
                            assertThat(joined.member().incarnation())
                                    .isNotEqualTo(before.incarnation());
                        });
        second.say("b");
        assertThat(second.hear()).isEqualTo("passed b");
        assertThat(result(barrier)).isTrue();
    }

    @Test
    void rankThatDiesInABarrierDoesNotCount() {
        Rendezvous self = client();
        Future<List<Member>> join = start(() -> self.join(0, 2, address(), SOON));
        Child other = child(1, 2);
        result(join);
        other.hear();
        Watch watch = self.watch();
        watch.next(SOON);
        other.say("b");
        assertThatThrownBy(() -> other.hear(SHORT)).isInstanceOf(AssertionError.class);
        other.kill();
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Lost.class);
        assertThatThrownBy(() -> self.barrier("b", SHORT))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("missing: rank 1");
    }

    @Test
    void stoppedRankComesBackByItself() {
        Rendezvous self = client();
        Future<List<Member>> join = start(() -> self.join(0, 2, address(), SOON));
        Child other = child(1, 2);
        Member before = result(join).get(1);
        other.hear();
        Watch watch = self.watch();
        watch.next(SOON);
        other.signal("STOP");
        assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Lost.class);
        other.signal("CONT");
        assertThat(watch.next(SOON))
                .isInstanceOfSatisfying(
                        RendezvousEvent.Joined.class,
                        joined -> {
                            assertThat(joined.member().incarnation())
                                    .isEqualTo(before.incarnation());
                            assertThat(joined.member().epoch()).isGreaterThan(before.epoch());
                        });
        other.say("b");
        pass(self);
        assertThat(other.hear()).isEqualTo("passed b");
    }

    @Test
    void stoppedRankThatWasReplacedIsTold() {
        Rendezvous self = client();
        Future<List<Member>> join = start(() -> self.join(0, 2, address(), SOON));
        Child other = child(1, 2);
        result(join);
        other.hear();
        other.signal("STOP");
        Rendezvous successor = client();
        successor.join(1, 2, address(), SOON); // after one lease
        other.signal("CONT");
        // The first word may still find the old state: the lease is checked in the background.
        other.say("b");
        assertThat(other.hear()).isEqualTo("Superseded");
        Future<Boolean> passed = start(() -> pass(successor));
        pass(self);
        assertThat(result(passed)).isTrue();
    }

    // --- the server and the network -------------------------------------------------------------

    @Test
    void watchGoesOnAfterTheConnectionWasCut() {
        try (Proxy proxy = new Proxy(server().getPort())) {
            RendezvousOptions behind =
                    RendezvousOptions.of(at(proxy.port()), job, secret())
                            .withLease(Duration.ofSeconds(20));
            Rendezvous cut = client(behind);
            Rendezvous other = client();
            Future<List<Member>> join = start(() -> cut.join(0, 2, address(), SOON));
            other.join(1, 2, address(), SOON);
            result(join);
            Watch watch = cut.watch();
            long revision = watch.next(SOON).revision();
            for (int i = 0; i < 10; i++) {
                if (i % 3 == 0) {
                    proxy.cut();
                }
                other.close();
                other = client();
                other.join(1, 2, address(), SOON);
                assertThat(watch.next(SOON)).isInstanceOf(RendezvousEvent.Left.class);
                RendezvousEvent joined = watch.next(SOON);
                assertThat(joined).isInstanceOf(RendezvousEvent.Joined.class);
                revision += 2;
                assertThat(joined.revision()).isEqualTo(revision);
            }
            Rendezvous last = other;
            Future<Boolean> passed = start(() -> pass(last));
            proxy.cut();
            pass(cut);
            assertThat(result(passed)).isTrue();
        }
    }

    @Test
    void deadServerIsAnErrorByTheDeadline() {
        Rendezvous nowhere = client(RendezvousOptions.of(at(Fixtures.freePort()), job, secret()));
        assertByTheDeadline(() -> nowhere.join(0, 1, address(), SHORT))
                .hasMessageContaining("did not answer in time")
                .hasMessageContaining("refused");
    }

    /// Of [#SHORT].
    private static AbstractThrowableAssert<?, ?> assertByTheDeadline(ThrowingCallable call) {
        long begin = System.nanoTime();
        var thrown = assertThatThrownBy(call).isInstanceOf(TelpherException.TimedOut.class);
        assertThat(Duration.ofNanos(System.nanoTime() - begin))
                .as("deadline of " + SHORT)
                .isLessThan(SHORT.plus(BUSY));
        return thrown;
    }

    @Test
    void silentServerIsAnErrorByTheDeadline() {
        try (Proxy proxy = new Proxy(server().getPort())) {
            Rendezvous client =
                    client(RendezvousOptions.of(at(proxy.port()), job, secret()).withLease(LEASE));
            client.join(0, 1, address(), SOON);
            proxy.swallow();
            assertByTheDeadline(() -> client.barrier("b", SHORT));
            long begin = System.nanoTime();
            client.close();
            assertThat(Duration.ofNanos(System.nanoTime() - begin))
                    .as("close, within about a second")
                    .isLessThan(Duration.ofSeconds(1).plus(BUSY));
        }
    }

    @Test
    void serverThatFallsSilentInABarrierIsAnErrorByTheDeadline() {
        try (Proxy proxy = new Proxy(server().getPort())) {
            Rendezvous client =
                    client(RendezvousOptions.of(at(proxy.port()), job, secret()).withLease(LEASE));
            Future<List<Member>> join = start(() -> client.join(0, 2, address(), SOON));
            Rendezvous other = client();
            other.join(1, 2, address(), SOON);
            result(join);
            Future<Boolean> silenced =
                    start(
                            () -> {
                                Thread.sleep(SHORT.toMillis() / 2); // it has arrived by then
                                proxy.swallow();
                                return true;
                            });
            assertByTheDeadline(() -> client.barrier("b", SHORT));
            assertThat(result(silenced)).isTrue();
        }
    }

    @Test
    void serverThatForgotEverythingLearnsItAgain() {
        List<Rendezvous> ranks = world(3);
        Watch watch = ranks.get(0).watch();
        RendezvousEvent.Snapshot before = (RendezvousEvent.Snapshot) watch.next(SOON);
        restartServer();
        // One snapshot, or a snapshot and who announced itself after it.
        List<Member> now = new ArrayList<>();
        while (now.size() < 3) {
            switch (watch.next(SOON)) {
                case RendezvousEvent.Snapshot snapshot -> {
                    now.clear();
                    now.addAll(snapshot.members());
                }
                case RendezvousEvent.Joined joined -> now.add(joined.member());
                case RendezvousEvent other -> throw new AssertionError(other.toString());
            }
        }
        for (Member member : now) {
            Member old = before.members().get(member.rank());
            assertThat(member.address()).isEqualTo(old.address());
            assertThat(member.epoch()).isGreaterThan(old.epoch());
        }
        List<Future<Boolean>> passed = new ArrayList<>();
        for (Rendezvous rank : ranks) {
            passed.add(start(() -> pass(rank)));
        }
        assertThat(passed).allMatch(one -> result(one));
    }

    @Test
    void closedRendezvousSaysSo() {
        Rendezvous rank = world(1).getFirst();
        Watch watch = rank.watch();
        watch.next(SOON);
        Future<Throwable> waiting =
                start(
                        () -> {
                            try {
                                // That it has left may come first.
                                RendezvousEvent left = watch.next(SOON);
                                assertThat(left).isInstanceOf(RendezvousEvent.Left.class);
                                return new AssertionError(watch.next(SOON));
                            } catch (TelpherException e) {
                                return e;
                            }
                        });
        rank.close();
        rank.close();
        assertThat(result(waiting)).isInstanceOf(TelpherException.Closed.class);
        assertThatThrownBy(() -> pass(rank)).isInstanceOf(TelpherException.Closed.class);
    }
}
