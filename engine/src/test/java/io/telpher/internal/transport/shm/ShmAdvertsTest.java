package io.telpher.internal.transport.shm;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Adverts;
import io.telpher.spi.Link;
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

    @Test
    void whoHasLeftTheLinkIsNotInside() {
        receiver.admit(RECEIVE);
        assertThat(sender.enter(RECEIVE)).isTrue();
        close(pair.right());
        assertThat(receiver.isInside(RECEIVE)).isFalse();
        assertThat(sender.isOpen(RECEIVE)).isFalse();
        assertThat(sender.enter(RECEIVE)).isFalse();
        sender.exit(RECEIVE);
    }
}
