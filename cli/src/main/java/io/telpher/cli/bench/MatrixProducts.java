package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/// Multiplies bf16 matrices on the GPUs of both ranks without end, by PyTorch in a process of its
/// own, and tells how fast: what copies beside them cost.
final class MatrixProducts implements AutoCloseable {
    /// The GPUs of the ranks of a pair, as both CUDA and PyTorch number them.
    static final int GPUS = 2;

    private static final int TURNS = 3;

    /// Loading PyTorch takes up to a quarter of it on a machine that has just started.
    private static final int PATIENCE_SECONDS = 120;

    private final Process process;
    private final BufferedReader answers;
    private final Writer commands;
    private final double flop;

    /// How many products had been done when.
    ///
    /// @param nanos when, by the load's clock
    /// @param done products of each GPU since the start
    record Mark(long nanos, long[] done) {
        /// @return products of a GPU a second since an earlier mark
        double rate(Mark earlier, int gpu) {
            return (done[gpu] - earlier.done[gpu]) * 1e9 / (nanos - earlier.nanos);
        }
    }

    /// Starts them, and waits until all GPUs are at work.
    ///
    /// @throws BenchFailure when they cannot be; says why
    MatrixProducts() {
        String python = Tool.find("python3");
        if (python == null) {
            throw new BenchFailure("python3 is missing");
        }
        String script = PeerInstall.ofUser().matrixProducts().toString();
        try {
            process =
                    new ProcessBuilder(python, "-B", script, "0", "1")
                            .redirectError(ProcessBuilder.Redirect.DISCARD)
                            .start();
        } catch (IOException e) {
            throw new BenchFailure("cannot start " + python + ": " + e.getMessage(), e);
        }
        answers = process.inputReader(UTF_8);
        commands = process.outputWriter(UTF_8);
        try {
            Map<String, Object> ready = answer();
            if (!(ready.get("flop") instanceof Number each)) {
                throw new BenchFailure(String.valueOf(ready.get("skip")));
            }
            flop = each.doubleValue();
        } catch (BenchFailure e) {
            Tool.end(process);
            throw e;
        }
    }

    /// @return 1e12 operations a second of that many products a second
    double tflops(double products) {
        return products * flop / 1e12;
    }

    /// @throws BenchFailure when a GPU fails, or the process has ended
    Mark mark() {
        try {
            commands.write("\n");
            commands.flush();
        } catch (IOException e) {
            throw new BenchFailure("the matrix products have ended: " + e.getMessage(), e);
        }
        Map<String, Object> now = answer();
        long[] done = new long[GPUS];
        for (int gpu = 0; gpu < GPUS; gpu++) {
            done[gpu] = number(now, "gpu" + gpu);
        }
        return new Mark(number(now, "nanos"), done);
    }

    private static long number(Map<String, Object> answer, String name) {
        if (answer.get(name) instanceof Long value) {
            return value;
        }
        throw new BenchFailure("the matrix products failed: " + answer);
    }

    private Map<String, Object> answer() {
        CompletableFuture<String> line = new CompletableFuture<>();
        Thread.ofPlatform().daemon().name("telpher-bench-products").start(() -> read(line));
        try {
            return Json.parse(line.get(PATIENCE_SECONDS, TimeUnit.SECONDS));
        } catch (ExecutionException | IllegalArgumentException e) {
            throw new BenchFailure("the matrix products ended without an answer", e);
        } catch (TimeoutException e) {
            throw new BenchFailure(
                    "the matrix products did not answer within %d s".formatted(PATIENCE_SECONDS),
                    e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new BenchFailure("interrupted", e);
        }
    }

    private void read(CompletableFuture<String> answer) {
        try {
            answer.complete(String.valueOf(answers.readLine()));
        } catch (IOException e) {
            answer.completeExceptionally(e);
        }
    }

    /// Measures what one kind of load beside them costs, each time between two times without it.
    ///
    /// @param stage what the figures are of
    /// @param load large writes or reads between the GPUs
    static void beside(
            Stand stand,
            Stage stage,
            BenchOptions.Background load,
            double seconds,
            Table table,
            JsonLines json) {
        try (MatrixProducts products = new MatrixProducts()) {
            double[] alone = new double[GPUS];
            double[] loaded = new double[GPUS];
            double gbps = 0;
            for (int turn = 0; turn < TURNS; turn++) {
                products.run(seconds, alone);
                try (Background background = new Background(stand, load, 0)) {
                    products.run(seconds, loaded);
                    gbps += background.gbps() / TURNS;
                }
                products.run(seconds, alone);
            }
            for (int gpu = 0; gpu < GPUS; gpu++) {
                double before = products.tflops(alone[gpu] / 2 / TURNS);
                double beside = products.tflops(loaded[gpu] / TURNS);
                String name =
                        "slow-down of bf16 matrix products on GPU %d beside %s of %s over %s"
                                .formatted(
                                        gpu,
                                        load.op().word(),
                                        Sizes.format(load.bytes()),
                                        stage.path());
                double slower = 100 * (1 - beside / before);
                json.metric(name, slower, "%", 0);
                table.remark(
                        "  %s: %s %% (%s instead of %s TFLOP/s)"
                                .formatted(
                                        name,
                                        Table.figure(slower),
                                        Table.figure(beside),
                                        Table.figure(before)));
            }
            table.remark(
                    "  those copies beside the products: %s GB/s".formatted(Table.figure(gbps)));
            json.metric("copies beside bf16 matrix products", gbps, "GB/s", null);
        } catch (BenchFailure e) {
            table.remark("  matrix products beside copies: not measured: " + e.getMessage());
        }
    }

    /// Adds the rates of some time.
    private void run(double seconds, double[] rates) {
        Mark start = mark();
        try {
            Thread.sleep((long) (seconds * 1e3));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new BenchFailure("interrupted", e);
        }
        Mark end = mark();
        for (int gpu = 0; gpu < GPUS; gpu++) {
            rates[gpu] += end.rate(start, gpu);
        }
    }

    @Override
    public void close() {
        Tool.end(process);
    }
}
