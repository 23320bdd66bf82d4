package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.TransferOptions;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// The limit on notifications, raised above the default of 16 MiB.
class NotificationLimitTest {
    private static final int LIMIT = 32 << 20;

    @ParameterizedTest
    @EnumSource(names = {"SELF", "RING", "TCP"})
    void aHigherLimitLetsLargerOnesThrough(TestPath path) {
        try (Couple couple = Couple.open(o -> path.restrict(o).withMaxNotification(LIMIT))) {
            Connection connection = couple.connect().here().connection();
            CompletableFuture<Boolean> taken =
                    couple.there().begin(self -> Content.check(take(self), 0, LIMIT, 5));
            Outcome.of(connection.notifyPeer(Bytes.off(LIMIT, 5))).assertDone();
            Peer.result(taken);

            MemorySegment more = Bytes.off(LIMIT + 1, 6);
            MemoryRegion source = couple.here().add("source", Kind.TELPHER, 10);
            RemoteMemory target = couple.there().add("target", Kind.TELPHER, 10);
            TransferOptions options = TransferOptions.DEFAULTS.withNotification(more);
            for (Runnable operation :
                    new Runnable[] {
                        () -> connection.notifyPeer(more),
                        () -> connection.tryNotify(more, 0, LIMIT + 1),
                        () -> connection.write(source.all(), target, options)
                    }) {
                assertThatThrownBy(operation::run)
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContainingAll("33554433", "33554432", "maxNotification");
            }
            couple.checkWorks();
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"SELF", "RING", "TCP"})
    void aPeerWithALowerLimitRefuses(TestPath path) {
        try (Couple couple =
                Couple.open(o -> path.restrict(o).withMaxNotification(LIMIT), path::restrict)) {
            Connection connection = couple.connect().here().connection();
            MemorySegment large = Bytes.off(LIMIT, 5);
            assertThat(Outcome.failure(() -> connection.notifyPeer(large)))
                    .isInstanceOf(TelpherException.AccessDenied.class)
                    .hasMessageContainingAll("33554432", "above the peer's limit")
                    .hasMessageContaining("maxNotification");
            Outcome.of(connection.notifyPeer(Bytes.off(3, 3))).assertDone();
            assertThat(couple.there().<Long>run(self -> take(self).byteSize())).isEqualTo(3);
            couple.checkWorks();
        }
    }

    private static MemorySegment take(Participant self) {
        return MemorySegment.ofArray(
                self.connection().awaitNotification(Participant.LIMIT).payload());
    }
}
