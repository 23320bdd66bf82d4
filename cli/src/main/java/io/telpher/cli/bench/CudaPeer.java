package io.telpher.cli.bench;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaIpc;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.spi.Availability;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/// The CUDA driver alone, the limit of all that its copy engines carry: `cuMemcpyAsync` into or out
/// of memory of another process that was opened by CUDA IPC; where one side is host memory, between
/// a GPU and page-locked memory of this process.
final class CudaPeer implements Peer {
    /// Streams that copies in flight are spread over.
    private static final List<Integer> STREAMS = List.of(1, 4);

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final List<String> remarks = new ArrayList<>();
    private @Nullable RankProcess lender;
    private boolean hopeless;

    /// @return why there is nothing to compare with, or null
    static @Nullable String missing() {
        return switch (Cuda.availability()) {
            case Availability.Available _ -> null;
            case Availability.Missing(String reason, String remedy) -> reason + " (" + remedy + ")";
        };
    }

    @Override
    public String system() {
        return "cuda";
    }

    @Override
    public boolean fits(Stage stage) {
        return stage.byGpu();
    }

    @Override
    public List<PeerResult> measure(Stage stage, Case test, double seconds) {
        if (!test.op().oneSided() || hopeless) {
            return List.of();
        }
        MemoryPair memory = stage.memory();
        try (CudaBuffer local = new CudaBuffer(Gpus.of(0), test.bytes())) {
            CudaContexts.pushCurrent(local.context());
            try {
                return memory.source().onGpu() && memory.target().onGpu()
                        ? betweenGpus(stage, test, seconds, local.address())
                        : withHost(stage, test, seconds, local.address());
            } finally {
                CudaContexts.popCurrent();
            }
        } catch (TelpherException | BenchFailure e) {
            hopeless = true;
            remarks.add("cuda: not compared any more: " + e.getMessage());
            return List.of();
        }
    }

    private List<PeerResult> betweenGpus(Stage stage, Case test, double seconds, long local) {
        Message lent = lend(test.bytes());
        try {
            long remote = CudaIpc.tryOpenMemHandle(HexFormat.of().parseHex(lent.text("handle")));
            if (remote < 0) {
                throw new BenchFailure("CUDA IPC: " + CudaError.describe((int) remote));
            }
            try {
                boolean read = test.op() == Op.READ;
                return copies(
                        stage,
                        test,
                        seconds,
                        read ? remote : local,
                        read ? local : remote,
                        "peer copy");
            } finally {
                CudaIpc.closeMemHandle(remote);
            }
        } finally {
            Message unused = lend(0);
        }
    }

    private Message lend(long bytes) {
        RankProcess process = lender;
        if (process == null) {
            process = RankProcess.start(1, List.of());
            lender = process;
        }
        process.control().send(Message.of("lend").with("bytes", bytes).with("rank", 1));
        Message answer = process.control().receive(PATIENCE);
        if (!answer.verb().equals("lent")) {
            throw new BenchFailure(answer.text("error"));
        }
        return answer;
    }

    private List<PeerResult> withHost(Stage stage, Case test, double seconds, long local) {
        long host = CudaMemory.hostAlloc(test.bytes(), CudaMemory.CU_MEMHOSTALLOC_PORTABLE);
        try {
            boolean down = stage.memory().source().onGpu();
            return copies(
                    stage,
                    test,
                    seconds,
                    down ? local : host,
                    down ? host : local,
                    down ? "D2H pinned" : "H2D pinned");
        } finally {
            CudaMemory.freeHost(host);
        }
    }

    private static List<PeerResult> copies(
            Stage stage, Case test, double seconds, long from, long to, String what) {
        List<PeerResult> results = new ArrayList<>();
        boolean vectored = test.pieces() > 1;
        List<Boolean> ways =
                vectored && CudaCopies.hasBatch() ? List.of(false, true) : List.of(false);
        for (boolean batch : ways) {
            for (int streams : test.depth() == 1 ? List.of(1) : STREAMS) {
                try (CudaCopyLoop loop = new CudaCopyLoop(from, to, test, streams, batch)) {
                    CudaCopyLoop.Figures figures = loop.run(seconds);
                    String tool = what + (batch ? ", batch" : vectored ? ", one by one" : "");
                    results.add(
                            new PeerResult(
                                    "cuda",
                                    version(),
                                    "java",
                                    test.depth() == 1 ? tool : tool + ", streams " + streams,
                                    stage.transport(),
                                    what.equals("peer copy") ? "CUDA IPC" : "one process",
                                    stage.memory().toString(),
                                    test.op().word(),
                                    batch ? "cuMemcpyBatchAsync" : "cuMemcpyAsync",
                                    figures.operations(),
                                    figures.gbps(),
                                    figures.usP50(),
                                    figures.usP99(),
                                    figures.cpuPerGb(),
                                    OptionalLong.of(figures.wrong())));
                }
            }
        }
        return results;
    }

    private static String version() {
        int version = Cuda.driverVersion();
        return version / 1000 + "." + version % 1000 / 10;
    }

    @Override
    public List<String> remarks() {
        List<String> taken = List.copyOf(remarks);
        remarks.clear();
        return taken;
    }

    @Override
    public void close() {
        RankProcess process = lender;
        lender = null;
        if (process != null) {
            process.close();
        }
    }
}
