package io.telpher.sim;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Endpoint;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.Notification;
import io.telpher.Priority;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// The program of one side: posts random operations, and follows them to their ends.
final class Player {
    private final RandomRun run;
    private final RandomRun.Side side;
    private final Endpoint endpoint;
    private final Connection connection;
    private final RandomGenerator random;
    private final List<Ops.Op> tokens = new ArrayList<>();

    /// For short notifications.
    private final MemorySegment room = MemorySegment.ofArray(new byte[64]);

    Player(RandomRun run, RandomRun.Side side, Endpoint endpoint, Connection connection) {
        this.run = run;
        this.side = side;
        this.endpoint = endpoint;
        this.connection = connection;
        this.random = run.random;
    }

    void play() {
        int count = random.nextInt(4, 36);
        for (int i = 0; i < count; i++) {
            step();
            if (random.nextInt(3) == 0) {
                run.simulation.sleep(Duration.ofNanos(random.nextLong(1, 2_000_000)));
            }
            if (random.nextInt(3) == 0) {
                takeNotification();
            }
            pollTokens();
        }
        awaitAll();
    }

    /// Takes what is still coming in.
    void drain() {
        int quiet = 0;
        while (quiet < 20) {
            Notification next = connection.pollNotification();
            take(next);
            quiet = next == null ? quiet + 1 : 0;
            if (next == null) {
                run.simulation.sleep(Duration.ofMillis(20));
            }
        }
    }

    private void takeNotification() {
        if (random.nextBoolean()) {
            take(connection.pollNotification());
            return;
        }
        try {
            int length = connection.pollNotification(room);
            if (length >= 0) {
                run.arrivals.notified(side, room.asSlice(0, length).toArray(ValueLayout.JAVA_BYTE));
            }
        } catch (IndexOutOfBoundsException e) {
            take(connection.pollNotification()); // a large one
        }
    }

    private void take(@Nullable Notification note) {
        if (note != null) {
            run.arrivals.notified(side, note.payload());
        }
    }

    private void step() {
        switch (random.nextInt(27)) {
            case 0, 1, 2, 3, 4, 5, 6 -> write();
            case 7, 8, 9, 10 -> read();
            case 11, 12, 13, 14 -> send();
            case 15, 16, 17, 18 -> receive();
            case 19, 20 -> notifyPeer();
            case 21 -> cancel();
            case 22 -> {
                switch (random.nextInt(3)) {
                    case 0 -> reopen();
                    case 1 -> run.publish(side, 1);
                    default -> writeToClosed();
                }
            }
            case 23 -> lookUp();
            case 24, 25 -> postAgain();
            default -> takeNotification();
        }
    }

    private long length() {
        return switch (random.nextInt(16)) {
            case 0 -> 0;
            case 1, 2, 3, 4 -> random.nextInt(1, 17);
            case 5, 6, 7, 8, 9 -> random.nextInt(17, 2_000);
            case 10, 11, 12, 13 -> random.nextInt(2_000, 20_000);
            default -> random.nextInt(20_000, 90_000);
        };
    }

    private @Nullable Area area(RandomRun.Side of, long length, long[] at) {
        if (of.areas.isEmpty()) {
            return null;
        }
        Area area = of.areas.get(random.nextInt(of.areas.size()));
        at[0] = area.take(length);
        return at[0] < 0 ? null : area;
    }

    private TransferOptions options(Ops.Op op) {
        Duration deadline =
                random.nextInt(4) == 0
                        ? Duration.ofNanos(random.nextLong(1_000, 800_000_000))
                        : run.options.deadline();
        op.deadline = deadline.toNanos();
        TransferOptions options = TransferOptions.DEFAULTS.withDeadline(deadline);
        return random.nextInt(8) == 0 ? options.withPriority(Priority.HIGH) : options;
    }

    private byte[] note(Ops.Op op) {
        int size =
                switch (random.nextInt(8)) {
                    case 0 -> random.nextInt(8_000, 40_000);
                    case 1, 2 -> random.nextInt(40, 3_000);
                    default -> random.nextInt(8, 40);
                };
        byte[] note = new byte[size];
        RandomRun.put(op, note);
        return note;
    }

    /// Where a range is cut: into one piece, a few, or many, some of them empty.
    private long[] cuts(long length) {
        int count =
                switch (random.nextInt(8)) {
                    case 0 -> random.nextInt(6, 300);
                    case 1, 2 -> random.nextInt(2, 6);
                    default -> 1;
                };
        long[] cuts = new long[count + 1];
        for (int i = 1; i < count; i++) {
            cuts[i] = random.nextLong(length + 1);
        }
        cuts[count] = length;
        Arrays.sort(cuts);
        return cuts;
    }

    private static long[] offsets(long at, long[] cuts) {
        return Arrays.stream(cuts, 0, cuts.length - 1).map(cut -> at + cut).toArray();
    }

    private static long[] lengths(long[] cuts) {
        long[] lengths = new long[cuts.length - 1];
        Arrays.setAll(lengths, i -> cuts[i + 1] - cuts[i]);
        return lengths;
    }

    /// A range, cut anywhere.
    private MemorySlices pieces(Area area, long at, long length) {
        long[] cuts = cuts(length);
        return MemorySlices.of(area.region, offsets(at, cuts), lengths(cuts));
    }

    private RemoteSlices pieces(RemoteMemory memory, long at, long length) {
        long[] cuts = cuts(length);
        return RemoteSlices.of(memory, offsets(at, cuts), lengths(cuts));
    }

    private void write() {
        long length = length();
        long[] from = new long[1];
        long[] to = new long[1];
        Area own = area(side, length, from);
        Area target = area(side.other(), length, to);
        if (own == null || target == null) {
            return;
        }
        Ops.Op op = run.op(side, Ops.Kind.WRITE, length);
        op.local = own;
        op.localAt = from[0];
        op.target = target;
        op.targetAt = to[0];
        Ops.fill(own.memory, from[0], length, op.id);
        RemoteMemory remote = target.region.remote();
        if (random.nextInt(6) == 0) {
            op.deadline = run.options.deadline().toNanos();
            posted(op, connection.tryWrite(own.region, from[0], remote, to[0], length));
            return;
        }
        TransferOptions options = options(op);
        if (random.nextInt(3) == 0) {
            options = options.withNotification(MemorySegment.ofArray(note(op)));
        }
        if (random.nextInt(5) == 0) {
            long word = target.take(Long.BYTES);
            if (word >= 0) {
                op.counterAt = word;
                options =
                        options.withCounter(
                                CounterUpdate.add(remote.slice(word, Long.BYTES), op.id));
            }
        }
        post(
                op,
                random.nextBoolean()
                        ? connection.prepareWrite(
                                pieces(own, from[0], length),
                                pieces(remote, to[0], length),
                                options)
                        : connection.prepareWrite(
                                new MemorySlice(own.region, from[0], length),
                                remote.slice(to[0], length),
                                options));
    }

    private void read() {
        long length = length();
        long[] to = new long[1];
        long[] from = new long[1];
        Area own = area(side, length, to);
        Area source = area(side.other(), length, from);
        if (own == null || source == null) {
            return;
        }
        Ops.Op op = run.op(side, Ops.Kind.READ, length);
        op.local = own;
        op.localAt = to[0];
        op.target = source;
        op.targetAt = from[0];
        Ops.fill(source.memory, from[0], length, op.id);
        RemoteMemory remote = source.region.remote();
        if (random.nextInt(6) == 0) {
            op.deadline = run.options.deadline().toNanos();
            posted(op, connection.tryRead(own.region, to[0], remote, from[0], length));
            return;
        }
        TransferOptions options = options(op);
        post(
                op,
                random.nextBoolean()
                        ? connection.prepareRead(
                                pieces(own, to[0], length),
                                pieces(remote, from[0], length),
                                options)
                        : connection.prepareRead(
                                new MemorySlice(own.region, to[0], length),
                                remote.slice(from[0], length),
                                options));
    }

    private void send() {
        long length = length();
        long[] from = new long[1];
        Area own = area(side, length, from);
        if (own == null) {
            return;
        }
        Ops.Op op = run.op(side, Ops.Kind.SEND, length);
        op.local = own;
        op.localAt = from[0];
        op.tag = random.nextInt(RandomRun.TAGS);
        op.position = side.sendCount.merge(op.tag, 1, Integer::sum) - 1;
        Ops.fill(own.memory, from[0], length, op.id);
        run.arrivals.sent(op);
        if (random.nextInt(6) == 0) {
            op.deadline = run.options.deadline().toNanos();
            posted(op, connection.trySend(op.tag, own.region, from[0], length));
            return;
        }
        TransferOptions options = options(op);
        post(op, connection.prepareSend(op.tag, pieces(own, from[0], length), options));
    }

    private void receive() {
        long length = Math.max(length(), random.nextInt(3) == 0 ? 0 : 20_000);
        long[] to = new long[1];
        Area own = area(side, length, to);
        if (own == null) {
            return;
        }
        Ops.Op op = run.op(side, Ops.Kind.RECEIVE, length);
        op.local = own;
        op.localAt = to[0];
        op.tag = random.nextInt(RandomRun.TAGS);
        op.position = side.receiveCount.merge(op.tag, 1, Integer::sum) - 1;
        if (random.nextInt(6) == 0) {
            op.deadline = run.options.deadline().toNanos();
            posted(op, connection.tryReceive(op.tag, own.region, to[0], length));
            return;
        }
        TransferOptions options = options(op);
        post(op, connection.prepareReceive(op.tag, pieces(own, to[0], length), options));
    }

    private void notifyPeer() {
        Ops.Op op = run.op(side, Ops.Kind.NOTIFY, 0);
        byte[] note = note(op);
        if (random.nextInt(4) == 0) {
            op.deadline = run.options.deadline().toNanos();
            op.ordered = true;
            posted(op, connection.tryNotify(MemorySegment.ofArray(note), 0, note.length));
            return;
        }
        TransferOptions options = options(op);
        op.ordered = options.priority() == Priority.NORMAL;
        RandomRun.follow(op, connection.notifyPeer(MemorySegment.ofArray(note), options));
    }

    private void post(Ops.Op op, Transfer transfer) {
        transfer.post();
        RandomRun.follow(op, transfer);
    }

    /// Follows an operation that was posted for a token.
    private void posted(Ops.Op op, long token) {
        if (token < 0) {
            op.ended(
                    token == Connection.TIMED_OUT ? TransferState.TIMED_OUT : TransferState.FAILED,
                    RemoteQuiet.UNKNOWN,
                    0);
            return;
        }
        op.token = token;
        tokens.add(op);
    }

    private void pollTokens() {
        for (int i = tokens.size() - 1; i >= 0; i--) {
            Ops.Op op = tokens.get(i);
            int result = connection.poll(op.token);
            if (result == Connection.PENDING) {
                continue;
            }
            tokens.remove(i);
            op.ended(
                    result == Connection.DONE
                            ? TransferState.DONE
                            : result == Connection.TIMED_OUT
                                    ? TransferState.TIMED_OUT
                                    : TransferState.FAILED,
                    RemoteQuiet.UNKNOWN,
                    op.kind == Ops.Kind.RECEIVE ? connection.bytesMoved() : op.length);
        }
    }

    private void cancel() {
        if (side.own.isEmpty()) {
            return;
        }
        Transfer transfer = side.own.get(random.nextInt(side.own.size())).transfer;
        if (transfer != null) {
            boolean unused = transfer.cancel();
        }
    }

    /// Closes an area and opens another.
    private void reopen() {
        int index = random.nextInt(side.areas.size());
        Area old = side.areas.get(index);
        long since = run.simulation.scheduler.now();
        old.close();
        side.closingNanos += run.simulation.scheduler.now() - since;
        run.retired(side, old);
        side.areas.set(index, new Area(endpoint, 96 << 10));
        if (random.nextBoolean()) {
            run.publish(side, index);
        }
    }

    /// Names a region of the peer that is closed already.
    private void writeToClosed() {
        List<Area> closed = side.other().closed;
        if (closed.isEmpty()) {
            return;
        }
        Area target = closed.get(random.nextInt(closed.size()));
        long length = random.nextInt(1, 2_000);
        long[] from = new long[1];
        Area own = area(side, length, from);
        long at = target.take(length);
        if (own == null || at < 0) {
            return;
        }
        Ops.Op op = run.op(side, Ops.Kind.WRITE, length);
        op.local = own;
        op.localAt = from[0];
        op.target = target;
        op.targetAt = at;
        op.hopeless = true;
        Ops.fill(own.memory, from[0], length, op.id);
        post(
                op,
                connection.prepareWrite(
                        new MemorySlice(own.region, from[0], length),
                        target.region.remote().slice(at, length),
                        options(op)));
    }

    /// Looks a name of the peer up, in a program of its own: this one has tokens to poll.
    private void lookUp() {
        String name = "area" + random.nextInt(2);
        Duration atMost = Duration.ofNanos(random.nextLong(1, 900_000_000));
        boolean there = side.other().published.containsKey(name);
        side.host.start("asker", () -> lookUp(name, atMost, there));
    }

    private void lookUp(String name, Duration atMost, boolean there) {
        try {
            RemoteMemory found = connection.lookup(name, atMost);
            if (!side.other().published.getOrDefault(name, List.of()).contains(found)) {
                run.violated("'" + name + "' gave what was never published: " + found);
            }
        } catch (TelpherException.TimedOut e) {
            if (there && run.isCalm() && atMost.toNanos() >= Ops.UNHURRIED) {
                run.violated("'" + name + "' is published and was not found");
            }
        } catch (TelpherException e) {
            if (connection.isOpen()) {
                run.violated("'" + name + "': " + e);
            }
        }
    }

    /// Posts a transfer that has ended once more, with other bytes.
    private void postAgain() {
        List<Ops.Op> ended = side.own.stream().filter(Ops.Op::mayGoAgain).toList();
        if (ended.isEmpty()) {
            return;
        }
        Ops.Op before = ended.get(random.nextInt(ended.size()));
        Ops.Op op = run.op(side, before.kind, before.length);
        op.follow(before);
        Area own = op.local;
        Area target = op.target;
        Transfer transfer = before.transfer;
        if (own == null || transfer == null) {
            return;
        }
        switch (op.kind) {
            case WRITE -> Ops.fill(own.memory, op.localAt, op.length, op.id);
            case READ -> {
                if (target != null) {
                    Ops.fill(target.memory, op.targetAt, op.length, op.id);
                }
            }
            case SEND -> {
                op.position = side.sendCount.merge(op.tag, 1, Integer::sum) - 1;
                Ops.fill(own.memory, op.localAt, op.length, op.id);
                run.arrivals.sent(op);
            }
            default -> op.position = side.receiveCount.merge(op.tag, 1, Integer::sum) - 1;
        }
        post(op, transfer);
    }

    private void awaitAll() {
        Duration most = Duration.ofSeconds(20);
        // Nobody learns of the ends of tokens but by polling, so they come first.
        long until = run.simulation.scheduler.now() + most.toNanos();
        while (!tokens.isEmpty() && run.simulation.scheduler.now() < until) {
            pollTokens();
            run.simulation.sleep(Duration.ofNanos(500_000));
        }
        for (Ops.Op op : tokens) {
            run.violated(op + " does not end");
        }
        for (Ops.Op op : List.copyOf(side.own)) {
            Transfer transfer = op.transfer;
            if (transfer != null && !transfer.await(most)) {
                run.violated(op + " does not end");
            }
        }
    }
}
