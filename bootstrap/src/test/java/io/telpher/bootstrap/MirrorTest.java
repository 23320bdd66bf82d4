package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class MirrorTest {
    private final Seal seal = new Seal(Fixtures.secret(), "j");
    private final Mirror mirror = new Mirror(seal);

    private Answer.Entry entry(int rank, long epoch) {
        EndpointAddress address = Fixtures.address();
        return new Answer.Entry(rank, 2, address.incarnation(), epoch, seal.seal(rank, 2, address));
    }

    private void happen(Answer.Change... changes) {
        mirror.apply(new Answer.Events(List.of(changes)));
    }

    private static RendezvousEvent next(Watch watch) {
        return watch.next(Duration.ZERO);
    }

    @Test
    void watchThatIsNotReadGetsASnapshotOfNow() {
        mirror.apply(new Answer.Snapshot(5, 0, List.of()));
        Watch slow = mirror.watch();
        for (int i = 1; i <= 1500; i++) {
            happen(new Answer.BarrierChange(i, "b", i));
        }
        RendezvousEvent first = next(slow);
        assertThat(first).isInstanceOf(RendezvousEvent.Snapshot.class);
        for (long revision = first.revision() + 1; revision <= 1500; revision++) {
            assertThat(next(slow)).isEqualTo(new RendezvousEvent.Passed(revision, "b", revision));
        }
        assertThatThrownBy(() -> next(slow)).isInstanceOf(TelpherException.TimedOut.class);
    }

    @Test
    void missingRevisionAsksForASnapshot() {
        mirror.apply(new Answer.Snapshot(5, 10, List.of()));
        Watch watch = mirror.watch();
        next(watch);
        happen(new Answer.BarrierChange(11, "b", 1), new Answer.BarrierChange(13, "b", 3));
        assertThat(mirror.next("j", 1)).isEqualTo(new Request.Changes("j", 0, -1, 1));
        assertThat(next(watch).revision()).isEqualTo(11);
        mirror.apply(new Answer.Snapshot(5, 13, List.of()));
        assertThat(next(watch)).isEqualTo(new RendezvousEvent.Snapshot(13, List.of()));
    }

    @Test
    void recordsOfStrangersAreRefusedByName() {
        Answer.Entry good = entry(0, 1);
        Answer.Entry moved = new Answer.Entry(1, 2, good.incarnation(), 2, good.sealed()); // a copy
        mirror.apply(new Answer.Snapshot(5, 2, List.of(good, moved)));
        assertThat(mirror.members()).extracting(Member::rank).containsExactly(0);
        Watch watch = mirror.watch();
        assertThat(next(watch)).isInstanceOf(RendezvousEvent.Snapshot.class);
        assertThatThrownBy(() -> next(watch))
                .isInstanceOf(TelpherException.AccessDenied.class)
                .hasMessageContaining("rank 1 of job 'j'");
        Answer.Entry right = entry(1, 3);
        happen(
                new Answer.RecordChange(3, Answer.Kind.LEFT, moved),
                new Answer.RecordChange(4, Answer.Kind.JOINED, right));
        assertThat(next(watch)).isInstanceOf(RendezvousEvent.Joined.class);
        assertThat(mirror.members()).hasSize(2);
    }

    @Test
    void sealHidesTheAddress() {
        EndpointAddress address = EndpointAddress.of("a.host.by.name", 1, Fixtures.secret());
        String sealed =
                new String(seal.seal(0, 1, address), java.nio.charset.StandardCharsets.ISO_8859_1);
        assertThat(sealed).doesNotContain("a.host.by.name").doesNotContain(Fixtures.SECRET);
    }
}
