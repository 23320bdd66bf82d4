package io.telpher.cli.soak;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The driver of a soak: starts the ranks, tells them of each other, does harm to them, and judges
/// what they say. One thread runs it; [#interrupt] may come from another.
final class Soak {
    private static final long SECOND = 1_000_000_000L;

    /// A rank that says nothing for so long hangs, unless it is [Starting].
    private static final long SILENCE = 60 * SECOND;

    private static final long FINISH = 180 * SECOND;

    /// A rank that a terminal's signal has ended: this process has got it too.
    private static final int SIGNALLED = 128;

    private final SoakOptions options;
    private final PrintWriter out;
    private final Random random;
    private final BlockingQueue<RankChild.Line> lines = new LinkedBlockingQueue<>();
    private final RankChild[] ranks;
    private final int[] lives;
    private final Map<Integer, Long> restarts = new TreeMap<>();
    private final List<Fault> deck = new ArrayList<>();
    private final Map<Fault, Integer> faults = new EnumMap<>(Fault.class);
    private final Losses losses = new Losses();
    private final Verdict verdict;
    private final Path folder;
    private final boolean ownFolder;
    private final Set<String> filesBefore;
    private final Events events;
    private final long start = Clock.OWN.now();

    /// When every rank had done something; 0 before. What the user asked for counts from here.
    private long going;

    private long nextFault = Long.MAX_VALUE;
    private long nextSample;
    private long nextLine;
    private long finishSince;
    private boolean finishTold;
    private boolean failed;
    private boolean over;
    private boolean ended;

    Soak(SoakOptions options, PrintWriter out) throws IOException {
        this.options = options;
        this.out = out;
        random = new Random(options.seed());
        ranks = new RankChild[options.ranks()];
        lives = new int[options.ranks()];
        filesBefore = Held.files();
        Path given = options.folder();
        ownFolder = given == null;
        folder = given == null ? Files.createTempDirectory("soak-of-telpher-") : given;
        Files.createDirectories(folder);
        events = new Events(folder.resolve("driver.events"));
        verdict = new Verdict(options);
        nextLine = start + pauseOfLines();
        Clock.OWN.start();
        nextSample = start;
    }

    /// Runs to the end.
    ///
    /// @return whether everything was right
    boolean run() throws InterruptedException, IOException {
        say(
                "soak of %d ranks over %s, seed %d; every byte is checked"
                        .formatted(options.ranks(), options.pathList(), options.seed()));
        try {
            synchronized (this) {
                for (int i = 0; i < ranks.length; i++) {
                    startRank(i);
                }
            }
            while (!over) {
                RankChild.Line line = lines.poll(50, TimeUnit.MILLISECONDS);
                synchronized (this) {
                    if (over) {
                        break; // interrupted
                    }
                    step(line);
                }
            }
            return true;
        } catch (SoakFailure e) {
            synchronized (this) {
                failed(String.valueOf(e.getMessage()));
            }
            return false;
        } finally {
            end();
        }
    }

    private void step(RankChild.@Nullable Line line) throws InterruptedException, IOException {
        for (RankChild.Line next = line; next != null; next = lines.poll()) {
            heard(next);
        }
        long now = Clock.OWN.now();
        for (RankChild rank : ranks) {
            if (rank.isStopped() && now >= rank.continueAt) {
                rank.go();
                log("continues rank " + rank.number);
            }
            checkVoice(rank, now);
        }
        losses.judge();
        if (now >= nextSample && finishSince == 0) {
            nextSample = now + SECOND;
            verdict.sample(secondsGoing(now), ranks);
        }
        if (finishSince != 0) {
            finishing(now);
            return;
        }
        for (int rank : List.copyOf(restarts.keySet())) {
            if (now >= restarts.getOrDefault(rank, 0L)) {
                restarts.remove(rank);
                startRank(rank);
            }
        }
        if (now >= nextFault) {
            nextFault = now + pause();
            harm(now);
        }
        if (now >= nextLine) {
            nextLine += pauseOfLines();
            say(verdict.line(seconds(now), ranks, faults, 0));
            String grows = verdict.grows();
            if (grows != null) {
                throw new SoakFailure(grows);
            }
        }
        if (secondsGoing(now) >= options.seconds()) {
            finishSince = now;
            log("finishes");
        }
    }

    private double seconds(long now) {
        return (now - start) / (double) SECOND;
    }

    private double secondsGoing(long now) {
        return going == 0 ? 0 : (now - going) / (double) SECOND;
    }

    private long pauseOfLines() {
        return (long) (options.line() * SECOND);
    }

    private long pause() {
        return (long) (options.every() * SECOND * (0.5 + random.nextDouble()));
    }

    // --- ranks ----------------------------------------------------------------------------------

    private void startRank(int number) {
        RankChild child = RankChild.start(options, number, ++lives[number], folder, lines);
        ranks[number] = child;
        log("started rank %d, life %d, process %d".formatted(number, child.life, child.pid()));
    }

    private void heard(RankChild.Line line) throws InterruptedException {
        RankChild from = line.from();
        String text = line.text();
        from.heardAt = Clock.OWN.now();
        from.starting = null;
        if (text == null) {
            ended(from);
            return;
        }
        String[] words = text.split(" ", 5);
        if (!words[0].equals("ready") && !words[0].equals("stat")) {
            log("rank " + from.number + ": " + text);
        }
        switch (words[0]) {
            case "ready" -> ready(from, words[1], words[2]);
            case "stat" -> {
                from.stat =
                        Arrays.stream(text.substring(5).split(" "))
                                .mapToLong(Long::parseLong)
                                .toArray();
                if (going == 0 && Arrays.stream(ranks).allMatch(rank -> rank.operations() > 0)) {
                    going = Clock.OWN.now();
                    nextFault = going + pause();
                }
            }
            case "closing" -> losses.closing(words[1]);
            case "cut" -> losses.cut(words[1], Integer.parseInt(words[2]));
            case "over" ->
                    losses.over(
                            words[1],
                            from.number,
                            Integer.parseInt(words[3].substring(0, words[3].indexOf('.'))),
                            text);
            case "finished" -> from.finished = true;
            case "fail" ->
                    throw new SoakFailure(
                            text.substring(5).replace(" | ", System.lineSeparator() + "  "));
            default -> {} // what is only logged, or a JVM's stacks
        }
    }

    private void ready(RankChild from, String side, String address) {
        from.addresses.put(side, address);
        String path = side.substring(side.indexOf('.'));
        for (RankChild other : ranks) {
            if (other == null || other == from) {
                continue;
            }
            other.tell("peer " + side + " " + address);
            other.addresses.forEach(
                    (name, theirs) -> {
                        if (name.endsWith(path)) {
                            from.tell("peer " + name + " " + theirs);
                        }
                    });
        }
    }

    private void ended(RankChild child) throws InterruptedException {
        if (child.killed || child.finished) {
            return;
        }
        int code = child.exitCode();
        if (code > SIGNALLED) {
            // This process gets the same signal from the same terminal.
            long until = Clock.OWN.now() + 2 * SECOND;
            while (!over && Clock.OWN.now() < until) {
                wait(100);
            }
            if (over) {
                return;
            }
        }
        throw new SoakFailure(
                "rank %d (process %d) ended by itself with exit code %d; see rank-%d.err"
                        .formatted(child.number, child.pid(), code, child.number));
    }

    private void checkVoice(RankChild rank, long now) throws InterruptedException {
        if (rank.isStopped() || rank.killed || rank.finished || now - rank.heardAt < SILENCE) {
            return;
        }
        Starting starting = rank.starting;
        if (starting != null && starting.goesOn(now, rank.used())) {
            rank.heardAt = now;
            log("rank %d %s".formatted(rank.number, starting.text(now)));
            return;
        }
        rank.dump();
        long until = now + 3 * SECOND;
        while (Clock.OWN.now() < until) {
            RankChild.Line line = lines.poll(100, TimeUnit.MILLISECONDS);
            if (line != null && line.text() != null) {
                log("rank " + line.from().number + ": " + line.text());
            }
        }
        throw new SoakFailure(
                "rank %d %s; its stacks are in driver.events"
                        .formatted(
                                rank.number,
                                starting == null ? "says nothing any more" : starting.text(now)));
    }

    // --- faults ---------------------------------------------------------------------------------

    private void harm(long now) {
        if (deck.isEmpty()) {
            deck.addAll(List.of(Fault.values()));
            Collections.shuffle(deck, random);
        }
        Fault fault = deck.removeLast();
        int dice = random.nextInt(1 << 20);
        boolean kill = fault == Fault.KILL;
        RankChild victim = ranks[kill ? 1 + dice % (ranks.length - 1) : dice % ranks.length];
        if (victim.killed || (victim.isStopped() && !kill)) {
            return;
        }
        faults.merge(fault, 1, Integer::sum);
        log("%s rank %d".formatted(fault.text(), victim.number));
        switch (fault) {
            case KILL -> {
                verdict.dead(victim);
                losses.killed(victim.number);
                victim.kill();
                for (RankChild rank : ranks) {
                    if (rank != victim) {
                        rank.tell("gone " + victim.number);
                    }
                }
                restarts.put(victim.number, now + random.nextInt(2000) * 1_000_000L);
            }
            case STOP -> victim.stop(now + random.nextInt(800) * 1_000_000L);
            case LONG_STOP -> victim.stop(now + (1000 + random.nextInt(6000)) * 1_000_000L);
            case CUT -> {
                for (RankChild rank : ranks) {
                    rank.tell("cut " + dice);
                }
            }
            case ABRUPT -> victim.tell("abrupt " + dice);
            case PARTING -> victim.tell("part " + dice);
            case RECYCLE -> victim.tell("recycle " + dice);
        }
    }

    // --- the end --------------------------------------------------------------------------------

    private void finishing(long now) throws IOException {
        for (RankChild rank : ranks) {
            if (rank.isStopped()) {
                rank.go();
            }
        }
        if (!restarts.isEmpty()) {
            for (int rank : List.copyOf(restarts.keySet())) {
                restarts.remove(rank);
                startRank(rank);
            }
        }
        if (!finishTold) {
            finishTold = true;
            for (RankChild rank : ranks) {
                rank.tell("finish");
            }
        }
        if (Arrays.stream(ranks).allMatch(rank -> rank.finished)) {
            say(verdict.line(seconds(now), ranks, faults, 0));
            String grows = verdict.grows();
            if (grows != null) {
                throw new SoakFailure(grows);
            }
            Set<String> left = Held.files();
            left.removeAll(filesBefore);
            if (!left.isEmpty()) {
                throw new SoakFailure("files were left behind: " + left);
            }
            say("all right");
            over = true;
        } else if (now - finishSince > FINISH) {
            throw new SoakFailure("the ranks do not finish");
        }
    }

    private void failed(String why) {
        log("FAILED: " + why);
        over = true;
        failed = true;
        say(verdict.line(seconds(Clock.OWN.now()), ranks, faults, 1));
        say("FAILED: " + why);
        say("seed " + options.seed() + "; the last events of every rank are in " + folder);
    }

    /// Ends it from outside: with the verdict so far.
    synchronized void interrupt() {
        if (over) {
            return;
        }
        over = true;
        notifyAll();
        say(verdict.line(seconds(Clock.OWN.now()), ranks, faults, 0));
        say("interrupted; nothing wrong so far");
        end();
    }

    private synchronized void end() {
        if (ended) {
            return;
        }
        ended = true;
        for (RankChild rank : ranks) {
            if (rank != null) {
                rank.kill();
            }
        }
        events.close();
        if (ownFolder && !failed) {
            delete();
        }
    }

    private void delete() {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
            Files.deleteIfExists(folder);
        } catch (IOException e) {
            say("cannot delete " + folder + ": " + e.getMessage());
        }
    }

    private void log(String text) {
        events.log(text);
    }

    private void say(String text) {
        out.println(text);
        out.flush();
    }
}
