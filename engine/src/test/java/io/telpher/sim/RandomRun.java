package io.telpher.sim;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.Notification;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.engine.Leftovers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// One seed: two hosts, random links, random operations of both sides, random faults; checks what
/// Telpher promises.
final class RandomRun implements AutoCloseable {
    private static final Duration LONG = Duration.ofSeconds(60);

    private static final Duration CONNECT = Duration.ofSeconds(10);

    static final int TAGS = 4;
    private static final double FAST = 50e6;
    private static final Duration LONGER = LONG.multipliedBy(5);

    /// A peer's end is noticed within this, faults included.
    private static final Duration NOTICED = Duration.ofSeconds(20);

    /// Everything that is under way comes to its end within this, faults included. The slowest
    /// stream has a buffer of 256 bytes and a delay of 16 ms each way: a chunk of what was given up
    /// takes 8 s.
    private static final Duration SETTLED = Duration.ofSeconds(80);

    /// The engine gives strangers 5 s; what was dialled beside the way that worked takes as long as
    /// a connect may.
    private static final Duration HANDSHAKE = CONNECT.plusSeconds(2);

    /// Deadlines are looked at every 50 ms, on a thread that rests 10 ms between looks: two of
    // them.
    private static final Duration LOOKS = Duration.ofMillis(120);

    /// Ten of the longest times for which a loaded machine takes the processor away.
    private static final Duration TAKEN_AWAY = Duration.ofMillis(200);

    static final Duration LIVENESS = Duration.ofSeconds(3);

    final Simulation simulation;
    final RandomGenerator random;
    final EndpointOptions options;
    final long drainNanos;

    /// How much later than its deadline and the drain limit a transfer may end.
    final long latenessNanos;

    final boolean windows;
    final LinkOptions.Style style;
    final Side left;
    final Side right;

    private final List<SimLink> links = new ArrayList<>();
    private final Map<Long, Ops.Op> ops = new LinkedHashMap<>();
    final Arrivals arrivals = new Arrivals(this, ops);
    private final List<Area> retired = new ArrayList<>();
    private final List<String> violations = new ArrayList<>();

    private final boolean takers;

    /// Both sides connect at the same time.
    private final boolean crossing;

    /// Of the tags that there are, so many need not be forgotten.
    private final int tagsKept;

    /// How many faults there are.
    private int faults;

    /// Nothing goes wrong, so nothing may be late.
    private boolean calm;

    private long ids;
    boolean over;

    /// One host of the run.
    final class Side {
        final String name;
        final SimHost host;
        final List<Area> areas = new ArrayList<>();
        final List<Area> closed = new ArrayList<>();

        /// What it has published under each name, the newest last.
        final Map<String, List<RemoteMemory>> published = new LinkedHashMap<>();

        final List<Ops.Op> own = new ArrayList<>();
        final Map<Long, Integer> sendCount = new HashMap<>();
        final Map<Long, Integer> receiveCount = new HashMap<>();
        @Nullable EndpointAddress address;
        @Nullable Endpoint endpoint;
        @Nullable SimProcess process;
        @Nullable Connection connection;

        /// Its program has posted everything, and everything has ended.
        boolean finished;

        /// It was there to the end and has taken every notification.
        boolean drained;

        /// The latest of those notifications that come in order.
        long lastOrdered = -1;

        /// Nothing was left when everything had ended, as far as it could be seen.
        boolean settled;

        /// Its process was ended.
        boolean dead;

        /// Another process comes, or has come, after the first was ended.
        @Nullable Rebirth rebirth;

        /// How long its program was closing areas.
        long closingNanos;

        long pausedNanos;
        long pausedSince;

        Side(String name) {
            this.name = name;
            this.host = simulation.host(name);
        }

        Side other() {
            return this == left ? right : left;
        }

        void pause() {
            host.pause();
            pausedSince = simulation.scheduler.now();
        }

        void resume() {
            host.resume();
            if (pausedSince != 0) {
                pausedNanos += simulation.scheduler.now() - pausedSince;
                pausedSince = 0;
            }
        }
    }

    RandomRun(long seed, Planted planted, LinkOptions.@Nullable Style only) {
        simulation = new Simulation(seed);
        simulation.planted = planted;
        random = simulation.random();
        style =
                only != null
                        ? only
                        : random.nextInt(100) < 60
                                ? LinkOptions.Style.STREAM
                                : LinkOptions.Style.RING;
        left = new Side("left");
        right = new Side("right");
        windows = style == LinkOptions.Style.RING && random.nextBoolean();
        int count = style == LinkOptions.Style.RING ? 1 : random.nextInt(1, 4);
        for (int i = 0; i < count; i++) {
            links.add(simulation.link(left.host, right.host, linkOptions()));
        }
        double load = new double[] {0, 0.002, 0.02, 0.1}[random.nextInt(4)];
        simulation.load(load);
        latenessNanos = LOOKS.plus(load == 0 ? Duration.ZERO : TAKEN_AWAY).toNanos();
        options =
                EndpointOptions.DEFAULTS
                        .withSpin(Duration.ofNanos(random.nextInt(8) == 0 ? 20_000 : 0))
                        .withDeadline(Duration.ofMillis(random.nextInt(500, 4_000)))
                        .withDrainLimit(Duration.ofMillis(500))
                        .withChecksums(random.nextInt(4) == 0)
                        .withLiveness(LIVENESS);
        takers = random.nextBoolean();
        crossing = random.nextInt(4) == 0;
        tagsKept = random.nextInt(TAGS + 1);
        drainNanos = options.drainLimit().toNanos();
    }

    private LinkOptions linkOptions() {
        int payload = 32_768 << random.nextInt(3);
        return new LinkOptions(
                style,
                Duration.ofNanos(random.nextLong(1, random.nextInt(4) == 0 ? 3_000_000 : 60_000)),
                Duration.ofNanos(random.nextInt(20_000)),
                (long) Math.pow(10, random.nextDouble(7, 10)),
                style == LinkOptions.Style.RING ? 0 : random.nextInt(3),
                style == LinkOptions.Style.RING
                        ? payload * random.nextInt(2, 6)
                        : 256 << random.nextInt(11),
                payload,
                windows);
    }

    /// Whether a link carries all that a run posts in a fraction of a deadline.
    private static boolean isFast(LinkOptions o) {
        double turn = 2e-9 * (o.latency().toNanos() + o.jitter().toNanos());
        return o.bytesPerSecond() > FAST
                && (o.style() == LinkOptions.Style.RING || o.buffer() / turn > FAST);
    }

    // --- what players ask -----------------------------------------------------------------------

    Ops.Op op(Side side, Ops.Kind kind, long length) {
        Ops.Op op = new Ops.Op(this, side, ++ids, kind, length);
        op.postedAt = simulation.scheduler.now();
        ops.put(op.id, op);
        side.own.add(op);
        simulation.log(side.name, "posts " + op);
        return op;
    }

    /// An area was closed: it is still looked at in the end.
    void retired(Side side, Area area) {
        retired.add(area);
        if (area.isClosed()) {
            side.closed.add(area);
        }
        simulation.log(side.name, "closed " + area.region.toString().replaceAll(",.*", ""));
    }

    void violated(String what) {
        violations.add(what);
        simulation.log("CHECK", what);
    }

    long disturbedNanos(Side side) {
        return side.pausedNanos
                + (side.pausedSince == 0 ? 0 : simulation.scheduler.now() - side.pausedSince);
    }

    /// Takes notifications as they come, until the connection ends.
    private void take(Side side, Connection connection) {
        while (connection.isOpen() && !(side.finished && side.other().finished)) {
            try {
                arrivals.notified(
                        side, connection.awaitNotification(Duration.ofMillis(100)).payload());
            } catch (TelpherException e) {
                // None came, or the connection has ended.
            }
        }
    }

    /// Whether notifications are taken as they come: else a sender may wait for credits.
    boolean takesAtOnce() {
        return takers;
    }

    boolean isCalm() {
        return calm;
    }

    /// Whether there are faults beside the one that the caller knows of.
    boolean hasOtherFaults() {
        return faults > 1;
    }

    // --- the run --------------------------------------------------------------------------------

    /// Runs it.
    ///
    /// @return what was wrong
    List<String> run() {
        start(right, true);
        start(left, false);
        faults = Math.max(0, random.nextInt(7) - 2);
        calm = faults == 0 && links.stream().allMatch(l -> isFast(l.options()));
        for (int i = 0; i < faults; i++) {
            simulation.after(
                    Duration.ofNanos(random.nextLong(30_000_000)), new Faults(this, links)::strike);
        }
        try {
            simulation.run();
        } catch (IllegalStateException e) {
            violated(
                    e
                            + ": "
                            + e.getCause()
                            + trace(e.getCause())
                            + simulation.scheduler.standings());
            return violations;
        }
        over = true;
        simulation.runFor(Duration.ofSeconds(2));
        for (Ops.Op op : ops.values()) {
            op.checkAtRest();
            arrivals.checkReceived(op);
        }
        arrivals.checkOrder();
        if (calm) {
            arrivals.checkMet();
        }
        for (Area area : retired) {
            String changed = area.changedSinceClose();
            if (changed != null) {
                violated(changed);
            }
        }
        for (Side side : List.of(left, right)) {
            checkEnded(side);
        }
        return violations;
    }

    /// An endpoint that was closed, and the process that it was the only one of, hold nothing.
    private void checkEnded(Side side) {
        Rebirth rebirth = side.rebirth;
        if (rebirth != null) {
            rebirth.checkAtRest();
        }
        Endpoint endpoint = side.endpoint;
        SimProcess process = side.process;
        if (endpoint == null || process == null || side.dead) {
            return;
        }
        List<String> rest = held(endpoint, process);
        if (!rest.isEmpty()) {
            simulation.runFor(HANDSHAKE);
            rest = held(endpoint, process);
        }
        if (!rest.isEmpty()) {
            violated(side.name + " has closed its endpoint and still holds: " + rest);
        }
    }

    private static List<String> held(Endpoint endpoint, SimProcess process) {
        List<String> rest = new ArrayList<>(Leftovers.of(endpoint));
        rest.addAll(process.leftovers());
        return rest;
    }

    /// What both sides hold while nothing is under way.
    private List<String> held(Connection connection, Connection peer) {
        List<String> rest = new ArrayList<>(Leftovers.between(connection, peer));
        for (Side side : List.of(left, right)) {
            java.util.Objects.requireNonNull(side.process)
                    .windowLeftovers()
                    .forEach(each -> rest.add(side.name + ": " + each));
        }
        return rest;
    }

    private static String trace(@Nullable Throwable e) {
        if (e == null) {
            return "";
        }
        StringBuilder text = new StringBuilder();
        for (StackTraceElement frame : e.getStackTrace()) {
            text.append("\n      at ").append(frame);
        }
        return text.toString();
    }

    private void start(Side side, boolean accepts) {
        side.host.start("player", () -> play(side, accepts));
    }

    private void play(Side side, boolean accepts) {
        try (Endpoint endpoint = side.host.open(options)) {
            side.endpoint = endpoint;
            side.process = side.host.process();
            for (int i = 0; i < 2; i++) {
                side.areas.add(new Area(endpoint, 192 << 10));
            }
            publish(side, 0);
            side.address = endpoint.address();
            Connection connection;
            try {
                connection =
                        accepts && !crossing
                                ? endpoint.accept(LONG)
                                : connect(endpoint, side.other());
            } catch (TelpherException e) {
                if (calm) {
                    violated(side.name + " does not meet its peer, with nothing in its way: " + e);
                }
                side.finished = true; // a fault came first
                return;
            }
            side.connection = connection;
            Leftovers.keepTags(connection, tagsKept);
            if (takers) {
                side.host.start("taker", () -> take(side, connection));
            }
            new Player(this, side, endpoint, connection).play();
            side.finished = true;
            // The other may still need this side.
            simulation.await(() -> side.other().finished || side.other().dead, LONGER);
            new Player(this, side, endpoint, connection).drain();
            side.drained = connection.isOpen();
            simulation.await(
                    () -> side.other().drained || side.other().dead || !connection.isOpen(),
                    LONGER);
            if (side.other().dead) {
                survive(side, endpoint, connection);
            } else {
                settle(side, connection);
            }
        }
    }

    /// The other process is gone: that must be noticed, and another one may be in its place.
    private void survive(Side side, Endpoint endpoint, Connection connection) {
        if (!isWithin(() -> !connection.isOpen(), NOTICED)) {
            violated(side.name + " does not notice that its peer is gone");
            return;
        }
        Rebirth rebirth = side.other().rebirth;
        if (rebirth != null) {
            rebirth.visit(endpoint, side);
        }
    }

    /// Everything has ended, and the connection lives: nothing may be left of what was.
    private void settle(Side side, Connection connection) {
        Connection peer = side.other().connection;
        if (peer == null) {
            return;
        }
        boolean settled =
                isWithin(
                        () -> {
                            takeLate(side, connection);
                            return !connection.isOpen()
                                    || !peer.isOpen()
                                    || held(connection, peer).isEmpty();
                        },
                        SETTLED);
        if (!settled) {
            violated("is at rest and still holds: " + held(connection, peer));
        }
        side.settled = true;
        simulation.await(
                () -> {
                    takeLate(side, connection);
                    return side.other().settled || !connection.isOpen();
                },
                LONGER);
    }

    /// A notification may come long after its sender has given it up.
    private void takeLate(Side side, Connection connection) {
        Notification late;
        while ((late = connection.pollNotification()) != null) {
            arrivals.notified(side, late.payload());
        }
    }

    private boolean isWithin(BooleanSupplier condition, Duration atMost) {
        try {
            simulation.await(condition, atMost);
            return true;
        } catch (TelpherException.TimedOut e) {
            return false;
        }
    }

    /// Publishes an area of a side as it is now.
    void publish(Side side, int index) {
        String name = "area" + index;
        RemoteMemory memory = side.areas.get(index).region.remote();
        side.published.computeIfAbsent(name, n -> new ArrayList<>()).add(memory);
        java.util.Objects.requireNonNull(side.endpoint).publish(name, memory);
    }

    private Connection connect(Endpoint endpoint, Side to) {
        simulation.await(() -> to.address != null, LONG);
        EndpointAddress address = java.util.Objects.requireNonNull(to.address);
        return endpoint.connect(address, CONNECT);
    }

    @Override
    public void close() {
        simulation.close();
    }

    /// What a transfer's callback needs.
    static void follow(Ops.Op op, Transfer transfer) {
        op.transfer = transfer;
        transfer.onEnd(t -> op.ended(t.state(), t.remoteQuiet(), t.bytesMoved()));
    }

    static void put(Ops.Op op, byte[] note) {
        java.nio.ByteBuffer.wrap(note).putLong(op.id);
        for (int i = Long.BYTES; i < note.length; i++) {
            note[i] = Ops.pattern(op.id, i);
        }
        op.note = note.length;
    }
}
