package io.telpher.cli.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.Connection;
import io.telpher.EndpointAddress;
import io.telpher.cli.Content;
import io.telpher.internal.ffi.linux.Processes;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/// One process of a soak: does what the driver's lines say, and tells it what happens, until the
/// driver is gone or says `finish`. `docs/soak.md` lists the lines.
final class SoakRank {
    private static final int PR_SET_PDEATHSIG = 1;
    private static final long STUCK = 60_000_000_000L;
    private static final int TICK_MILLIS = 100;
    private static final int TICKS_A_SECOND = 1000 / TICK_MILLIS;
    private static final int TICKS_A_COLLECTION = 10 * TICKS_A_SECOND;

    private final PrintStream driver;
    private final Events events;
    private final int number;
    private final long seed;
    private final Plant plant;
    private final List<Side> sides = new ArrayList<>();
    private final Graveyard graveyard = new Graveyard();
    private final ConcurrentLinkedQueue<Thread> threads = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean failed = new AtomicBoolean();
    private final LongAdder ended = new LongAdder();
    private final LongAdder done = new LongAdder();
    private final LongAdder bytes = new LongAdder();
    private final LongAdder checked = new LongAdder();
    private final LongAdder unchecked = new LongAdder();
    private volatile boolean over;

    private SoakRank(
            PrintStream driver, int number, int life, long seed, Path folder, Plant plant) {
        this.driver = driver;
        this.number = number;
        this.seed = Content.seed(seed, number, life);
        this.plant = plant;
        this.events = new Events(folder.resolve("rank-" + number + ".events"));
    }

    /// Runs a rank over standard input and output.
    ///
    /// @param out where lines go
    static void run(PrintStream out) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        // A stopped process does not see its input end: it goes with the driver's thread.
        Processes.prctl(PR_SET_PDEATHSIG, Processes.SIGKILL);
        // Where only relatives may be looked at, the other ranks are allowed to.
        Processes.prctl(Processes.PR_SET_PTRACER, Processes.PR_SET_PTRACER_ANY);
        Clock.OWN.start();
        String[] words = String.valueOf(in.readLine()).split(" ", 6);
        SoakRank rank =
                new SoakRank(
                        out,
                        Integer.parseInt(words[0]),
                        Integer.parseInt(words[1]),
                        Long.parseLong(words[2]),
                        Path.of(words[5]),
                        Plant.valueOf(words[4]));
        try {
            rank.open(words[3].split(","));
        } catch (RuntimeException e) {
            rank.failed(e);
        }
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                rank.obey(line.split(" "));
            } catch (RuntimeException e) {
                rank.failed(e);
            }
        }
        Runtime.getRuntime().halt(0); // the driver is gone
    }

    private void open(String[] paths) {
        for (String name : paths) {
            SoakPath path = SoakPath.parse(name);
            sides.add(new Side(this, path, number + "." + name));
            if (path == SoakPath.SELF) {
                Side other = new Side(this, path, number + "." + name + "-2");
                sides.add(other);
                sides.get(sides.size() - 2).peer(other.name(), other.endpoint().address());
            }
        }
        for (Side side : sides) {
            side.start();
            if (side.path() != SoakPath.SELF) {
                say("ready " + side.name() + " " + side.endpoint().address().text());
            }
        }
        start("watch", this::watch);
    }

    private void obey(String[] words) {
        switch (words[0]) {
            case "peer" -> {
                EndpointAddress address = EndpointAddress.parse(words[2]);
                String path = words[1].substring(words[1].indexOf('.') + 1);
                sides.stream()
                        .filter(side -> side.path().text().equals(path))
                        .forEach(side -> side.peer(words[1], address));
            }
            case "gone" -> sides.forEach(side -> side.gone(words[1]));
            case "recycle" -> each(words, Conversation::recycle);
            case "part" -> each(words, c -> c.close(Conversation.Wish.PARTING));
            case "abrupt" -> each(words, c -> c.close(Conversation.Wish.ABRUPT));
            case "cut" -> cut(Integer.parseInt(words[1]));
            case "finish" -> finish();
            default -> throw new SoakFailure("no line of this version: " + Arrays.toString(words));
        }
    }

    private List<Conversation> conversations() {
        return sides.stream().flatMap(side -> side.conversations().stream()).toList();
    }

    /// One conversation, chosen by the driver's dice.
    private void each(String[] words, java.util.function.Consumer<Conversation> action) {
        List<Conversation> all = conversations();
        if (!all.isEmpty()) {
            action.accept(all.get(Integer.parseInt(words[1]) % all.size()));
        }
    }

    private void cut(int dice) {
        List<Conversation> tcp =
                sides.stream()
                        .filter(side -> side.path() == SoakPath.TCP)
                        .flatMap(side -> side.conversations().stream())
                        .toList();
        if (!tcp.isEmpty()) {
            Conversation one = tcp.get(dice % tcp.size());
            int alive = Scissors.cut(one.connection, dice);
            if (alive > 0) {
                say("cut " + id(one.connection) + " " + alive);
            }
        }
    }

    // --- for conversations ----------------------------------------------------------------------

    /// @return what a thread draws from, the same whenever this life of this rank is run again
    long seed(String side, String peer, int conversation) {
        long x = seed;
        for (char c : (side + " " + peer).toCharArray()) {
            x = Content.seed(x, c, conversation);
        }
        return x;
    }

    Graveyard graveyard() {
        return graveyard;
    }

    void log(Supplier<String> text) {
        events.log(text.get());
    }

    void counted(Outcome outcome) {
        ended.increment();
        if (outcome.done()) {
            done.increment();
        }
    }

    /// Bytes of an operation that is done.
    void moved(long count) {
        bytes.add(count);
    }

    /// The bytes of an operation were looked at.
    void checked() {
        checked.increment();
    }

    /// They could not be, since the other end is gone or has closed its memory.
    void unchecked() {
        unchecked.increment();
    }

    private static String id(Connection connection) {
        return Long.toHexString(connection.metrics().id());
    }

    void opened(Conversation conversation) {
        say(
                "opened "
                        + id(conversation.connection)
                        + " "
                        + conversation.side.name()
                        + " "
                        + conversation.peer());
    }

    void closing(Connection connection, String how) {
        say("closing " + id(connection) + " " + how);
    }

    void over(Conversation conversation, String why) {
        say(
                "over %s %s %s %s"
                        .formatted(
                                id(conversation.connection),
                                conversation.side.name(),
                                conversation.peer(),
                                why));
    }

    void start(String name, Runnable task) {
        Thread thread =
                Thread.ofPlatform()
                        .daemon()
                        .name("soak-" + name)
                        .unstarted(
                                () -> {
                                    try {
                                        task.run();
                                    } catch (RuntimeException | Error e) {
                                        failed(e);
                                    } finally {
                                        threads.remove(Thread.currentThread());
                                    }
                                });
        threads.add(thread);
        thread.start();
    }

    private void say(String line) {
        String one = line.replace("\n", " | ");
        if (!one.startsWith("ready")) { // its address holds a secret
            events.log(one);
        }
        synchronized (driver) {
            driver.println(one);
            driver.flush();
        }
    }

    private void failed(Throwable e) {
        StringBuilder text = new StringBuilder(e instanceof SoakFailure ? "" : e + ": ");
        text.append(e.getMessage());
        if (!(e instanceof SoakFailure)) {
            Arrays.stream(e.getStackTrace())
                    .limit(12)
                    .forEach(f -> text.append("\n at ").append(f));
        }
        if (failed.compareAndSet(false, true)) {
            say("fail " + text);
        } else {
            events.log(text.toString());
        }
    }

    // --- watching -------------------------------------------------------------------------------

    private void watch() {
        long heap = 0;
        long last = System.nanoTime();
        for (int tick = 1; !over; tick++) {
            LockSupport.parkNanos(TICK_MILLIS * 1_000_000L);
            graveyard.look();
            if (tick % TICKS_A_COLLECTION == 0 || tick == TICKS_A_SECOND) {
                System.gc(); // so that what is counted is alive
                heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
            }
            long now = System.nanoTime();
            boolean paused = now - last > STUCK / 4;
            last = now;
            if (tick % TICKS_A_SECOND == 0) {
                say(
                        "stat %d %d %d %d %d %d"
                                .formatted(
                                        ended.sum(),
                                        done.sum(),
                                        bytes.sum(),
                                        checked.sum(),
                                        unchecked.sum(),
                                        heap));
                plant.grow(conversations(), tick / TICKS_A_SECOND);
                if (!paused) {
                    conversations().forEach(c -> checkTurns(c, now));
                }
            }
        }
    }

    private void checkTurns(Conversation conversation, long now) {
        if (now - conversation.turnAt() < STUCK) {
            return;
        }
        StringBuilder stacks = new StringBuilder();
        Thread.getAllStackTraces()
                .forEach(
                        (thread, stack) -> {
                            stacks.append(thread.getName()).append('\n');
                            Arrays.stream(stack)
                                    .forEach(f -> stacks.append(" at ").append(f).append('\n'));
                        });
        events.log(stacks.toString());
        throw new SoakFailure(
                conversation.name()
                        + " hangs: its thread has not come back from a call; the stacks"
                        + " are among the events");
    }

    // --- the end --------------------------------------------------------------------------------

    private void await(String what, BooleanSupplier ended) {
        long since = Clock.OWN.now();
        while (!ended.getAsBoolean()) {
            if (Clock.OWN.now() - since > 2 * STUCK) {
                throw new SoakFailure(what + " do not end: " + threads);
            }
            LockSupport.parkNanos(10_000_000);
        }
    }

    private void finish() {
        sides.forEach(Side::part);
        await("conversations", () -> sides.stream().allMatch(Side::isQuiet));
        graveyard.empty();
        sides.forEach(Side::close);
        over = true;
        await("threads", threads::isEmpty);
        String left = Held.leftBehind();
        if (!left.isEmpty()) {
            throw new SoakFailure("rank " + number + " has closed everything, but holds " + left);
        }
        say("finished");
    }
}
