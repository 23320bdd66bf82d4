package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;

/// One round of measuring figures: measures each row and each test of a peer at most once, writes
/// them as JSON, and keeps one stage open as long as the figures stay on it.
final class FigureRound {
    private static final double SECONDS = 0.6;

    private final Crew crew;
    private final RowMeter meter;
    private final Peers peers;
    private final JsonLines json;
    private final Progress progress;
    private final Comparison comparison;
    private final Quiet quiet;
    private final BenchOptions options;
    private final int number;
    private final Map<String, Object> known = new HashMap<>();
    private @Nullable Stage open;

    FigureRound(
            Crew crew,
            RowMeter meter,
            Peers peers,
            JsonLines json,
            Progress progress,
            Comparison comparison,
            Quiet quiet,
            BenchOptions options,
            int number) {
        this.crew = crew;
        this.meter = meter;
        this.peers = peers;
        this.json = json;
        this.progress = progress;
        this.comparison = comparison;
        this.quiet = quiet;
        this.options = options;
        this.number = number;
    }

    /// @return which round, from 1
    int number() {
        return number;
    }

    /// Remembers what a supplier gives, under a name.
    @SuppressWarnings("unchecked")
    private <T> T once(String key, Supplier<T> measured) {
        Object found = known.get(key);
        if (found == null) {
            found = measured.get();
            known.put(key, found);
        }
        return (T) found;
    }

    private void show(String what) {
        progress.show("round %d of %d: %s".formatted(number, options.rounds(), what));
    }

    /// Measures a row of ours.
    Row telpher(String path, MemoryPair memory, Op op, long bytes, int pieces, int depth) {
        Case test = new Case(op, bytes, pieces, depth);
        return once(
                path + memory + test,
                () -> {
                    stage(path, memory, 64 << 20, 0);
                    show(test + " over " + path);
                    meter.warmUp(op, bytes);
                    Row row = quiet.measure(() -> meter.measure(test, seconds()).checked());
                    json.row(row, crew.lanes(), number, crew.pins());
                    return row;
                });
    }

    /// Measures small messages while 64 MiB writes run on the same connection.
    Row loaded(String path, Op op, long bytes) {
        Case test = new Case(op, bytes, 1, 1);
        BenchOptions.Background load = new BenchOptions.Background(Op.WRITE, 64 << 20);
        return once(
                "loaded" + path + test,
                () -> {
                    stage(path, MemoryPair.TELPHER, bytes, load.bytes());
                    show(test + " beside writes of 64M over " + path);
                    Stand stand = crew.stand();
                    try (Background background = new Background(stand, load, stand.room())) {
                        Row row = meter.measure(test, Math.max(1, seconds()), background).checked();
                        json.metric(
                                "us_p99 of %s over %s beside writes of 64M".formatted(test, path),
                                row.usP99(),
                                "us",
                                null);
                        json.metric(
                                "background load over " + path, background.gbps(), "GB/s", null);
                        return row;
                    }
                });
    }

    /// Measures what is allocated by the worst of the operations.
    double allocated(String path) {
        return once(
                "allocated" + path,
                () -> {
                    stage(path, MemoryPair.TELPHER, 64 << 20, 0);
                    double worst = 0;
                    for (Op op : List.of(Op.WRITE, Op.READ, Op.SEND, Op.NOTIFY)) {
                        for (Phase.Style style : List.of(Phase.Style.TOKEN, Phase.Style.PREPARED)) {
                            if (op != Op.NOTIFY || style == Phase.Style.TOKEN) {
                                show("allocation of " + op.word() + " over " + path);
                                double bytes = meter.allocatedPerOperation(op, style);
                                json.metric(
                                        "allocated, %s, %s, %s".formatted(op.word(), style, path),
                                        bytes,
                                        "bytes per operation",
                                        0);
                                worst = Math.max(worst, bytes);
                            }
                        }
                    }
                    return worst;
                });
    }

    private double seconds() {
        return options.seconds() > 0 ? options.seconds() : SECONDS;
    }

    private void stage(String path, MemoryPair memory, long room, long load) {
        Stage wanted =
                new Stage(
                        path,
                        memory,
                        options.lanes(),
                        options.rails(),
                        Traffic.PAIR,
                        Traffic.Direction.ONE,
                        2,
                        Math.max(room, 100_000L * 1024),
                        load,
                        options.waiting());
        if (!wanted.equals(open)) {
            leave();
            show("connecting over " + path);
            crew.open(wanted);
            open = wanted;
        }
    }

    /// Closes the open stage.
    void leave() {
        if (open != null) {
            open = null;
            crew.leave();
        }
    }

    /// Measures tests of UCX.
    ///
    /// @return nothing when UCX is missing
    List<PeerResult> ucx(String layers, Case test, String... tools) {
        UcxPeer ucx = peers.ucx();
        if (ucx == null) {
            return List.of();
        }
        List<PeerResult> results = new ArrayList<>();
        for (String tool : tools) {
            results.add(
                    once(
                            "ucx" + tool + layers + test.bytes() + test.depth(),
                            () -> {
                                show(
                                        "ucx %s of %s over %s"
                                                .formatted(
                                                        tool, Sizes.format(test.bytes()), layers));
                                PeerResult result =
                                        quiet.measure(
                                                () -> ucx.measure(tool, layers, test, seconds()));
                                json.peer(result, test, number);
                                return result;
                            }));
        }
        return results;
    }

    /// Measures iperf3 with 1, 2 and 4 streams.
    ///
    /// @return nothing when it is missing
    List<PeerResult> iperf3(Case test) {
        Iperf3Peer iperf3 = peers.iperf3();
        if (iperf3 == null) {
            return List.of();
        }
        return once(
                "iperf3",
                () -> {
                    List<PeerResult> results = new ArrayList<>();
                    for (int streams : Iperf3Peer.STREAMS) {
                        show("iperf3 -P " + streams);
                        PeerResult result =
                                quiet.measure(() -> iperf3.measure(streams, test.bytes(), 1));
                        json.peer(result, test, number);
                        results.add(result);
                    }
                    return results;
                });
    }

    /// Measures a copy in this process.
    List<PeerResult> memcpy(Case test) {
        MemcpyPeer memcpy = peers.memcpy();
        if (memcpy == null) {
            return List.of();
        }
        return once(
                "memcpy" + test.bytes() + "@" + test.depth(),
                () -> {
                    show("memcpy of " + Sizes.format(test.bytes()));
                    PeerResult result = quiet.measure(() -> memcpy.measure(test, seconds()));
                    json.peer(result, test, number);
                    return List.of(result);
                });
    }

    /// @return our throughput divided by the best of the peer's; NaN when there is none
    double throughput(Row row, List<PeerResult> results) {
        note(row, results);
        return row.gbps() / most(results, PeerResult::gbps);
    }

    /// @return our median time divided by the shortest of the peer's
    double median(Row row, List<PeerResult> results) {
        note(row, results);
        return row.usP50() / least(results, PeerResult::usP50);
    }

    /// @return our 99th percentile divided by the shortest of the peer's
    double tail(Row row, List<PeerResult> results) {
        note(row, results);
        return row.usP99() / least(results, PeerResult::usP99);
    }

    /// @return our processor time for the same bytes divided by the least of the peer's
    double processor(Row row, List<PeerResult> results) {
        note(row, results);
        return row.cpuPerGb() / least(results, PeerResult::cpuPerGb);
    }

    private static double most(List<PeerResult> results, ToDoubleFunction<PeerResult> figure) {
        return results.stream().mapToDouble(figure).max().orElse(Double.NaN);
    }

    private static double least(List<PeerResult> results, ToDoubleFunction<PeerResult> figure) {
        return results.stream().mapToDouble(figure).min().orElse(Double.NaN);
    }

    /// For the ratios that are printed beside the figures.
    private void note(Row row, List<PeerResult> results) {
        if (!results.isEmpty()) {
            once(
                    "noted" + row.stage().path() + row.stage().memory() + row.test() + results,
                    () -> {
                        comparison.add(row, results.getFirst().system(), results);
                        return true;
                    });
        }
    }
}
