package io.telpher.cli.bench;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.cli.Content;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/// One rank of a full mesh at work: an endpoint, the memory of its GPU, and a connection to every
/// rank of the other host. Used by one thread, which has helpers during a run.
final class MeshRank implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final int LOOKS_BETWEEN_MESSAGES = 64;

    private final MeshSeat seat;
    private final Endpoint endpoint;
    private final RegionContent content = new RegionContent();
    private final MemoryRegion memory;
    private final List<Neighbour> others = new ArrayList<>();
    private final List<String> names = new ArrayList<>();

    /// Opens the endpoint and the memory.
    MeshRank(MeshSeat seat) {
        this.seat = seat;
        endpoint = Endpoint.open(seat.options());
        try {
            MeshLayout layout = seat.layout(seat.plan().largest());
            long bytes = seat.source() ? layout.sourceBytes() : layout.targetBytes();
            Access access = seat.source() ? Access.READ : Access.READ_WRITE;
            memory =
                    seat.onGpu()
                            ? endpoint.allocate(seat.gpu(), bytes, access)
                            : endpoint.allocate(bytes, access);
            content.zero(memory);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    /// @return what the other host needs to connect here
    Message describe() {
        return Message.of("opened")
                .with("number", seat.number())
                .with("name", seat.name())
                .with("device", seat.onGpu() ? seat.gpu().toString() : "")
                .with("address", endpoint.address().text())
                .with("memory", HexFormat.of().formatHex(memory.remote().toBytes()));
    }

    /// Connects a source to all targets.
    ///
    /// @param targets what each of them said of itself
    void connect(List<Message> targets) {
        for (Message target : targets) {
            int number = (int) target.number("number");
            names.add(target.text("name"));
            try {
                Connection connection =
                        endpoint.connect(EndpointAddress.parse(target.text("address")), PATIENCE);
                RemoteMemory remote =
                        RemoteMemory.ofBytes(HexFormat.of().parseHex(target.text("memory")));
                // It has one memory, which serves as all that a rank of bench has.
                others.add(new Neighbour(number, connection, remote, remote, remote));
            } catch (TelpherException e) {
                throw new BenchFailure(pair(number) + ": cannot connect: " + e.getMessage(), e);
            }
        }
    }

    /// Waits until every source has connected to this target.
    void accept() {
        RemoteMemory own = memory.remote();
        while (others.size() < seat.plan().peers()) {
            try {
                others.add(new Neighbour(-1, endpoint.accept(PATIENCE), own, own, own));
            } catch (TelpherException.TimedOut e) {
                throw new BenchFailure(
                        "%d of %d ranks of the other host have connected to %s within %d s"
                                .formatted(
                                        others.size(),
                                        seat.plan().peers(),
                                        seat.name(),
                                        PATIENCE.toSeconds()),
                        e);
            }
        }
    }

    private String pair(int target) {
        return "%s -> %s".formatted(seat.name(), names.get(target));
    }

    /// Fills a source with the content of a round.
    void prepare(MeshRound round) {
        if (!round.hasSource(seat.number())) {
            return;
        }
        MeshLayout layout = seat.layout(round.bytes());
        long seed = Content.seed(round.number(), seat.number(), round.bytes());
        content.fill(memory, 0, layout.sourceBytes(), seed, 0);
        if (round.spoiled() == seat.number()) {
            content.spoil(memory, 0);
        }
    }

    /// Writes to every target of the round, from its start to its end.
    ///
    /// @return a message for each pair
    List<Message> write(MeshRound round) {
        MeshLayout layout = seat.layout(round.bytes());
        List<MeshFlow> flows = new ArrayList<>();
        for (Neighbour target : others) {
            if (round.has(seat.number(), target.rank())) {
                String what = pair(target.rank()) + ": write of " + Sizes.format(round.bytes());
                flows.add(new MeshFlow(what, memory, seat.number(), target, layout));
            }
        }
        long end = round.start() + (long) (round.seconds() * 1e9);
        MeshThreads.run(parts(flows), part -> drive(part, round.start(), end));
        return flows.stream().map(MeshFlow::result).toList();
    }

    private static void drive(List<MeshFlow> flows, long start, long end) {
        long early;
        while ((early = start - System.nanoTime()) > 0) {
            LockSupport.parkNanos(early);
        }
        flows.forEach(MeshFlow::begin);
        boolean open = true;
        while (open) {
            open = false;
            for (MeshFlow flow : flows) {
                open |= flow.turn(end);
            }
            Thread.yield();
        }
    }

    /// Deals out what there is to do to as many threads as this rank has cores.
    private <T> List<List<T>> parts(List<T> all) {
        int threads = Math.clamp(Cores.available().size() / seat.ranks(), 1, 64);
        List<List<T>> parts = new ArrayList<>();
        for (int i = 0; i < Math.min(threads, all.size()); i++) {
            parts.add(new ArrayList<>());
        }
        for (int i = 0; i < all.size(); i++) {
            parts.get(i % parts.size()).add(all.get(i));
        }
        return parts;
    }

    /// Keeps a target's connections going until the next message, in a round that it is part of.
    void serve(MeshRound round, BooleanSupplier messageIsThere) {
        if (!round.hasTarget(seat.number())) {
            return;
        }
        MeshThreads.serve(parts(others), this::poll, messageIsThere);
    }

    private void poll(List<Neighbour> part) {
        for (int i = 0; i < LOOKS_BETWEEN_MESSAGES; i++) {
            for (Neighbour source : part) {
                source.connection().poll();
            }
            Thread.yield();
        }
        for (Neighbour source : part) {
            if (!source.connection().isOpen()) {
                TelpherException failure = source.connection().failure();
                throw new BenchFailure(
                        "a connection to %s ended: %s"
                                .formatted(
                                        seat.name(),
                                        failure == null ? "closed" : failure.getMessage()));
            }
        }
    }

    /// Looks for the first wrong byte among what a round wrote here.
    ///
    /// @return the source's number and what is wrong, or null
    @Nullable Wrong check(MeshRound round) {
        MeshLayout layout = seat.layout(round.bytes());
        for (int source = 0; source < seat.plan().peers(); source++) {
            if (round.has(source, seat.number())) {
                for (int slot = 0; slot < layout.depth(); slot++) {
                    long wrong = firstWrong(round, layout, source, slot);
                    if (wrong >= 0) {
                        return new Wrong(
                                source,
                                "byte %d of write %d of %s is wrong"
                                        .formatted(wrong, slot, Sizes.format(round.bytes())));
                    }
                }
            }
        }
        return null;
    }

    /// @param source whose write it was
    /// @param text what is wrong with it
    record Wrong(int source, String text) {}

    private long firstWrong(MeshRound round, MeshLayout layout, int source, int slot) {
        long seed = Content.seed(round.number(), source, round.bytes());
        long origin = layout.origin(seat.number(), slot);
        long landing = layout.landing(source, slot);
        long part = RegionContent.part(memory);
        for (long at = 0; at < round.bytes(); at += part) {
            long length = Math.min(part, round.bytes() - at);
            RegionContent.Readable here = content.read(memory, landing + at, length);
            long wrong =
                    Content.firstWrong(here.memory(), here.offset(), length, seed, origin + at);
            if (wrong >= 0) {
                return at + wrong;
            }
        }
        return -1;
    }

    @Override
    public void close() {
        endpoint.close();
        content.close();
    }
}
