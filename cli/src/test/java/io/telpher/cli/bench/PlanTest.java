package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.spi.Transport;
import java.util.List;
import java.util.ServiceLoader;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class PlanTest {
    @Test
    void theDefaultSweepCoversEveryPathOfHostMemory() {
        List<Plan.Part> parts = Plan.parts(options(List.of(), List.of(), List.of(), 1));
        assertThat(parts)
                .extracting(p -> p.stage().path())
                .containsExactly("mapped", "cma", "shm-ring", "tcp");
        assertThat(parts.get(1).stage().memory()).isEqualTo(MemoryPair.FOREIGN);
        assertThat(parts.getFirst().cases()).extracting(Case::bytes).contains(8L, 64L << 20);
        assertThat(parts.getFirst().cases())
                .filteredOn(c -> c.op() == Op.NOTIFY)
                .allMatch(c -> c.bytes() <= 64 << 10);
    }

    @Test
    void transportsAndPathsNarrowEachOther() {
        assertThat(options(List.of("tcp"), List.of(), List.of(), 1).wantedPaths())
                .containsExactly("tcp");
        assertThat(options(List.of("shm"), List.of(), List.of(), 1).wantedPaths())
                .containsExactly("mapped", "cma", "shm-ring");
        assertThat(options(List.of("shm"), List.of("cma", "tcp"), List.of(), 1).wantedPaths())
                .containsExactly("cma");
        assertThat(options(List.of("verbs"), List.of(), List.of(), 1).wantedPaths())
                .containsExactly("verbs");
        for (List<String> transports : List.of(List.<String>of(), List.of("verbs"))) {
            assertThat(
                            options(transports, List.of("verbs", "verbs-ring"), List.of(), 1)
                                    .wantedPaths())
                    .containsExactly("verbs", "verbs-ring");
        }
        assertThat(options(List.of("self"), List.of(), List.of(), 1).wantedPaths())
                .containsExactly("self");
        assertThat(options(List.of(), List.of("self"), List.of(), 1).wantedPaths())
                .containsExactly("self");
        assertThatThrownBy(() -> options(List.of(), List.of("self", "tcp"), List.of(), 1))
                .hasMessageContaining("alone");
        assertThatThrownBy(() -> options(List.of("ib"), List.of(), List.of(), 1))
                .hasMessageContaining("'ib' is no transport");
        assertThatThrownBy(() -> options(List.of(), List.of("efa"), List.of(), 1))
                .hasMessageContaining("'efa' is no path");
    }

    @Test
    void everyTransportOfTheEngineCanBeAskedFor() {
        List<String> names =
                ServiceLoader.load(Transport.class).stream().map(t -> t.get().name()).toList();
        assertThat(names).contains("shm", "tcp");
        for (String name : names) {
            assertThat(options(List.of(name), List.of(), List.of(), 1).wantedPaths())
                    .as(name)
                    .isNotEmpty();
        }
    }

    @Test
    void piecesMustDivideTheSizesThatWereAskedFor() {
        assertThat(Plan.parts(options(List.of(), List.of(), List.of(), 64)).getFirst().cases())
                .allMatch(c -> c.bytes() % 64 == 0);
        assertThatThrownBy(() -> options(List.of(), List.of(), List.of(100L), 64))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("100 bytes cannot be cut into 64 equal pieces");
    }

    @Test
    void patternsSayWhoLeads() {
        assertThat(Traffic.PAIR.targets(0, 2, Traffic.Direction.ONE)).containsExactly(1);
        assertThat(Traffic.PAIR.targets(1, 2, Traffic.Direction.ONE)).isEmpty();
        assertThat(Traffic.PAIR.targets(1, 2, Traffic.Direction.BOTH)).containsExactly(0);
        assertThat(Traffic.RING.targets(3, 4, Traffic.Direction.ONE)).containsExactly(0);
        assertThat(Traffic.RING.targets(1, 4, Traffic.Direction.BOTH)).containsExactly(2, 0);
        assertThat(Traffic.ALL_TO_ALL.targets(1, 4, Traffic.Direction.ONE))
                .containsExactly(2, 3, 0);
        assertThat(Traffic.INCAST.targets(0, 9, Traffic.Direction.ONE)).isEmpty();
        assertThat(Traffic.INCAST.targets(8, 9, Traffic.Direction.ONE)).containsExactly(0);
    }

    @Test
    void coresAreReadInTheKernelsForm() {
        assertThat(Cores.parseList("0-3,8,10-11\n")).containsExactly(0, 1, 2, 3, 8, 10, 11);
        assertThat(Cores.parseList("")).isEmpty();
    }

    @Test
    void everyRowGetsSomeTimeAndTheFirstDoNotTakeItAll() {
        Plan.Budget budget = new Plan.Budget(0, 300);
        double first = budget.next();
        assertThat(first).isBetween(0.03, 0.5);
        assertThat(new Plan.Budget(0, 1_000_000).next()).isEqualTo(0.03);
        assertThat(new Plan.Budget(2, 5).next()).isEqualTo(2);
    }

    /// By the clock of rows whose checks and calibration take as long again as they are timed. What
    /// is left of two minutes is for starting, connecting, and the metrics of each path.
    ///
    /// @param first seconds to warm each operation up on the first path
    /// @param further on the other paths
    @ParameterizedTest
    @CsvSource({"0.8, 0.1, 90", "5, 0.1, 90", "5, 5, 120"})
    void theDefaultRunFitsIntoTwoMinutes(double first, double further, double most) {
        BenchOptions defaults = CommandLine.populateCommand(new BenchCommand()).options();
        assertThat(defaults.warmUp()).isEqualTo(5);
        List<Plan.Part> parts = Plan.parts(defaults);
        int rows = parts.stream().mapToInt(part -> part.cases().size()).sum() * defaults.rounds();
        AtomicLong now = new AtomicLong();
        Plan.Budget budget = new Plan.Budget(defaults.seconds(), rows, now::get);
        for (Plan.Part part : parts) {
            Op last = null;
            for (Case test : part.cases()) {
                if (test.op() != last) {
                    last = test.op();
                    double warmUp = part == parts.getFirst() ? first : further;
                    now.addAndGet((long) (warmUp * 1e9));
                }
                now.addAndGet((long) (2 * budget.next() * 1e9));
            }
        }
        assertThat(now.get() / 1e9).isBetween(80.0, most);
    }

    @Test
    void onlyMemoryThatTelpherAllocatedIsMapped() {
        assertThat(of("foreign").wantedPaths()).containsExactly("cma", "shm-ring", "tcp");
        BenchOptions mixed = of("foreign:telpher");
        assertThat(mixed.wantedPaths()).containsExactly("mapped", "cma", "shm-ring", "tcp");
        assertThat(Plan.parts(mixed).getFirst().cases())
                .extracting(Case::op)
                .containsOnly(Op.WRITE, Op.SEND, Op.NOTIFY);
        assertThat(Plan.parts(of("telpher:foreign")).getFirst().cases())
                .extracting(Case::op)
                .containsOnly(Op.READ, Op.NOTIFY);
    }

    @Test
    void aTargetParksWhereItsNicDoesTheWork() {
        for (Op op : Op.values()) {
            assertThat(waiting("verbs", Stage.Waiting.SUITED).parks(op)).isEqualTo(op.oneSided());
            assertThat(waiting("verbs-ring", Stage.Waiting.SUITED).parks(op)).isFalse();
            assertThat(waiting("tcp", Stage.Waiting.SUITED).parks(op)).isFalse();
            assertThat(waiting("verbs", Stage.Waiting.POLL).parks(op)).isFalse();
            assertThat(waiting("mapped", Stage.Waiting.PARK).parks(op)).isTrue();
        }
    }

    private static Stage waiting(String path, Stage.Waiting waiting) {
        return Stages.plain(path, 8, waiting);
    }

    @Test
    void aLoadTakesNoRoomFromWhatIsMeasured() {
        Stage stage = Plan.parts(loaded("write:64M")).getFirst().stage();
        assertThat(stage.room()).isEqualTo(4096);
        assertThat(stage.load()).isEqualTo(64 << 20);
    }

    @Test
    void memoryOfGpusTakesPathsOfItsOwn() {
        assertThat(of("cuda").wantedPaths()).containsExactly("cuda-cumem", "tcp");
        assertThat(of("cuda-foreign").wantedPaths()).containsExactly("cuda-ipc", "tcp");
        assertThat(of("cuda:telpher").wantedPaths()).containsExactly("cuda-cumem", "tcp");
        assertThat(of("cuda:pinned").wantedPaths()).containsExactly("cuda-cumem");
        assertThat(of("cuda", "shm-ring").wantedPaths()).containsExactly("shm-ring");
        assertThat(of("telpher").wantedPaths()).doesNotContain("cuda-cumem", "cuda-ipc");
        assertThatThrownBy(() -> of("telpher", "cuda-cumem"))
                .hasMessageContaining("path cuda-cumem is for memory of GPUs");
        assertThatThrownBy(() -> of("cuda", "cma")).hasMessageContaining("is for host memory");
        assertThatThrownBy(() -> of("cuda:pinned", "tcp")).hasMessageContaining("telpher instead");
        assertThatThrownBy(() -> of("pinned")).hasMessageContaining("cuda:pinned");
    }

    @Test
    void memoryOfGpusIsSweptUpToOneGibibyteWhereGpusCopy() {
        List<Plan.Part> parts = Plan.parts(of("cuda"));
        assertThat(parts.getFirst().cases()).extracting(Case::bytes).contains(8L, 1L << 30);
        assertThat(parts.getFirst().stage().byGpu()).isTrue();
        assertThat(parts.getLast().cases()).extracting(Case::bytes).contains(8L, 64L << 20);
        assertThat(parts.getLast().stage().byGpu()).isFalse();
    }

    @Test
    void eachKindOfMemoryIsLentInItsOwnWay() {
        List<Plan.Part> parts = Plan.parts(of("cuda:cuda-foreign"));
        assertThat(parts)
                .extracting(p -> p.stage().path())
                .containsExactly("cuda-cumem", "cuda-ipc", "tcp");
        assertThat(parts.get(0).cases()).noneMatch(c -> c.op() == Op.WRITE);
        assertThat(parts.get(1).cases()).noneMatch(c -> c.op() == Op.READ);
        Stage toHost = Plan.parts(of("cuda:pinned")).getFirst().stage();
        assertThat(toHost.way(Op.WRITE)).isEqualTo("mapped");
        assertThat(toHost.way(Op.READ)).isEqualTo("cuda-cumem");
        assertThat(toHost.allowedPaths()).containsExactly("cuda-cumem", "mapped");
        assertThat(MemoryPair.parse("cuda").toString()).isEqualTo("cuda:cuda");
        assertThat(MemoryPair.parse("cuda-foreign:pinned"))
                .isEqualTo(MemoryPair.parse(MemoryPair.parse("cuda-foreign:pinned").toString()));
    }

    private static BenchOptions of(String memory, String... paths) {
        return options(List.of(), List.of(paths), List.of(), 1, MemoryPair.parse(memory));
    }

    private static BenchOptions options(
            List<String> transports, List<String> paths, List<Long> sizes, int pieces) {
        return options(transports, paths, sizes, pieces, null);
    }

    private static BenchOptions options(
            List<String> transports,
            List<String> paths,
            List<Long> sizes,
            int pieces,
            @Nullable MemoryPair memory) {
        return options(transports, paths, sizes, pieces, memory, null);
    }

    private static BenchOptions loaded(String load) {
        return options(
                List.of(), List.of(), List.of(4096L), 1, null, BenchOptions.Background.parse(load));
    }

    private static BenchOptions options(
            List<String> transports,
            List<String> paths,
            List<Long> sizes,
            int pieces,
            @Nullable MemoryPair memory,
            BenchOptions.@Nullable Background load) {
        return new BenchOptions(
                transports,
                paths,
                pieces > 1
                        ? List.of(Op.WRITE, Op.READ, Op.SEND)
                        : List.of(Op.WRITE, Op.READ, Op.SEND, Op.NOTIFY),
                sizes,
                List.of(1, 16),
                pieces,
                BenchOptions.Posting.EACH,
                0,
                memory,
                Traffic.Direction.ONE,
                Traffic.PAIR,
                2,
                1,
                0,
                5,
                60,
                List.of(),
                load,
                null,
                null,
                null,
                BenchOptions.Pinning.PINNED,
                Stage.Waiting.POLL);
    }
}
