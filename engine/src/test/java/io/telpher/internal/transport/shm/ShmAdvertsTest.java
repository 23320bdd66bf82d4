package io.telpher.internal.transport.shm;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Adverts;
import io.telpher.spi.Link;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// The words by which a receiver keeps its sender out.
class ShmAdvertsTest {
    private static final long RECEIVE = 7 | 1L << 32;

    /// The same slot, used again.
    private static final long LATER = 7 | 2L << 32;

    private final ShmHarness left = new ShmHarness();
    private final ShmHarness right = new ShmHarness();
    private ShmHarness.Pair pair;
    private Adverts receiver;
    private Adverts sender;

    @BeforeEach
    void link() throws Exception {
        pair = ShmHarness.pair(left, right);
        receiver = pair.left().windows().adverts();
        sender = pair.right().windows().adverts();
    }

    @AfterEach
    void close() {
        pair.close();
        left.close();
        right.close();
    }

    private static void close(Link link) {
        link.windows().close();
        link.lane().close();
    }

    @Test
    void whoIsAdmittedIsSeenInsideUntilItLeaves() {
        assertThat(sender.enter(RECEIVE)).as("before it is admitted").isFalse();
        receiver.admit(RECEIVE);
        assertThat(receiver.isInside(RECEIVE)).isFalse();
        assertThat(sender.enter(RECEIVE)).isTrue();
        assertThat(receiver.isInside(RECEIVE)).isTrue();
        assertThat(receiver.isInside(RECEIVE + 1)).isFalse();
        sender.exit(RECEIVE);
        assertThat(receiver.isInside(RECEIVE)).isFalse();
    }

    @Test
    void whoIsKeptOutSeesItAndDoesNotComeBack() {
        receiver.admit(RECEIVE);
        assertThat(sender.enter(RECEIVE)).isTrue();
        receiver.keepOut(RECEIVE);
        assertThat(sender.isOpen(RECEIVE)).isFalse();
        assertThat(receiver.isInside(RECEIVE)).isTrue();
        sender.exit(RECEIVE);
        assertThat(sender.enter(RECEIVE)).isFalse();
        assertThat(receiver.isInside(RECEIVE)).isFalse();
    }

    @Test
    void theNextUseOfASlotIsAnotherReceive() {
        receiver.admit(RECEIVE);
        assertThat(sender.enter(RECEIVE)).isTrue();
        receiver.keepOut(RECEIVE);
        receiver.admit(LATER);
        assertThat(sender.isOpen(RECEIVE)).isFalse();
        assertThat(sender.enter(LATER)).isTrue();
        sender.exit(RECEIVE); // late
        assertThat(receiver.isInside(LATER)).isTrue();
        assertThat(sender.enter(RECEIVE)).as("an old one").isFalse();
        assertThat(receiver.isInside(LATER)).as("after it").isTrue();
        sender.exit(LATER);
        assertThat(receiver.isInside(LATER)).isFalse();
    }

    @Test
    void bothDirectionsAndAllSlotsAreApart() {
        long last = Adverts.SLOTS - 1 | 5L << 32;
        receiver.admit(RECEIVE);
        receiver.admit(last);
        assertThat(receiver.enter(RECEIVE)).as("the other side's").isFalse();
        assertThat(sender.enter(last)).isTrue();
        assertThat(receiver.isInside(RECEIVE)).isFalse();
        assertThat(sender.enter(Adverts.SLOTS | 1L << 32)).as("no slot").isFalse();
        assertThat(sender.enter(-1)).as("no slot").isFalse();
    }

    @Test
    void theWordOfALaterUseStaysWhenTheCountGoesRound() {
        long last = 3L | (long) Integer.MAX_VALUE << 32;
        long next = 3L | 1L << 32;
        receiver.admit(last);
        receiver.admit(next);
        assertThat(sender.enter(next)).isTrue();
        assertThat(sender.enter(last)).isFalse();
        assertThat(receiver.isInside(next)).isTrue();
    }

    /// Three threads store into receives that use one slot, each as late as it likes. Of a receive
    /// that was kept to its owner while nobody was inside no byte comes any more.
    @Test
    void whatIsQuietStaysSoWhoeverComesLate() throws Exception {
        AtomicLong offered = new AtomicLong();
        AtomicLong memory = new AtomicLong();
        List<Thread> senders = new ArrayList<>();
        for (int i = 1; i <= 3; i++) {
            int late = 20 * i;
            senders.add(Thread.ofPlatform().start(() -> store(offered, memory, late)));
        }
        int quiet = 0;
        int busy = 0;
        try {
            for (long use = 1; use <= 300_000; use++) {
                long receive = 7 | use << 32;
                receiver.admit(receive);
                offered.set(receive);
                for (long i = use % 64; i > 0; i--) {
                    Thread.onSpinWait();
                }
                receiver.keepOut(receive);
                if (receiver.isInside(receive)) {
                    busy++;
                    continue;
                }
                quiet++;
                memory.set(0);
                for (int i = 0; i < 20; i++) {
                    assertThat(memory.get()).as("quiet").isNotEqualTo(receive);
                }
            }
        } finally {
            offered.set(-1);
        }
        for (Thread each : senders) {
            each.join();
        }
        assertThat(quiet).as("receives that nobody was inside").isPositive();
        assertThat(busy).as("receives that somebody was inside").isPositive();
    }

    private void store(AtomicLong offered, AtomicLong memory, int late) {
        while (true) {
            long receive = offered.get();
            if (receive < 0) {
                return;
            }
            // An advert is good for one send.
            if (receive > 0 && offered.compareAndSet(receive, 0)) {
                pause(late);
                if (sender.enter(receive)) {
                    pause(late / 4);
                    memory.set(receive);
                    sender.exit(receive);
                }
            }
        }
    }

    private static void pause(int most) {
        for (int i = ThreadLocalRandom.current().nextInt(most); i > 0; i--) {
            Thread.onSpinWait();
        }
    }

    /// The peer is asked nothing any more, and learns nothing: what it sees is there for good.
    @Test
    void whoIsKeptOutStaysSoWhenTheReceiverHasClosedTheLink() {
        receiver.admit(RECEIVE);
        assertThat(sender.enter(RECEIVE)).isTrue();
        receiver.keepOut(RECEIVE);
        close(pair.left());
        assertThat(sender.isOpen(RECEIVE)).isFalse();
        assertThat(receiver.isInside(RECEIVE)).as("nobody can tell").isTrue();
        receiver.admit(RECEIVE);
        assertThat(sender.isOpen(RECEIVE)).isFalse();
    }

    /// A GPU of a process that has hung up may copy until the process has ended, as this one has
    /// not.
    @Test
    void whoHungUpInTheMiddleMayBeInsideUntilItsProcessEnds() {
        receiver.admit(RECEIVE);
        assertThat(sender.enter(RECEIVE)).isTrue();
        close(pair.right());
        assertThat(receiver.isInside(RECEIVE)).isTrue();
        assertThat(sender.isOpen(RECEIVE)).isFalse();
        assertThat(sender.enter(RECEIVE)).isFalse();
        sender.exit(RECEIVE);
    }
}
