package io.telpher.cli.bench;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.DeviceMemory;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.ffi.linux.Processes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
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

    /// For an endpoint of the same run; emulated machines take some seconds.
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private static final int TRIES = 3;

    /// How long a peer may take to say where its memory is.
    private static final Duration SLOWEST = Duration.ofSeconds(5);

    /// How long a GPU's way may take to be tried and prepared before the first row.
    private static final Duration PREPARING = Duration.ofSeconds(30);

    final Stage stage;
    final int rank;
    final Endpoint endpoint;
    private final Arena foreign = Arena.ofShared();
    private final @Nullable CudaBuffer[] foreignOnGpu = new CudaBuffer[2];

    /// Fills and compares the memory.
    final RegionContent content = new RegionContent();

    final MemoryRegion source;
    final MemoryRegion target;
    final MemoryRegion words;
    private @Nullable MemorySegment notes;
    private final @Nullable Neighbour[] neighbours;

    /// Opens the endpoint and the memory.
    @SuppressWarnings("this-escape")
    Stand(Stage stage, int rank) {
        this.stage = stage;
        this.rank = rank;
        this.neighbours = new Neighbour[stage.ranks()];
        if (stage.path().equals("cma")) {
            // Where Yama lets only ancestors look into a process, the other ranks may all the same.
            Processes.prctl(Processes.PR_SET_PTRACER, Processes.PR_SET_PTRACER_ANY);
        }
        this.endpoint = Endpoint.open(options(stage));
        try {
            MemoryPair.Kind from = stage.memory().source();
            MemoryPair.Kind to = stage.memory().target();
            source = memory(from, share(), Access.READ, 0);
            target = memory(to, share() * stage.ranks(), Access.READ_WRITE, 1);
            // The words are polled by a thread, so they are in the host's memory.
            MemoryPair.Kind kind = stage.memory().onGpu() ? MemoryPair.Kind.TELPHER : to;
            long size = Math.max(PAGE, WORD_SPACING * stage.ranks());
            words = memory(kind, size, Access.READ_WRITE, 1);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    private static EndpointOptions options(Stage stage) {
        EndpointOptions options =
                EndpointOptions.fromEnvironment()
                        .withTransports(List.of(stage.transport()))
                        .withPaths(stage.allowedPaths())
                        .withPort(0)
                        .withLanes(stage.lanes());
        long largest =
                stage.memory().onGpu() ? 1 << 20 : Math.clamp(stage.room(), 1 << 20, 1 << 30);
        options = options.withMaxNotification((int) largest);
        return stage.rails().isEmpty() ? options : options.withInterfaces(stage.rails());
    }

    /// @param number of two: which one of foreign memory on a GPU it is
    private MemoryRegion memory(MemoryPair.Kind kind, long bytes, Access access, int number) {
        MemoryRegion region =
                switch (kind) {
                    case TELPHER, PINNED -> endpoint.allocate(bytes, access);
                    case FOREIGN -> endpoint.register(foreign.allocate(bytes, PAGE), access);
                    case CUDA -> endpoint.allocate(Gpus.of(rank), bytes, access);
                    case CUDA_FOREIGN -> {
                        CudaBuffer buffer = new CudaBuffer(Gpus.of(rank), bytes);
                        foreignOnGpu[number] = buffer;
                        yield endpoint.register(DeviceMemory.of(buffer.address(), bytes), access);
                    }
                };
        content.zero(region);
        return region;
    }

    /// @return host memory that notifications are taken from: the source, where that is on the host
    MemorySegment notes() {
        if (source.deviceMemory() == null) {
            return source.segment();
        }
        MemorySegment current = notes;
        if (current == null) {
            current = foreign.allocate(room(), PAGE);
            notes = current;
        }
        return current;
    }

    /// @return bytes for measured operations in the source, and in the part of the target that
    ///     belongs to one rank; those of a load lie behind
    long room() {
        return Math.max(LEAST_ROOM, pages(stage.room()));
    }

    /// @return bytes of the source, and of the part of the target that belongs to one rank
    private long share() {
        return room() + pages(stage.load());
    }

    private static long pages(long bytes) {
        return (bytes + PAGE - 1) & -PAGE;
    }

    /// @return first byte in a rank's target of what `from` writes or sends there, or of what is
    ///     read from it
    long landing(int from) {
        return from * share();
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

    /// Connects to the neighbours of higher rank, then waits for those of lower rank, and tries the
    /// path with each of them.
    ///
    /// @param descriptions what each rank's [#describe] gave, by rank
    /// @throws BenchFailure when one-sided operations do not go by the stage's path; says why
    void connect(List<Message> descriptions) {
        int expected = 0;
        for (Message other : descriptions) {
            int number = (int) other.number("rank");
            if (number != rank && isNeighbour(number)) {
                if (number > rank) {
                    EndpointAddress address = EndpointAddress.parse(other.text("address"));
                    adopt(other, dial(address));
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
        if (stage.byGpu()) {
            for (int target : targets()) {
                settle(neighbour(target), Op.WRITE);
                settle(neighbour(target), Op.READ);
            }
        } else if (!stage.memory().onGpu()) {
            for (Neighbour neighbour : neighbours) {
                if (neighbour != null) {
                    tryOut(neighbour, Op.WRITE);
                    tryOut(neighbour, Op.READ);
                }
            }
        }
    }

    /// Tries whether one-sided operations go the way that is to be measured: what cannot go there
    /// goes by messages, and would be measured under its name. A peer that is slow to say where its
    /// memory is, on a busy host for seconds, has the first ones go so, too.
    private void tryOut(Neighbour peer, Op op) {
        String path = "";
        for (long pause = 10; pause < SLOWEST.toMillis() && stage.fits(op); pause *= 2) {
            Transfer transfer = eightBytes(peer, op);
            transfer.await();
            path = transfer.path();
            if (path.equals(stage.path())) {
                return;
            }
            LockSupport.parkNanos(Duration.ofMillis(pause).toNanos());
        }
        if (stage.fits(op)) {
            throw new BenchFailure(
                    "%ss of %s memory go by %s:%n%s"
                            .formatted(
                                    op.word(), stage.memory(), path, peer.connection().explain()));
        }
    }

    private Transfer eightBytes(Neighbour peer, Op op) {
        Connection connection = peer.connection();
        return op == Op.WRITE
                ? connection.write(
                        new MemorySlice(source, 0, Long.BYTES), peer.target().slice(0, Long.BYTES))
                : connection.read(
                        new MemorySlice(target, landing(peer.rank()), Long.BYTES),
                        peer.source().slice(0, Long.BYTES));
    }

    /// Connects, if need be in several tries: the first handshake of a process loads its code, and
    /// where processors are busy or emulated that takes longer than the other side waits.
    private Connection dial(EndpointAddress address) {
        for (int left = TRIES - 1; ; left--) {
            try {
                return endpoint.connect(address, PATIENCE);
            } catch (TelpherException.ConnectFailed e) {
                if (left == 0) {
                    throw e;
                }
            }
        }
    }

    /// Waits until one-sided operations go the way that is to be measured: GPUs and the peer's
    /// memory are prepared in the background, while operations go as messages.
    ///
    /// @throws BenchFailure when they do not; says why
    private void settle(Neighbour peer, Op op) {
        if (!stage.fits(op)) {
            return;
        }
        String way = stage.way(op);
        long end = System.nanoTime() + PREPARING.toNanos();
        long before = done(peer.connection(), way);
        while (System.nanoTime() < end) {
            eightBytes(peer, op).await();
            if (done(peer.connection(), way) > before) {
                return;
            }
            String refusal = refusal(peer.connection());
            if (!refusal.isEmpty()) {
                throw new BenchFailure(
                        "no %s of %s memory by %s: %s"
                                .formatted(op.word(), stage.memory(), way, refusal));
            }
        }
        throw new BenchFailure(
                "%ss of %s memory have not gone by %s within %d s:%n%s"
                        .formatted(
                                op.word(),
                                stage.memory(),
                                way,
                                PREPARING.toSeconds(),
                                peer.connection().explain()));
    }

    /// @return what the connection says of ways by a GPU that were tried in vain, or nothing
    private static String refusal(Connection connection) {
        return connection.refusals().stream()
                .map(Connection.Refusal::reason)
                .collect(Collectors.joining("; "));
    }

    private static long done(Connection connection, String way) {
        return connection.metrics().paths().stream()
                .filter(path -> path.name().equals(way))
                .mapToLong(ConnectionMetrics.Path::transfersDone)
                .sum();
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
                        remote(description, "target").slice(landing(rank), share()),
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
        Connection first = first();
        return first == null ? "" : first.explain();
    }

    /// @return lanes of the first connection that carry frames
    int lanes() {
        Connection first = first();
        return first == null
                ? 0
                : (int)
                        first.metrics().lanes().stream()
                                .filter(ConnectionMetrics.Lane::alive)
                                .count();
    }

    private @Nullable Connection first() {
        for (Neighbour neighbour : neighbours) {
            if (neighbour != null) {
                return neighbour.connection();
            }
        }
        return null;
    }

    @Override
    public void close() {
        endpoint.close();
        foreign.close();
        content.close();
        for (CudaBuffer buffer : foreignOnGpu) {
            if (buffer != null) {
                buffer.close();
            }
        }
    }
}
