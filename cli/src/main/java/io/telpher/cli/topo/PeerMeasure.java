package io.telpher.cli.topo;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.cli.Content;
import io.telpher.cli.Json;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.topology.Topology;
import java.io.PrintWriter;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Copies between the GPUs of this process, one ordered pair after the other: the GPU of the first
/// writes into the memory of the second. Copies of both sizes are read back and compared, so that a
/// path on which bytes get lost has no figures.
final class PeerMeasure {
    private static final long LARGE = 64L << 20;
    private static final long SMALL = 8;
    private static final int WARM_UP = 3;
    private static final int SMALL_COPIES = 1000;
    private static final long SPAN = Duration.ofMillis(300).toNanos();

    /// A copy takes milliseconds; one that takes this long hangs.
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final Topology machine;
    private final boolean json;
    private final PrintWriter out;
    private final List<Device> devices = Device.list();

    PeerMeasure(Topology machine, boolean json, PrintWriter out) {
        this.machine = machine;
        this.json = json;
        this.out = out;
    }

    private enum Outcome {
        MEASURED,
        /// The driver does not do it, or it was not tried.
        REFUSED,
        /// Bytes did not arrive as they were sent.
        WRONG,
        /// A copy hangs, which keeps both GPUs busy, or failed, which may have cost a context.
        LOST
    }

    /// What a pair reached.
    ///
    /// @param gbps of large copies, one after the other; NaN without figures
    /// @param micros median of small copies
    /// @param path how the memory was reached; empty when it was not
    /// @param reason why there are no figures, or null
    private record Result(
            Outcome outcome, double gbps, double micros, String path, @Nullable String reason) {
        static Result none(Outcome outcome, String path, @Nullable String reason) {
            return new Result(outcome, Double.NaN, Double.NaN, path, reason);
        }

        boolean fault() {
            return outcome == Outcome.WRONG || outcome == Outcome.LOST;
        }
    }

    /// @return false when a copy that the driver allows was lost, wrong or late
    boolean run() {
        if (devices.size() < 2) {
            String why = "--measure: two GPUs are needed; " + Runtimes.describe();
            out.println(json ? Json.object(Map.of("kind", "remark", "text", why)) : "note: " + why);
            out.flush();
            return true;
        }
        PairTable rates = new PairTable();
        PairTable times = new PairTable();
        StringBuilder reasons = new StringBuilder();
        boolean good = true;
        boolean lost = false;
        for (Device from : devices) {
            for (Device to : devices) {
                if (from.equals(to)) {
                    continue;
                }
                Result result = lost ? skipped() : measure(from, to);
                good &= !result.fault();
                lost |= result.outcome == Outcome.LOST;
                if (json) {
                    out.println(Json.object(fields(from, to, result)));
                    out.flush();
                }
                rates.put(label(from), label(to), figure(result.gbps));
                times.put(label(from), label(to), figure(result.micros));
                if (result.reason != null) {
                    reasons.append(
                            "%s to %s: %s%n".formatted(label(from), label(to), result.reason));
                }
            }
        }
        if (!json) {
            out.println();
            out.println(
                    "GB/s: %d MiB, written by the GPU of the row into memory of the column's, every"
                                    .formatted(LARGE >> 20)
                            + " byte compared");
            rates.print(out);
            out.println();
            out.println("us: " + SMALL + " bytes likewise, from call to completion, median");
            times.print(out);
            out.print(reasons);
        }
        out.flush();
        return good;
    }

    private static Result skipped() {
        return Result.none(
                Outcome.REFUSED, "", "not measured after a copy of another pair hung or failed");
    }

    private static String figure(double value) {
        return Double.isNaN(value) ? "-" : String.format(Locale.ROOT, "%.1f", value);
    }

    private Map<String, @Nullable Object> fields(Device from, Device to, Result result) {
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        fields.put("kind", "measured");
        fields.put("from", from.pciAddress());
        fields.put("to", to.pciAddress());
        fields.put("path", result.path);
        fields.put("bytes", LARGE);
        fields.put("GBps", result.gbps);
        fields.put("us", result.micros);
        fields.put("fault", result.fault());
        fields.put("reason", result.reason);
        return fields;
    }

    /// @return the name that the other tables have for it; slices of a GPU have none there
    private String label(Device device) {
        return machine.gpus().stream()
                .filter(
                        gpu ->
                                gpu.uuid().endsWith(device.uuid().toString())
                                        || gpu.pci()
                                                .address()
                                                .toString()
                                                .equals(device.pciAddress()))
                .filter(gpu -> single(device))
                .findFirst()
                .map(gpu -> gpu.label())
                .orElse(device.runtime() + ":" + devices.indexOf(device));
    }

    private boolean single(Device device) {
        return devices.stream().filter(d -> d.pciAddress().equals(device.pciAddress())).count()
                == 1;
    }

    private Result measure(Device from, Device to) {
        String path = "";
        boolean copying = false;
        try {
            Gpu writer = Runtimes.open(from);
            Gpu owner = Runtimes.open(to);
            Gpu.Allocation source = writer.allocate(LARGE);
            Gpu.Allocation target = owner.allocate(LARGE);
            boolean quiet = true;
            try (Gpu.Import reached = writer.reach(owner, target.address(), LARGE)) {
                path = reached.path();
                copying = true;
                Copier copier = new Copier(writer, source.address(), reached.address());
                String fault = copier.check(owner, target.address(), LARGE);
                if (fault != null) {
                    return Result.none(Outcome.WRONG, path, fault);
                }
                double gbps = copier.rate();
                double micros = copier.time();
                fault = copier.check(owner, target.address(), SMALL);
                return fault == null
                        ? new Result(Outcome.MEASURED, gbps, micros, path, null)
                        : Result.none(Outcome.WRONG, path, fault);
            } catch (Late e) {
                quiet = false;
                return Result.none(Outcome.LOST, path, e.getMessage());
            } finally {
                // A copy that is still under way must not find its memory gone: the process ends
                // soon, and with it all that is left.
                if (quiet) {
                    target.close();
                    source.close();
                }
            }
        } catch (TelpherException | Failed e) {
            return Result.none(
                    copying ? Outcome.LOST : Outcome.REFUSED, path, String.valueOf(e.getMessage()));
        }
    }

    /// A copy did not end.
    private static final class Late extends RuntimeException {
        private static final long serialVersionUID = 1;

        Late(String message) {
            super(message);
        }
    }

    /// A copy ended with an error of the driver.
    private static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failed(String message) {
            super(message);
        }
    }

    /// Copies between two places, and waits.
    private static final class Copier implements CopyQueue.Job {
        private final Gpu writer;
        private final CopyQueue queue;
        private final long source;
        private final long target;
        private boolean ended;
        private @Nullable String failure;

        Copier(Gpu writer, long source, long target) {
            this.writer = writer;
            this.queue = writer.queue();
            this.source = source;
            this.target = target;
        }

        @Override
        public void ended(@Nullable String reason) {
            failure = reason;
            ended = true;
        }

        /// Copies once. No other thread uses these queues.
        private void copy(long bytes) {
            ended = false;
            long start = System.nanoTime();
            queue.begin(CopyQueue.Way.PEER, 1, bytes);
            queue.copy(target, source, bytes);
            queue.end(this);
            while (!ended) {
                int unused = queue.poll();
                if (System.nanoTime() - start > PATIENCE.toNanos()) {
                    throw new Late(
                            "a copy of %d bytes did not end within %d s"
                                    .formatted(bytes, PATIENCE.toSeconds()));
                }
                Thread.onSpinWait();
            }
            if (failure != null) {
                throw new Failed(failure);
            }
        }

        /// Copies content and compares what the owner has then.
        ///
        /// @return what is wrong, or null
        @Nullable String check(Gpu owner, long place, long bytes) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment host = arena.allocate(bytes, 64);
                long seed = Content.seed(System.nanoTime(), 0, bytes);
                owner.copy(place, host.address(), bytes); // zeros
                Content.fill(host, 0, bytes, seed, 0);
                writer.copy(source, host.address(), bytes);
                copy(bytes);
                host.fill((byte) 0);
                owner.copy(host.address(), place, bytes);
                long at = Content.firstWrong(host, 0, bytes, seed, 0);
                return at < 0
                        ? null
                        : "%d of %d bytes are wrong, the first at %d: peer access does not work here; see telpher doctor --only pci,iommu (NCCL_P2P_DISABLE=1 keeps NCCL from it)"
                                .formatted(Content.countWrong(host, 0, bytes, seed, 0), bytes, at);
            }
        }

        double rate() {
            for (int i = 0; i < WARM_UP; i++) {
                copy(LARGE);
            }
            long start = System.nanoTime();
            long copies = 0;
            long now = start;
            while (now - start < SPAN) {
                copy(LARGE);
                copies++;
                now = System.nanoTime();
            }
            return (double) copies * LARGE / (now - start);
        }

        double time() {
            long[] nanos = new long[SMALL_COPIES];
            long start = System.nanoTime();
            int copies = 0;
            while (copies < nanos.length && System.nanoTime() - start < SPAN) {
                long before = System.nanoTime();
                copy(SMALL);
                nanos[copies++] = System.nanoTime() - before;
            }
            Arrays.sort(nanos, 0, copies);
            return nanos[copies / 2] / 1e3;
        }
    }
}
