package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Deadline;
import java.util.List;

/// Requests whose answers were lost, and come again.
final class Repeats {
    private Repeats() {}

    static void check(Store store, String job) {
        byte[] sealed = {0, 1, ':', 3, -1};
        Request zero = new Request.Announce(job, 0, 2, -1, 40, 60_000, sealed);
        Request one = new Request.Announce(job, 1, 2, Long.MIN_VALUE, 0, 60_000, sealed);
        assertThat(ask(store, zero)).isEqualTo(new Answer.Ok(41));
        assertThat(ask(store, zero)).isEqualTo(new Answer.Ok(41));
        assertThat(ask(store, one)).isEqualTo(new Answer.Ok(42));

        Request first = new Request.Arrive(job, "b:1", 0, -1, -7);
        Request second = new Request.Arrive(job, "b:1", 1, Long.MIN_VALUE, 8);
        assertThat(ask(store, first)).isEqualTo(new Answer.Waiting(0));
        assertThat(ask(store, first)).isEqualTo(new Answer.Waiting(0));
        assertThat(ask(store, second)).isEqualTo(new Answer.Passed());
        assertThat(ask(store, second)).isEqualTo(new Answer.Passed());
        assertThat(ask(store, first)).isEqualTo(new Answer.Passed());
        assertThat(ask(store, new Request.Withdraw(job, "b:1", 0, -1, -7)))
                .isEqualTo(new Answer.Passed());
        assertThat(ask(store, new Request.Arrive(job, "b:1", 0, -1, 9)))
                .isEqualTo(new Answer.Waiting(1));

        Request leave = new Request.Leave(job, 1, Long.MIN_VALUE);
        assertThat(ask(store, leave)).isEqualTo(new Answer.Removed());
        assertThat(ask(store, leave)).isEqualTo(new Answer.Removed());
        assertThat(ask(store, second)).as("passed before it left").isEqualTo(new Answer.Passed());
        assertThat(ask(store, new Request.Arrive(job, "b:1", 1, Long.MIN_VALUE, 10)))
                .isEqualTo(new Answer.Gone());

        Answer all = store.changes(new Request.Changes(job, 0, -1, 0), Deadline.in(Fixtures.SOON));
        assertThat(all)
                .isInstanceOfSatisfying(
                        Answer.Snapshot.class,
                        snapshot -> {
                            assertThat(snapshot.revision()).isEqualTo(4);
                            assertThat(snapshot.entries()).hasSize(1);
                            assertThat(snapshot.entries().getFirst().sealed()).isEqualTo(sealed);
                            assertThat(snapshot.entries().getFirst().incarnation()).isEqualTo(-1);
                            assertEvents(store, job, snapshot.instance());
                        });
    }

    private static void assertEvents(Store store, String job, long instance) {
        Answer events =
                store.changes(new Request.Changes(job, instance, 1, 0), Deadline.in(Fixtures.SOON));
        assertThat(events).isInstanceOf(Answer.Events.class);
        List<Answer.Change> changes = ((Answer.Events) events).changes();
        assertThat(changes).extracting(Answer.Change::revision).containsExactly(2L, 3L, 4L);
        assertThat(changes.get(1)).isEqualTo(new Answer.BarrierChange(3, "b:1", 1));
        assertThat(((Answer.RecordChange) changes.get(2)).kind()).isEqualTo(Answer.Kind.LEFT);
    }

    private static Answer ask(Store store, Request request) {
        return store.call(request, Deadline.in(Fixtures.SOON));
    }
}
