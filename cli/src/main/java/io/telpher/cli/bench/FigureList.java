package io.telpher.cli.bench;

import io.telpher.cli.bench.Figure.Better;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/// The figures that the project promises, with bar and aim.
final class FigureList {
    /// For figures that need processes of their own, which [Figures] measures after the rounds.
    static final Figure.Source ALONE =
            round -> {
                throw new IllegalStateException("measured after the rounds");
            };

    private static final int DEEP = BenchOptions.DEEP;
    private static final long KIB64 = 64 << 10;
    private static final long MIB = 1 << 20;
    private static final int MANY_PIECES = 100_000;
    private static final double NO_AIM = Double.NaN;

    private static final MemoryPair TELPHER = MemoryPair.TELPHER;

    private FigureList() {}

    /// Every figure, in the order of the table.
    static final List<Figure> ALL =
            List.of(
                    put("shm-write-64K", KIB64, 0.95, 1.0),
                    put("shm-write-1M", MIB, 0.95, 1.0),
                    put("shm-write-64M", 64 * MIB, 1.0, 1.3),
                    memcpy("shm-memcpy-64K", KIB64),
                    memcpy("shm-memcpy-1M", MIB),
                    new Figure(
                            "cma-write-1M",
                            "shm, foreign memory, write 1 MiB in flight / UCX tag_bw (posix,cma)",
                            1.0,
                            1.2,
                            Better.HIGHER,
                            "x",
                            r -> {
                                Row row =
                                        r.telpher(
                                                "cma", MemoryPair.FOREIGN, Op.WRITE, MIB, 1, DEEP);
                                return r.throughput(
                                        row, r.ucx(UcxPeer.POSIX_CMA, row.test(), "tag_bw"));
                            }),
                    new Figure(
                            "shm-message-8",
                            "shm, 8 B one way (notify or send), p50 / UCX tag_lat",
                            1.0,
                            0.6,
                            Better.LOWER,
                            "x",
                            r ->
                                    Math.min(
                                            r.median(
                                                    message(r, "mapped", Op.NOTIFY),
                                                    tag(r, UcxPeer.POSIX_CMA)),
                                            r.median(
                                                    message(r, "mapped", Op.SEND),
                                                    tag(r, UcxPeer.POSIX_CMA)))),
                    new Figure(
                            "shm-message-8-p99",
                            "shm, 8 B one way (notify or send), p99 / UCX tag_lat's p99",
                            1.5,
                            1.0,
                            Better.LOWER,
                            "x",
                            r ->
                                    Math.min(
                                            r.tail(
                                                    message(r, "mapped", Op.NOTIFY),
                                                    tag(r, UcxPeer.POSIX_CMA)),
                                            r.tail(
                                                    message(r, "mapped", Op.SEND),
                                                    tag(r, UcxPeer.POSIX_CMA)))),
                    new Figure(
                            "shm-write-8-rate",
                            "shm, 8 B writes in flight, one thread",
                            10,
                            40,
                            Better.HIGHER,
                            "Mop/s",
                            r ->
                                    r.telpher("mapped", TELPHER, Op.WRITE, 8, 1, DEEP)
                                            .millionsPerSecond()),
                    pieces("shm-pieces", "mapped", 0.3, 0.12),
                    loaded("shm-loaded", "mapped"),
                    allocated("shm-allocated", "mapped"),
                    new Figure(
                            "tcp-write-1M",
                            "TCP loopback, write 1 MiB in flight / best of UCX tag, am, put",
                            0.9,
                            1.1,
                            Better.HIGHER,
                            "x",
                            r -> {
                                Row row = tcpWrite(r);
                                return r.throughput(row, ucxTcp(r, row.test()));
                            }),
                    new Figure(
                            "tcp-write-1M-iperf3",
                            "same / best of iperf3 -P 1, 2, 4",
                            1.8,
                            3,
                            Better.HIGHER,
                            "x",
                            r -> {
                                Row row = tcpWrite(r);
                                return r.throughput(row, r.iperf3(row.test()));
                            }),
                    new Figure(
                            "tcp-write-1M-cpu",
                            "CPU s/GB of both sides, TCP write 1 MiB / least of UCX tag, am, put",
                            1.2,
                            1.0,
                            Better.LOWER,
                            "x",
                            r -> {
                                Row row = tcpWrite(r);
                                return r.processor(row, ucxTcp(r, row.test()));
                            }),
                    new Figure(
                            "tcp-send-8",
                            "TCP, 8 B send one way, p50 / UCX tag_lat",
                            1.1,
                            0.9,
                            Better.LOWER,
                            "x",
                            r -> r.median(message(r, "tcp", Op.SEND), tag(r, UcxPeer.TCP))),
                    new Figure(
                            "tcp-send-8-p99",
                            "TCP, 8 B send one way, p99 / UCX tag_lat's p99",
                            1.5,
                            1.0,
                            Better.LOWER,
                            "x",
                            r -> r.tail(message(r, "tcp", Op.SEND), tag(r, UcxPeer.TCP))),
                    tcpPut(
                            "tcp-write-8",
                            "TCP, 8 B write completed, p50 / UCX ucp_put_lat",
                            8,
                            1.1,
                            0.9),
                    tcpPut(
                            "tcp-write-64K",
                            "TCP, 64 KiB write completed, p50 / UCX ucp_put_lat",
                            KIB64,
                            1.0,
                            0.8),
                    pieces("tcp-pieces", "tcp", 1.2, 0.5),
                    loaded("tcp-loaded", "tcp"),
                    allocated("tcp-allocated", "tcp"),
                    rails("rails-equal", "of equal rates"),
                    rails("rails-1:2", "of rates 1:2"),
                    alone(
                            "incast-shm",
                            "eight senders into one, shm, Jain's index",
                            0.95,
                            0.99,
                            Better.HIGHER,
                            ""),
                    alone(
                            "incast-tcp",
                            "eight senders into one, TCP, Jain's index",
                            0.95,
                            0.99,
                            Better.HIGHER,
                            ""),
                    alone(
                            "idle-shm",
                            "CPU of an endpoint with 64 idle connections, shm",
                            1,
                            NO_AIM,
                            Better.BELOW,
                            "%"),
                    alone(
                            "idle-tcp",
                            "CPU of an endpoint with 64 idle connections, TCP",
                            1,
                            NO_AIM,
                            Better.BELOW,
                            "%"),
                    alone(
                            "memory-shm",
                            "heap and native memory per connection, shm",
                            256,
                            NO_AIM,
                            Better.BELOW,
                            "KiB"),
                    alone(
                            "memory-tcp",
                            "heap and native memory per connection, TCP",
                            256,
                            NO_AIM,
                            Better.BELOW,
                            "KiB"),
                    alone(
                            "threads-shm",
                            "threads that 63 more connections add, shm",
                            0,
                            NO_AIM,
                            Better.LOWER,
                            "threads"),
                    alone(
                            "threads-tcp",
                            "threads that 63 more connections add, TCP",
                            0,
                            NO_AIM,
                            Better.LOWER,
                            "threads"));

    /// Picks figures.
    ///
    /// @param names names, or their beginnings; empty or `all` for all
    /// @throws IllegalArgumentException when a name fits nothing
    static List<Figure> choose(List<String> names) {
        if (names.isEmpty() || names.contains("all")) {
            return ALL;
        }
        Set<Figure> chosen = new LinkedHashSet<>();
        for (String name : names) {
            List<Figure> found = new ArrayList<>(ALL);
            found.removeIf(f -> !f.name().startsWith(name));
            if (found.isEmpty()) {
                throw new IllegalArgumentException(
                        "'%s' is no figure: %s".formatted(name, String.join(", ", names())));
            }
            chosen.addAll(found.stream().filter(f -> f.name().equals(name)).toList());
            if (chosen.stream().noneMatch(f -> f.name().equals(name))) {
                chosen.addAll(found);
            }
        }
        return ALL.stream().filter(chosen::contains).toList();
    }

    static List<String> names() {
        return ALL.stream().map(Figure::name).toList();
    }

    private static Figure put(String name, long bytes, double bar, double aim) {
        return new Figure(
                name,
                "shm, Telpher's memory, write %s in flight / UCX ucp_put_bw (posix)"
                        .formatted(Sizes.format(bytes)),
                bar,
                aim,
                Better.HIGHER,
                "x",
                r -> {
                    Row row = r.telpher("mapped", TELPHER, Op.WRITE, bytes, 1, DEEP);
                    return r.throughput(row, r.ucx(UcxPeer.POSIX, row.test(), "ucp_put_bw"));
                });
    }

    private static Figure memcpy(String name, long bytes) {
        return new Figure(
                name,
                "the same write %s / memcpy in one process".formatted(Sizes.format(bytes)),
                Double.NaN,
                1.0,
                Better.HIGHER,
                "x",
                r -> {
                    Row row = r.telpher("mapped", TELPHER, Op.WRITE, bytes, 1, DEEP);
                    return r.throughput(row, r.memcpy(row.test()));
                });
    }

    private static Figure tcpPut(String name, String what, long bytes, double bar, double aim) {
        return new Figure(
                name,
                what,
                bar,
                aim,
                Better.LOWER,
                "x",
                r -> {
                    Row row = r.telpher("tcp", TELPHER, Op.WRITE, bytes, 1, 1);
                    return r.median(row, r.ucx(UcxPeer.TCP, row.test(), "ucp_put_lat"));
                });
    }

    private static Figure pieces(String name, String path, double bar, double aim) {
        return new Figure(
                name,
                "%s, one vectored write of 100,000 pieces of 1 KiB, per piece"
                        .formatted(path.equals("tcp") ? "TCP" : "shm"),
                bar,
                aim,
                Better.LOWER,
                "us",
                r ->
                        r.telpher(path, TELPHER, Op.WRITE, MANY_PIECES * 1024L, MANY_PIECES, 1)
                                        .usP50()
                                / MANY_PIECES);
    }

    private static Figure loaded(String name, String path) {
        return new Figure(
                name,
                "%s, 8 B send while 64 MiB writes run on the same connection, p99 / p99 alone"
                        .formatted(path.equals("tcp") ? "TCP" : "shm"),
                10,
                3,
                Better.LOWER,
                "x",
                r ->
                        r.loaded(path, Op.SEND, 8).usP99()
                                / r.telpher(path, TELPHER, Op.SEND, 8, 1, 1).usP99());
    }

    private static Figure allocated(String name, String path) {
        return new Figure(
                name,
                "%s, bytes allocated per operation, the most of write, read, send, notify"
                        .formatted(path.equals("tcp") ? "TCP" : "shm"),
                0.05,
                0.05,
                Better.LOWER,
                "B",
                r -> r.allocated(path));
    }

    private static Figure alone(
            String name, String what, double bar, double aim, Better better, String unit) {
        return new Figure(name, what, bar, aim, better, unit, ALONE);
    }

    private static Figure rails(String name, String rates) {
        return alone(
                name,
                "TCP over two rate-limited links %s, one write of 256 MiB / sum of both rates"
                        .formatted(rates),
                0.95,
                0.98,
                Better.HIGHER,
                "x");
    }

    private static Row message(FigureRound round, String path, Op op) {
        return round.telpher(path, TELPHER, op, 8, 1, 1);
    }

    private static List<PeerResult> tag(FigureRound round, String layers) {
        return round.ucx(layers, new Case(Op.SEND, 8, 1, 1), "tag_lat");
    }

    private static Row tcpWrite(FigureRound round) {
        return round.telpher("tcp", TELPHER, Op.WRITE, MIB, 1, DEEP);
    }

    private static List<PeerResult> ucxTcp(FigureRound round, Case test) {
        return round.ucx(UcxPeer.TCP, test, "tag_bw", "ucp_am_bw", "ucp_put_bw");
    }
}
