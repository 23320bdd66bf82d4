package io.telpher.proof;

import io.telpher.bootstrap.RendezvousFuzz;
import io.telpher.internal.engine.FramesFuzz;
import io.telpher.internal.observe.SnapshotFuzz;
import io.telpher.internal.transport.shm.ShmLinkFuzz;
import io.telpher.internal.transport.tcp.TcpInputFuzz;
import io.telpher.internal.transport.tcp.TcpLocatorFuzz;
import io.telpher.internal.transport.verbs.VerbsFuzz;
import io.telpher.internal.wire.AddressFuzz;
import io.telpher.internal.wire.HandshakeFuzz;
import io.telpher.internal.wire.RemoteMemoryFuzz;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.function.Consumer;

/// What is fuzzed: the decoders of what another process sends, and files that are read as NCCL's
/// topology. Each has a folder of inputs in `src/test/resources/corpus`.
///
/// Not here, but in tests with cases by hand: records in a ring that the peer writes
/// (`ShmRingLaneTest`), frames behind checksums (`ChecksumTest`), and requests to GPUs' windows
/// beside the record of an export.
enum Fuzzed {
    ADDRESS(AddressFuzz.class, AddressFuzz::fuzzerTestOneInput),
    HANDSHAKE(HandshakeFuzz.class, HandshakeFuzz::fuzzerTestOneInput),
    REMOTE_MEMORY(RemoteMemoryFuzz.class, RemoteMemoryFuzz::fuzzerTestOneInput),
    FRAMES(FramesFuzz.class, FramesFuzz::fuzzerTestOneInput),
    TCP_INPUT(TcpInputFuzz.class, TcpInputFuzz::fuzzerTestOneInput),
    TCP_LOCATOR(TcpLocatorFuzz.class, TcpLocatorFuzz::fuzzerTestOneInput),
    SHM_LINK(ShmLinkFuzz.class, ShmLinkFuzz::fuzzerTestOneInput),
    VERBS(VerbsFuzz.class, VerbsFuzz::fuzzerTestOneInput),
    RENDEZVOUS(RendezvousFuzz.class, RendezvousFuzz::fuzzerTestOneInput),
    SNAPSHOT(SnapshotFuzz.class, SnapshotFuzz::fuzzerTestOneInput),
    TOPOLOGY(TopologyFuzz.class, TopologyFuzz::fuzzerTestOneInput);

    final Class<?> type;
    final Consumer<byte[]> target;

    Fuzzed(Class<?> type, Consumer<byte[]> target) {
        this.type = type;
        this.target = target;
    }

    /// @return the folder of its inputs
    Path corpus() {
        try {
            return Path.of(Fuzzed.class.getResource("/corpus/" + type.getSimpleName()).toURI());
        } catch (URISyntaxException e) {
            throw new AssertionError(e);
        }
    }
}
