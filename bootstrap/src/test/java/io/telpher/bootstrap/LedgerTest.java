package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/// The state of a job, in a time that the test makes.
class LedgerTest {
    private final AtomicLong now = new AtomicLong(1_000_000);
    private final Ledger ledger = new Ledger(now::get, 77);

    private Answer announce(int rank, long incarnation) {
        return ledger.announce(
                new Request.Announce("j", rank, 2, incarnation, 0, 1000, new byte[1]));
    }

    private Answer arrive(int rank, long incarnation, long ticket) {
        return ledger.arrive(new Request.Arrive("j", "b", rank, incarnation, ticket));
    }

    /// Lets time pass in a server that is awake.
    private void pass(int millis) {
        for (int i = 0; i < millis; i += 100) {
            now.addAndGet(100);
            ledger.look();
        }
    }

    private List<Answer.Change> after(long revision) throws InterruptedException {
        Answer answer = ledger.changes(new Request.Changes("j", 77, revision, 0), this);
        return ((Answer.Events) answer).changes();
    }

    @Test
    void leaseEndsWithoutRenewalOnly() throws InterruptedException {
        announce(0, 10);
        announce(1, 11);
        pass(900);
        assertThat(announce(0, 10)).isEqualTo(new Answer.Ok(1));
        pass(100);
        assertThat(after(2))
                .singleElement()
                .isInstanceOfSatisfying(
                        Answer.RecordChange.class,
                        change -> {
                            assertThat(change.kind()).isEqualTo(Answer.Kind.LOST);
                            assertThat(change.entry().rank()).isEqualTo(1);
                        });
        assertThat(announce(0, 20)).isEqualTo(new Answer.Held(10, 1, 900));
        pass(900);
        assertThat(announce(0, 20)).isEqualTo(new Answer.Ok(3));
        assertThat(announce(0, 10)).isEqualTo(new Answer.Held(20, 3, 1000));
    }

    @Test
    void pauseOfTheServerEndsNoLease() throws InterruptedException {
        announce(0, 10);
        pass(500);
        now.addAndGet(60_000); // nobody could renew
        ledger.look();
        assertThat(after(1)).isEmpty();
        pass(400);
        assertThat(after(1)).isEmpty();
        pass(200);
        assertThat(after(1)).hasSize(1);
    }

    @Test
    void arrivalOfALostRankIsTakenBack() {
        announce(0, 10);
        announce(1, 11);
        assertThat(arrive(1, 11, 5)).isEqualTo(new Answer.Waiting(0));
        pass(900);
        announce(0, 10);
        pass(200);
        assertThat(arrive(0, 10, 6)).isEqualTo(new Answer.Waiting(0));
        assertThat(arrive(1, 11, 5)).isEqualTo(new Answer.Gone());
        announce(1, 11);
        assertThat(arrive(1, 11, 5)).isEqualTo(new Answer.Passed());
        assertThat(arrive(0, 10, 6)).isEqualTo(new Answer.Passed());
    }

    @Test
    void whoWasAwayTooLongGetsASnapshot() throws InterruptedException {
        for (int i = 0; i < 3000; i++) {
            announce(0, 10 + i);
            ledger.leave(new Request.Leave("j", 0, 10 + i));
        }
        assertThat(after(6000 - 4096)).hasSize(4096);
        Answer answer = ledger.changes(new Request.Changes("j", 77, 6000 - 4097, 0), this);
        assertThat(answer).isEqualTo(new Answer.Snapshot(77, 6000, List.of()));
        answer = ledger.changes(new Request.Changes("j", 77, 6001, 0), this);
        assertThat(answer).as("from the future").isInstanceOf(Answer.Snapshot.class);
        answer = ledger.changes(new Request.Changes("j", 76, 6000, 0), this);
        assertThat(answer).as("another instance").isInstanceOf(Answer.Snapshot.class);
    }

    @Test
    void waitingForChangesEndsWithTheFirst() throws InterruptedException {
        Future<Answer> waiting =
                Fixtures.start(
                        () -> ledger.changes(new Request.Changes("j", 77, 0, 30_000), "other"));
        Thread.sleep(50);
        announce(0, 10);
        assertThat(((Answer.Events) Fixtures.result(waiting)).changes()).hasSize(1);
        assertThat(after(0)).hasSize(1);
    }

    @Test
    void lastWordsAreHeardByAllWhoAreConnected() throws InterruptedException {
        announce(0, 10);
        ledger.changes(new Request.Changes("j", 77, 0, 0), "slow");
        ledger.changes(new Request.Changes("j", 77, 1, 0), "fast");
        Future<Boolean> heard = Fixtures.start(this::awaitHeard);
        Thread.sleep(50);
        assertThat(heard).isNotDone();
        ledger.changes(new Request.Changes("j", 77, 1, 0), "slow");
        assertThat(Fixtures.result(heard)).isTrue();
    }

    private boolean awaitHeard() throws InterruptedException {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        ledger.awaitHeard(end);
        return System.nanoTime() < end;
    }

    @Test
    void thousandsOfBarriersAreForgotten() {
        announce(0, 10);
        ledger.leave(new Request.Leave("j", 0, 10));
        ledger.announce(new Request.Announce("j", 0, 2, 10, 0, 1_000_000, new byte[1]));
        assertThat(arrive(0, 10, 1)).isEqualTo(new Answer.Waiting(0));
        for (int i = 0; i < 5000; i++) {
            String name = "b" + i;
            ledger.arrive(new Request.Arrive("j", name, 0, 10, i));
            ledger.withdraw(new Request.Withdraw("j", name, 0, 10, i));
        }
        assertThat(ledger.barriers()).isLessThan(2100);
        announce(1, 11);
        assertThat(arrive(1, 11, 2)).as("somebody waits there").isEqualTo(new Answer.Passed());
    }

    @Test
    void soAreThoseOfAWorldOfOneWhichNeverWaits() {
        ledger.announce(new Request.Announce("j", 0, 1, 10, 0, 1_000_000, new byte[1]));
        for (int i = 0; i < 5000; i++) {
            assertThat(ledger.arrive(new Request.Arrive("j", "b" + i, 0, 10, i)))
                    .isEqualTo(new Answer.Passed());
        }
        assertThat(ledger.barriers()).isLessThan(2100);
    }

    @Test
    void whoWithdrawsFromABarrierThatNobodyCameToMissesEveryone() {
        announce(0, 10);
        assertThat(ledger.withdraw(new Request.Withdraw("j", "new", 0, 10, 1)))
                .isEqualTo(new Answer.Withdrawn(List.of(0, 1)));
        assertThat(ledger.barriers()).as("it is not remembered for that").isZero();
    }
}
