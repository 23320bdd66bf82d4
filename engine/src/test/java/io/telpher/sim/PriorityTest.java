package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.Priority;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Bulk that travels as frames, by priority.
class PriorityTest {
    private static final TransferOptions HIGH =
            TransferOptions.DEFAULTS.withPriority(Priority.HIGH);
    private static final int SIZE = 1 << 20;
    private static final int COUNT = 8;
    private static final int PIECE = 1024;
    private static final int PIECES = 1000;

    /// Posts the same as the others, or in pieces.
    private interface Form {
        Transfer post(Connection peer, MemoryRegion own, RemoteMemory there, TransferOptions as);
    }

    /// Each operation with the form of the one that overtakes: no piece is long enough for a frame
    /// of its own.
    private enum Operation {
        WRITE((peer, own, there, as) -> peer.write(own.all(), there, as)),
        READ((peer, own, there, as) -> peer.read(own.all(), there, as)),
        READ_PIECES(
                (peer, own, there, as) ->
                        peer.read(
                                MemorySlices.strided(own, 0, PIECE, PIECE, PIECES),
                                RemoteSlices.strided(there, PIECE, PIECE, PIECES),
                                as));

        final Form urgent;

        Operation(Form urgent) {
            this.urgent = urgent;
        }

        Transfer usual(Connection peer, MemoryRegion own, RemoteMemory there) {
            return (this == WRITE ? WRITE : READ)
                    .urgent.post(peer, own, there, TransferOptions.DEFAULTS);
        }
    }

    @ParameterizedTest
    @EnumSource
    void theUrgentOvertakesTheUsual(Operation operation) {
        for (LinkOptions.Style style : LinkOptions.Style.values()) {
            try (Neighbours hosts = new Neighbours(1, LinkOptions.DEFAULTS.withStyle(style))) {
                AtomicReference<RemoteMemory> there = new AtomicReference<>();
                hosts.accept(hosts.right, endpoint -> there.set(endpoint.allocate(SIZE).remote()));
                hosts.connect(
                        hosts.left,
                        (endpoint, peer) -> {
                            MemoryRegion own = endpoint.allocate(SIZE);
                            List<Transfer> usual =
                                    IntStream.range(0, COUNT)
                                            .mapToObj(i -> operation.usual(peer, own, there.get()))
                                            .toList();
                            operation.urgent.post(peer, own, there.get(), HIGH).await();
                            assertThat(usual)
                                    .filteredOn(transfer -> transfer.state().isTerminal())
                                    .as("what was under way before, over a %s", style)
                                    .hasSizeLessThan(COUNT / 2);
                            usual.forEach(Transfer::await);
                        });
                hosts.run();
            }
        }
    }
}
