package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Two ranks in one process: rank 0 initiates towards rank 1.
class RankTest {
    private static final Stage STAGE = Stages.plain("self", 1 << 16, Stage.Waiting.POLL);

    private final Rank initiator = new Rank(0);
    private final Rank target = new Rank(1);

    @AfterEach
    void close() {
        initiator.close();
        target.close();
    }

    private void connect() {
        connect(STAGE, initiator, target);
    }

    private static void connect(Stage stage, Rank... ranks) {
        List<Message> descriptions = Stream.of(ranks).map(rank -> rank.open(stage)).toList();
        for (Rank rank : ranks) {
            rank.connect(descriptions);
        }
    }

    /// Runs all ranks at the same time.
    ///
    /// @param prepared called in between
    private static List<PhaseResult> run(Phase phase, Runnable prepared, Rank... ranks) {
        for (Rank rank : ranks) {
            rank.prepare(phase);
        }
        prepared.run();
        List<CompletableFuture<PhaseResult>> all =
                Stream.of(ranks)
                        .map(
                                rank ->
                                        CompletableFuture.supplyAsync(
                                                rank::run,
                                                task -> Thread.ofPlatform().daemon().start(task)))
                        .toList();
        return all.stream().map(CompletableFuture::join).toList();
    }

    private static Phase phase(Op op, Phase.Shape shape, Phase.Place place, long count) {
        return new Phase(op, 4096, 1, 4, shape, place, Phase.Style.TOKEN, count, 0, 1, 0, 7);
    }

    private PhaseResult run(Op op, int pieces, Phase.Place place) {
        return run(op, pieces, place, 8, 0);
    }

    private PhaseResult run(Op op, int pieces, Phase.Place place, long count, double seconds) {
        Phase phase =
                new Phase(
                        op,
                        4096,
                        pieces,
                        4,
                        Phase.Shape.STREAM,
                        place,
                        Phase.Style.TOKEN,
                        count,
                        seconds,
                        1,
                        0,
                        7);
        initiator.prepare(phase);
        target.prepare(phase);
        return initiator.run();
    }

    /// The load would else write what the checks of another operation look for.
    @Test
    void aLoadHasMemoryOfItsOwn() {
        long room = 2 << 20;
        Stage stage =
                new Stage(
                        "self",
                        MemoryPair.TELPHER,
                        0,
                        List.of(),
                        Traffic.PAIR,
                        Traffic.Direction.ONE,
                        2,
                        room,
                        3 << 20,
                        Stage.Waiting.POLL);
        connect(stage, initiator, target);
        Stand stand = target.stand();
        assertThat(stand.room()).isEqualTo(room);
        initiator.stand().source.segment().asSlice(room).fill((byte) 1);
        try (Background load =
                new Background(
                        initiator.stand(),
                        new BenchOptions.Background(Op.WRITE, 3 << 20),
                        initiator.stand().room())) {
            await().until(() -> load.gbps() > 0);
        }
        MemorySegment mine = stand.target.segment().asSlice(stand.landing(0), 5 << 20);
        assertThat(mine.asSlice(0, room).mismatch(MemorySegment.ofArray(new byte[2 << 20])))
                .isEqualTo(-1);
        assertThat(mine.asSlice(room).mismatch(initiator.stand().source.segment().asSlice(room)))
                .isEqualTo(-1);
        assertThat(stand.landing(1)).isEqualTo(5 << 20);
    }

    @Test
    void bothRanksInitiateWhereBothDirectionsRun() {
        Stage both =
                new Stage(
                        "self",
                        new MemoryPair(MemoryPair.Kind.FOREIGN, MemoryPair.Kind.TELPHER),
                        0,
                        List.of(),
                        Traffic.PAIR,
                        Traffic.Direction.BOTH,
                        2,
                        1 << 16,
                        Stage.Waiting.POLL);
        connect(both, initiator, target);
        for (Op op : Op.values()) {
            Phase phase = phase(op, Phase.Shape.STREAM, Phase.Place.APART, 4);
            assertThat(run(phase, () -> {}, initiator, target))
                    .as(op.word())
                    .extracting(PhaseResult::operations)
                    .containsExactly(4L, 4L);
            assertThat(initiator.check().wrong() + target.check().wrong()).isZero();
        }
        run(
                phase(Op.WRITE, Phase.Shape.STREAM, Phase.Place.APART, 4),
                target::spoil,
                initiator,
                target);
        assertThat(initiator.check().wrong()).isEqualTo(1);
    }

    @Test
    void halfOfARoundTripIsTimed() {
        connect();
        Phase pings =
                new Phase(
                        Op.NOTIFY,
                        8,
                        1,
                        1,
                        Phase.Shape.PING_PONG,
                        Phase.Place.SHARED,
                        Phase.Style.TOKEN,
                        400,
                        0,
                        10,
                        0,
                        7);
        run(pings, () -> {}, initiator, target); // loads the code
        PhaseResult result = run(pings, () -> {}, initiator, target).getFirst();
        assertThat(result.operations()).isEqualTo(400);
        assertThat(result.times().getTotalCount()).isEqualTo(40);
        // All round trips together are no longer than the loop, and are most of it: beside them are
        // only its beginning and its end. By the same clock, so nothing depends on the machine.
        double roundTrips = result.times().getMean() * 2 * 400 / 1000;
        assertThat(roundTrips / result.nanos()).isBetween(0.6, 1.01);
    }

    /// What this thread starts, such as other programs, is not kept where the rank is; what the
    /// engine starts is, unless a NIC carries it all out.
    @Test
    void onlyTheThreadThatMeasuresIsPinned() throws IOException {
        List<Integer> cores = Cores.available();
        assumeTrue(cores.size() > 1, "needs two cores");
        assumeTrue(Tool.find("taskset") != null, "taskset is missing (package util-linux)");
        assertThat(initiator.pin(cores.getFirst())).isEmpty();
        connect();
        run(Op.WRITE, 1, Phase.Place.SHARED);
        assertThat(allowed("telpher-rank-0")).containsExactly(1);
        assertThat(allowed("telpher-rank-1")).containsExactly(cores.size());
        assertThat(allowed("telpher-progres")).containsExactly(1);
        assertThat(processors(Files.readString(Path.of("/proc/thread-self/status"))))
                .isEqualTo(cores.size());
        assertThat(Stream.of("mapped", "tcp", "verbs-ring", "verbs").filter(RankTest::sharesCores))
                .containsExactly("mapped", "tcp", "verbs-ring");
    }

    private static int processors(String status) {
        String list = status.replaceAll("(?s).*Cpus_allowed_list:\\s*(\\S+).*", "$1");
        return Cores.parseList(list).size();
    }

    private static boolean sharesCores(String path) {
        return Stages.plain(path, 8, Stage.Waiting.SUITED).sharesCores();
    }

    /// @return for each thread of this process with a name how many processors it may use
    private static List<Integer> allowed(String name) throws IOException {
        List<Integer> found = new ArrayList<>();
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path thread : threads) {
                String status = status(thread);
                if (status.startsWith("Name:\t" + name + "\n")) {
                    found.add(processors(status));
                }
            }
        }
        return found;
    }

    /// @return what the kernel says of a thread, nothing of one that has ended
    private static String status(Path thread) {
        try {
            return Files.readString(thread.resolve("status"));
        } catch (IOException e) {
            return "";
        }
    }

    @Test
    void rightDataPasses() {
        connect();
        PhaseResult result = run(Op.WRITE, 1, Phase.Place.SHARED);
        assertThat(result.operations()).isEqualTo(8);
        assertThat(result.times().getTotalCount()).isEqualTo(8);
        target.run();
        assertThat(target.check().wrong()).isZero();
        assertThat(initiator.check().wrong()).isZero();
    }

    @Test
    void aRankThatIsLateWritesOnceAllTheSame() {
        connect();
        PhaseResult result = run(Op.WRITE, 1, Phase.Place.APART, Long.MAX_VALUE, 1e-9);
        assertThat(result.operations()).isEqualTo(4);
        assertThat(target.check().wrong()).isZero();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 8, 1000, 4095})
    void aPlantedWrongByteIsFoundAndNamed(int place) {
        connect();
        run(Op.WRITE, 1, Phase.Place.SHARED);
        Stand stand = target.stand();
        flip(stand.target.segment(), stand.landing(0) + place);
        Verdict verdict = target.check();
        assertThat(verdict.wrong()).isEqualTo(1);
        assertThat(verdict.first())
                .contains(
                        "byte " + place + " of what rank 1 got from rank 0",
                        "write of 4K",
                        "round 7");
    }

    @Test
    void aWrongByteIsFoundInTheBufferOfEveryOperationInFlight() {
        connect();
        run(Op.WRITE, 1, Phase.Place.APART);
        Stand stand = target.stand();
        assertThat(target.check().wrong()).isZero();
        flip(stand.target.segment(), stand.landing(0) + 3 * 4096 + 5);
        assertThat(target.check().wrong()).isEqualTo(1);
    }

    @Test
    void aWrongByteIsFoundInScatteredPieces() {
        connect();
        run(Op.WRITE, 16, Phase.Place.SHARED);
        Stand stand = target.stand();
        assertThat(target.check().wrong()).isZero();
        flip(stand.target.segment(), stand.landing(0) + 300);
        assertThat(target.check().wrong()).isEqualTo(1);
    }

    @ParameterizedTest
    @EnumSource(names = {"WRITE", "SEND", "NOTIFY", "COUNTER"})
    void aSpoiledByteOfTheFirstInFlightIsFound(Op op) {
        connect();
        Phase four = phase(op, Phase.Shape.STREAM, Phase.Place.APART, 4);
        run(four, () -> {}, initiator, target);
        assertThat(target.check().wrong()).isZero();
        run(four, initiator::spoil, initiator, target);
        assertThat(target.check().wrong()).isEqualTo(1);
        assertThat(target.check().first()).contains("byte 2048 of what rank 1 got from rank 0");
    }

    @ParameterizedTest
    @EnumSource(
            value = Traffic.class,
            names = {"RING", "ALL_TO_ALL", "INCAST"})
    void notificationsAreComparedWithWhatTheirOwnSenderSent(Traffic traffic) {
        try (Rank third = new Rank(2)) {
            Rank[] ranks = {initiator, target, third};
            connect(
                    new Stage(
                            "self",
                            MemoryPair.TELPHER,
                            0,
                            List.of(),
                            traffic,
                            Traffic.Direction.BOTH,
                            3,
                            1 << 16,
                            Stage.Waiting.POLL),
                    ranks);
            Phase phase = phase(Op.NOTIFY, Phase.Shape.STREAM, Phase.Place.SHARED, 8);
            List<PhaseResult> results = run(phase, () -> {}, ranks);
            assertThat(results).extracting(PhaseResult::operations).doesNotContain(0L);
            assertThat(ranks).extracting(rank -> rank.check().wrong()).containsOnly(0L);
            run(phase, third::spoil, ranks);
            assertThat(initiator.check().wrong()).isEqualTo(1);
            assertThat(third.check().wrong()).isZero();
        }
    }

    @Test
    void aReadIsCheckedWhereItWasInitiated() {
        connect();
        run(Op.READ, 1, Phase.Place.SHARED);
        assertThat(initiator.check().wrong()).isZero();
        Stand stand = initiator.stand();
        flip(stand.target.segment(), stand.landing(1) + 17);
        assertThat(initiator.check().wrong()).isEqualTo(1);
        assertThat(target.check().wrong()).isZero();
    }

    @Test
    void nothingWrittenAtAllIsWrongThroughout() {
        connect();
        run(Op.WRITE, 1, Phase.Place.SHARED);
        target.stand().target.segment().fill((byte) 0);
        assertThat(target.check().wrong()).isGreaterThan(4000);
    }

    @Test
    void operationsLargerThanTheMemoryAreRefused() {
        connect();
        Phase large =
                new Phase(
                        Op.WRITE,
                        1 << 20,
                        1,
                        1,
                        Phase.Shape.STREAM,
                        Phase.Place.SHARED,
                        Phase.Style.TOKEN,
                        1,
                        0,
                        1,
                        0,
                        1);
        assertThatThrownBy(() -> initiator.prepare(large))
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("does not fit");
    }

    @Test
    void phasesNeedAStage() {
        assertThatThrownBy(initiator::run)
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("'open' comes first");
    }

    private static void flip(MemorySegment memory, long at) {
        byte right = memory.get(ValueLayout.JAVA_BYTE, at);
        memory.set(ValueLayout.JAVA_BYTE, at, (byte) (right ^ 1));
    }
}
