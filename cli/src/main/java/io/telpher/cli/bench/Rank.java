package io.telpher.cli.bench;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import com.sun.management.ThreadMXBean;
import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.cli.Content;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/// One participant of a run. A phase is: [#prepare], then [#run], then [#serve] until every rank
/// has run, then [#check]; those are done by a thread of its own. Used by one thread at a time.
final class Rank implements AutoCloseable {
    private static final ThreadMXBean THREADS =
            ManagementFactory.getPlatformMXBean(ThreadMXBean.class);
    private static final int LOOKS_BETWEEN_MESSAGES = 256;
    private static final int WORD_POLLS = 32;

    final int number;
    private final MeasuringThread thread;
    private final Arena arena = Arena.ofShared();
    private @Nullable MemorySegment inbox;
    private MemorySegment[][] payloads = {};
    private @Nullable Stand stand;
    private @Nullable Phase phase;
    private @Nullable Flight out;
    private @Nullable Inbox in;
    private final Histogram times = PhaseResult.histogram();
    private long cpuBefore;

    Rank(int number) {
        this.number = number;
        this.thread = new MeasuringThread("telpher-rank-" + number);
    }

    /// Keeps the thread that measures on one core.
    ///
    /// @return why that could not be done, or ""
    String pin(int core) {
        return thread.pin(core);
    }

    /// Opens what the stage needs.
    ///
    /// @return what the other ranks must know
    Message open(Stage stage) {
        closeStand();
        Stand opened =
                stage.sharesCores()
                        ? thread.call(() -> new Stand(stage, number))
                        : new Stand(stage, number);
        stand = opened;
        return opened.describe();
    }

    /// Connects to the neighbours.
    void connect(List<Message> descriptions) {
        Stand s = stand();
        if (s.stage.sharesCores()) {
            thread.run(() -> s.connect(descriptions));
        } else {
            s.connect(descriptions);
        }
    }

    Stand stand() {
        Stand current = stand;
        if (current == null) {
            throw new BenchFailure("rank " + number + " has no endpoint: 'open' comes first");
        }
        return current;
    }

    private Phase phase() {
        Phase current = phase;
        if (current == null) {
            throw new BenchFailure("rank " + number + " has no phase: 'prepare' comes first");
        }
        return current;
    }

    /// Fills the buffers and sets up the operations.
    void prepare(Phase next) {
        thread.run(() -> setUp(next));
    }

    private void setUp(Phase next) {
        Stand s = stand();
        long spread = next.spread();
        if (next.bytes() > s.stage.room() || spread * ((next.bytes() + 7) & -8L) > s.room()) {
            throw new BenchFailure(next + " does not fit into " + s.room() + " bytes");
        }
        phase = next;
        long seed = Content.seed(next.round(), number, next.bytes());
        for (int slot = 0; slot < spread; slot++) {
            long near = slot * next.spacing();
            if (next.op() == Op.NOTIFY) {
                Content.fill(s.notes(), near, next.bytes(), seed, near);
            } else {
                s.content.fill(s.source, near, next.bytes(), seed, near);
            }
        }
        s.words.segment().fill((byte) 0);
        out = outgoing(s, next);
        in = incoming(s, next);
        times.reset();
    }

    /// Changes a byte of what this rank is about to write or send.
    void spoil() {
        long at = phase().bytes() / 2;
        if (phase().op() == Op.NOTIFY) {
            MemorySegment notes = stand().notes();
            notes.set(JAVA_BYTE, at, (byte) ~notes.get(JAVA_BYTE, at));
        } else {
            stand().content.spoil(stand().source, at);
        }
    }

    private List<Integer> partners(Stand s, Phase p) {
        List<Integer> targets = new ArrayList<>(s.targets());
        if (p.shape() == Phase.Shape.PING_PONG && !p.op().oneSided()) {
            for (int initiator : s.initiators()) {
                if (!targets.contains(initiator)) {
                    targets.add(initiator);
                }
            }
        }
        return targets;
    }

    private @Nullable Flight outgoing(Stand s, Phase p) {
        List<Integer> targets = partners(s, p);
        if (targets.isEmpty()) {
            return null;
        }
        boolean pingPong = p.shape() == Phase.Shape.PING_PONG;
        int each = pingPong ? (p.op().oneSided() ? 1 : Loops.BEATS) : p.depth();
        List<Flight.Slot> slots = new ArrayList<>();
        for (int i = 0; i < each; i++) {
            for (int target : targets) {
                slots.add(slot(s, p, s.neighbour(target), i));
            }
        }
        Flight.Kind kind =
                p.prepared()
                        ? Flight.Kind.TRANSFER
                        : switch (p.op()) {
                            case WRITE, COUNTER -> Flight.Kind.WRITE;
                            case READ -> Flight.Kind.READ;
                            case SEND -> Flight.Kind.SEND;
                            case NOTIFY -> Flight.Kind.NOTIFY;
                        };
        String what = p + " over " + s.stage.path();
        return new Flight(
                kind,
                what,
                p.bytes(),
                slots.toArray(Flight.Slot[]::new),
                p.op() == Op.NOTIFY ? s.notes() : MemorySegment.NULL,
                pause(s));
    }

    private Flight.Slot slot(Stand s, Phase p, Neighbour peer, int index) {
        long near = p.shape() == Phase.Shape.PING_PONG ? 0 : index * p.spacing();
        boolean read = p.op() == Op.READ;
        long localOffset = read ? s.landing(peer.rank()) + near : near;
        return new Flight.Slot(
                peer,
                number,
                read ? s.target : s.source,
                localOffset,
                read ? peer.source() : peer.target(),
                near,
                p.prepared() ? transfer(s, p, peer, localOffset, near, index) : null);
    }

    private Transfer transfer(
            Stand s, Phase p, Neighbour peer, long localOffset, long near, int index) {
        Connection connection = peer.connection();
        TransferOptions options = TransferOptions.DEFAULTS;
        return switch (p.op()) {
            case READ ->
                    connection.prepareRead(
                            Scatter.local(
                                    s.target,
                                    localOffset,
                                    p.bytes(),
                                    p.pieces(),
                                    Scatter.Order.PERMUTED),
                            Scatter.remote(
                                    peer.source(),
                                    near,
                                    p.bytes(),
                                    p.pieces(),
                                    Scatter.Order.STRAIGHT),
                            options);
            case WRITE ->
                    p.pieces() == 1
                            ? connection.prepareWrite(
                                    new MemorySlice(s.source, near, p.bytes()),
                                    peer.target().slice(near, p.bytes()),
                                    options)
                            : connection.prepareWrite(
                                    Scatter.local(
                                            s.source,
                                            near,
                                            p.bytes(),
                                            p.pieces(),
                                            Scatter.Order.STRAIGHT),
                                    Scatter.remote(
                                            peer.target(),
                                            near,
                                            p.bytes(),
                                            p.pieces(),
                                            Scatter.Order.PERMUTED),
                                    options);
            case COUNTER -> {
                RemoteMemory word = peer.words().slice(number * Stand.WORD_SPACING, Long.BYTES);
                CounterUpdate update =
                        p.shape() == Phase.Shape.PING_PONG
                                ? CounterUpdate.set(word, index + 1)
                                : CounterUpdate.add(word, 1);
                yield connection.prepareWrite(
                        new MemorySlice(s.source, near, p.bytes()),
                        peer.target().slice(near, p.bytes()),
                        options.withCounter(update));
            }
            case SEND ->
                    connection.prepareSend(
                            number,
                            Scatter.local(
                                    s.source, near, p.bytes(), p.pieces(), Scatter.Order.STRAIGHT),
                            options);
            case NOTIFY ->
                    throw new BenchFailure("notifications have neither pieces nor a prepared form");
        };
    }

    private static Pause pause(Stand s) {
        return Pause.of(s.stage.ranks());
    }

    private List<Integer> senders(Stand s, Phase p) {
        if (p.op().oneSided()) {
            return List.of();
        }
        return p.shape() == Phase.Shape.PING_PONG ? partners(s, p) : s.initiators();
    }

    private @Nullable Inbox incoming(Stand s, Phase p) {
        List<Integer> senders = senders(s, p);
        if (senders.isEmpty()) {
            return null;
        }
        Connection[] connections =
                senders.stream().map(r -> s.neighbour(r).connection()).toArray(Connection[]::new);
        return switch (p.op()) {
            case SEND -> Inbox.ofReceives(connections, receives(s, p, senders), pause(s));
            case NOTIFY -> {
                payloads = payloads(p, connections.length);
                yield Inbox.ofNotifications(connections, payloads, pause(s));
            }
            default ->
                    Inbox.ofWords(
                            connections,
                            s.words.segment(),
                            senders.stream().mapToLong(r -> r * Stand.WORD_SPACING).toArray(),
                            s.stage.transport().equals("tcp") ? 1 : WORD_POLLS,
                            pause(s));
        };
    }

    private static Flight receives(Stand s, Phase p, List<Integer> senders) {
        int each = p.shape() == Phase.Shape.PING_PONG ? 2 : p.depth();
        List<Flight.Slot> slots = new ArrayList<>();
        for (int i = 0; i < each; i++) {
            for (int sender : senders) {
                Neighbour peer = s.neighbour(sender);
                long at =
                        s.landing(sender)
                                + (p.shape() == Phase.Shape.PING_PONG ? 0 : i * p.spacing());
                slots.add(new Flight.Slot(peer, sender, s.target, at, peer.target(), 0, null));
            }
        }
        return new Flight(
                Flight.Kind.RECEIVE,
                "receiving " + p + " over " + s.stage.path(),
                p.bytes(),
                slots.toArray(Flight.Slot[]::new),
                MemorySegment.NULL,
                pause(s));
    }

    /// Places for the notifications of each sender, as many as have contents of their own.
    private MemorySegment[][] payloads(Phase p, int senders) {
        long each = (p.bytes() + 7) & -8L;
        MemorySegment all = inboxMemory((long) senders * p.spread() * each);
        MemorySegment[][] places = new MemorySegment[senders][p.spread()];
        long at = 0;
        for (MemorySegment[] ofSender : places) {
            for (int slot = 0; slot < ofSender.length; slot++) {
                ofSender[slot] = all.asSlice(at, p.bytes());
                at += each;
            }
        }
        return places;
    }

    private MemorySegment inboxMemory(long bytes) {
        MemorySegment current = inbox;
        if (current == null || current.byteSize() < bytes) {
            current = arena.allocate(Math.max(bytes, 1 << 16), 64);
            inbox = current;
        }
        return current;
    }

    /// Runs this rank's loop.
    PhaseResult run() {
        return thread.call(this::loop);
    }

    private PhaseResult loop() {
        Stand s = stand();
        Phase p = phase();
        cpuBefore = CpuClock.nanos();
        Flight flight = out;
        Inbox messages = in;
        int targets = s.targets().size();
        long expected = messages == null ? 0 : s.initiators().size() * p.count();
        long allocated = THREADS.getCurrentThreadAllocatedBytes();
        long start = System.nanoTime();
        long end = p.timed() ? start + (long) (p.seconds() * 1e9) : start + Long.MAX_VALUE / 2;
        long done;
        if (p.style() == Phase.Style.LIST && flight != null) {
            done = Loops.lists(flight, p.count(), end, times);
        } else if (p.shape() == Phase.Shape.STREAM) {
            long count = p.timed() ? p.count() : p.count() * targets;
            done = Loops.stream(flight, messages, count, expected, end, p.mask(), times);
        } else if (flight == null) {
            done = 0;
        } else if (messages == null) {
            done = Loops.oneByOne(flight, p.count(), end, p.group(), times);
        } else if (targets == 0) {
            Loops.pong(flight, messages, p.count());
            done = 0;
        } else {
            Loops.ping(flight, messages, p.count(), p.group(), times);
            done = p.count();
        }
        long nanos = System.nanoTime() - start;
        allocated = THREADS.getCurrentThreadAllocatedBytes() - allocated;
        return new PhaseResult(number, done, nanos, allocated, times);
    }

    /// Keeps the connections going until a message is there, unless the engine's own thread does.
    void serve(BooleanSupplier messageIsThere) {
        if (!stand().stage.parks(phase().op())) {
            thread.run(() -> poll(messageIsThere));
        }
    }

    private void poll(BooleanSupplier messageIsThere) {
        Stand s = stand();
        Pause pause = pause(s);
        while (!messageIsThere.getAsBoolean()) {
            if (pause == Pause.YIELD) {
                s.poll();
                pause.now();
            } else {
                for (int i = 0; i < LOOKS_BETWEEN_MESSAGES; i++) {
                    s.poll();
                }
            }
            s.checkAlive();
        }
    }

    /// Compares what has arrived here with what was sent.
    Verdict check() {
        return thread.call(this::compare);
    }

    private Verdict compare() {
        long cpu = CpuClock.nanos() - cpuBefore;
        Stand s = stand();
        Phase p = phase();
        List<Integer> from =
                p.op() == Op.READ
                        ? s.targets()
                        : p.op() == Op.WRITE ? s.initiators() : senders(s, p);
        Comparer comparer = new Comparer(s, p, number);
        for (int i = 0; i < from.size(); i++) {
            if (p.op() == Op.NOTIFY) {
                comparer.notifications(payloads[i], from.get(i));
            } else {
                comparer.operations(from.get(i));
            }
        }
        return new Verdict(comparer.wrong(), comparer.first(), cpu);
    }

    private void closeStand() {
        Stand old = stand;
        stand = null;
        phase = null;
        out = null;
        in = null;
        if (old != null) {
            old.close();
        }
    }

    /// Ends the stage.
    void leave() {
        closeStand();
    }

    @Override
    public void close() {
        closeStand();
        thread.close();
        arena.close();
    }
}
