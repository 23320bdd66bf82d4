package io.telpher.cli.bench;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What one rank owns during a [Stage]: an endpoint that allows the stage's path only, its memory,
/// and connections to its neighbours. Used by the rank's thread.
final class Stand implements AutoCloseable {
    /// Bytes between the counter words of two ranks: no two share a cache line, nor a pair of
    /// lines.
    static final long WORD_SPACING = 256;

    /// Enough for all operations in flight to have buffers of their own in the checks of small
    /// sizes.
    private static final long LEAST_ROOM = 1 << 20;

    private static final long PAGE = 4096;
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    final Stage stage;
    final int rank;
    final Endpoint endpoint;
    private final Arena foreign = Arena.ofShared();
    final MemoryRegion source;
    final MemoryRegion target;
    final MemoryRegion words;
    private final @Nullable Neighbour[] neighbours;

    /// Opens the endpoint and the memory.
    @SuppressWarnings("this-escape")
    Stand(Stage stage, int rank) {
        this.stage = stage;
        this.rank = rank;
        this.neighbours = new Neighbour[stage.ranks()];
        this.endpoint = Endpoint.open(options(stage));
        try {
            source = memory(stage.memory().source(), room(), Access.READ);
            target = memory(stage.memory().target(), room() * stage.ranks(), Access.READ_WRITE);
            words =
                    memory(
                            stage.memory().target(),
                            Math.max(PAGE, WORD_SPACING * stage.ranks()),
                            Access.READ_WRITE);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    private static EndpointOptions options(Stage stage) {
        EndpointOptions options =
                EndpointOptions.fromEnvironment()
                        .withTransports(List.of(stage.transport()))
                        .withPaths(List.of(stage.path()))
                        .withPort(0)
                        .withLanes(stage.lanes());
        long largest = Math.clamp(stage.room(), 1 << 20, 1 << 30);
        options = options.withMaxNotification((int) largest);
        return stage.rails().isEmpty() ? options : options.withInterfaces(stage.rails());
    }

    private MemoryRegion memory(MemoryPair.Kind kind, long bytes, Access access) {
        MemoryRegion region =
                switch (kind) {
                    case TELPHER -> endpoint.allocate(bytes, access);
                    case FOREIGN -> endpoint.register(foreign.allocate(bytes, PAGE), access);
                };
        region.segment().fill((byte) 0);
        return region;
    }

    /// @return bytes of the source, and of the part of the target that belongs to one rank
    long room() {
        return Math.max(LEAST_ROOM, (stage.room() + PAGE - 1) & -PAGE);
    }

    /// @return first byte in a rank's target of what `from` writes or sends there, or of what is
    ///     read from it
    long landing(int from) {
        return from * room();
    }

    /// @return what the other ranks need in order to connect to this one
    Message describe() {
        HexFormat hex = HexFormat.of();
        return Message.of("opened")
                .with("rank", rank)
                .with("address", endpoint.address().text())
                .with("source", hex.formatHex(source.remote().toBytes()))
                .with("target", hex.formatHex(target.remote().toBytes()))
                .with("words", hex.formatHex(words.remote().toBytes()));
    }

    /// Connects to the neighbours of higher rank, then waits for those of lower rank.
    ///
    /// @param descriptions what each rank's [#describe] gave, by rank
    void connect(List<Message> descriptions) {
        int expected = 0;
        for (Message other : descriptions) {
            int number = (int) other.number("rank");
            if (number != rank && isNeighbour(number)) {
                if (number > rank) {
                    EndpointAddress address = EndpointAddress.parse(other.text("address"));
                    adopt(other, endpoint.connect(address, PATIENCE));
                } else {
                    expected++;
                }
            }
        }
        for (; expected > 0; expected--) {
            Connection connection = endpoint.accept(PATIENCE);
            long incarnation = connection.peer().incarnation();
            adopt(
                    descriptions.stream()
                            .filter(d -> incarnation(d) == incarnation)
                            .findFirst()
                            .orElseThrow(
                                    () ->
                                            new BenchFailure(
                                                    "a stranger connected: " + connection.peer())),
                    connection);
        }
    }

    private static long incarnation(Message description) {
        return EndpointAddress.parse(description.text("address")).incarnation();
    }

    private void adopt(Message description, Connection connection) {
        int number = (int) description.number("rank");
        neighbours[number] =
                new Neighbour(
                        number,
                        connection,
                        remote(description, "source"),
                        remote(description, "target").slice(landing(rank), room()),
                        remote(description, "words"));
    }

    private static RemoteMemory remote(Message description, String name) {
        return RemoteMemory.ofBytes(HexFormat.of().parseHex(description.text(name)));
    }

    private boolean isNeighbour(int other) {
        return stage.traffic().targets(rank, stage.ranks(), Traffic.Direction.BOTH).contains(other);
    }

    /// @return a connected rank
    Neighbour neighbour(int number) {
        Neighbour found = neighbours[number];
        if (found == null) {
            throw new BenchFailure("rank " + rank + " is not connected to rank " + number);
        }
        return found;
    }

    /// @return the ranks that this one initiates towards
    List<Integer> targets() {
        return stage.traffic().targets(rank, stage.ranks(), stage.direction());
    }

    /// @return the ranks that initiate towards this one
    List<Integer> initiators() {
        return java.util.stream.IntStream.range(0, stage.ranks())
                .filter(
                        other ->
                                other != rank
                                        && stage.traffic()
                                                .targets(other, stage.ranks(), stage.direction())
                                                .contains(rank))
                .boxed()
                .toList();
    }

    /// Makes progress on every connection.
    void poll() {
        for (Neighbour neighbour : neighbours) {
            if (neighbour != null) {
                neighbour.connection().poll();
            }
        }
    }

    /// @throws BenchFailure when a connection ended
    void checkAlive() {
        for (Neighbour neighbour : neighbours) {
            if (neighbour != null && !neighbour.connection().isOpen()) {
                TelpherException failure = neighbour.connection().failure();
                throw new BenchFailure(
                        "the connection from rank %d to rank %d over %s ended: %s"
                                .formatted(
                                        rank,
                                        neighbour.rank(),
                                        stage.path(),
                                        failure == null ? "closed" : failure.getMessage()));
            }
        }
    }

    /// @return what the first connection says about its path
    String explain() {
        for (Neighbour neighbour : neighbours) {
            if (neighbour != null) {
                return neighbour.connection().explain();
            }
        }
        return "";
    }

    @Override
    public void close() {
        endpoint.close();
        foreign.close();
    }
}
