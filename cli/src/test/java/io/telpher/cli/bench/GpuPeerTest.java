package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What the scripts of the Python peers do with memory of GPUs, on a driver and packages that are
/// imitated with host memory.
class GpuPeerTest {
    /// In place of the driver; the first GPU's processes and the second's are told apart by rank.
    private static final String DRIVER =
            """
            import ctypes, sys, buffers, pair
            class Cuda:
                libc = ctypes.CDLL(None)
                libc.malloc.restype = ctypes.c_void_p
                libc.malloc.argtypes = [ctypes.c_size_t]
                def __init__(self, rank): self.ordinal = rank
                def __call__(self, name, *arguments): getattr(self, name)(*arguments)
                def cuMemAlloc_v2(self, out, size): out._obj.value = self.libc.malloc(size.value)
                def cuMemHostAlloc(self, out, size, flags): out._obj.value = self.libc.malloc(size.value)
                def cuMemsetD8_v2(self, to, value, size): ctypes.memset(to.value, value.value, size.value)
                def cuMemcpyHtoD_v2(self, to, data, size): ctypes.memmove(to.value, data, size.value)
                def cuMemcpyDtoH_v2(self, into, at, size): ctypes.memmove(into, at.value, size.value)
                def cuCtxSynchronize(self): pass
            buffers.Cuda = Cuda
            """;

    private static final String TORCH =
            """
            __version__ = "9"
            class Tensor:
                def __init__(self, at, size): self.at, self.size = at, size
                def data_ptr(self): return self.at
                def numel(self): return self.size
                def __getitem__(self, part): return Tensor(self.at + part.start, part.stop - part.start)
            def device(kind, number): return kind, number
            def as_tensor(raw, device):
                raw = raw.__cuda_array_interface__
                return Tensor(raw["data"][0], raw["shape"][0])
            class cuda:
                is_available = staticmethod(lambda: True)
                device_count = staticmethod(lambda: 2)
                set_device = synchronize = staticmethod(lambda *_: None)
                class nccl: version = staticmethod(lambda: (9, 1))
            """;

    private static final String DISTRIBUTED =
            """
            import ctypes, socket, time
            def is_nccl_available(): return True
            def init_process_group(backend, init_method, rank, world_size, device_id):
                global line
                at = ("127.0.0.1", int(init_method.rsplit(":", 1)[1]))
                if rank == 0:
                    line = socket.create_server(at).accept()[0]
                    return
                for _ in range(500):
                    try:
                        line = socket.create_connection(at)
                        return
                    except OSError:
                        time.sleep(0.02)
            def send(tensor, other): line.sendall(ctypes.string_at(tensor.at, tensor.size))
            def recv(tensor, other):
                view, got = memoryview((ctypes.c_char * tensor.size).from_address(tensor.at)), 0
                while got < tensor.size:
                    got += line.recv_into(view[got:])
            isend, irecv = send, recv
            class P2POp:
                def __init__(self, call, tensor, other): self.what = call, tensor, other
            class Work:
                def wait(self): pass
            def batch_isend_irecv(many):
                for one in many: one.what[0](*one.what[1:])
                return [Work()]
            """;

    @TempDir Path temp;
    private Path scripts;
    private String python;

    @BeforeEach
    void unpack() throws IOException {
        python = Tool.find("python3");
        assumeThat(python).as("python3 is missing (package python3)").isNotNull();
        List<String> missing = new ArrayList<>();
        // Without an environment it is the PATH's; whether it has the package does not matter here.
        PythonPeer unused = new PeerInstall(temp).find("nccl", List.of(), missing);
        scripts = temp.resolve("telpher");
        put("torch/__init__.py", TORCH);
        put("torch/distributed/__init__.py", DISTRIBUTED);
        put("mooncake/engine.py", PythonPeerTest.ENGINE);
    }

    private Path put(String name, String text) throws IOException {
        Path file = scripts.resolve(name);
        Files.createDirectories(file.getParent());
        return Files.writeString(file, text);
    }

    private PythonPeer peer(String name, String main) throws IOException {
        Path script = put("here_" + name + ".py", DRIVER + main);
        return new PythonPeer(name, Path.of(python), script, List.of());
    }

    private PythonPeer nccl() throws IOException {
        return peer("nccl", "import nccl_peer; pair.main('nccl', nccl_peer.Nccl)");
    }

    @Test
    void ncclIsCalledFromBothSidesAndItsBytesAreChecked() throws IOException {
        PythonPeer nccl = nccl();
        assertThat(nccl.probe()).isNull();
        for (Case test :
                List.of(
                        new Case(Op.WRITE, 64, 1, 1),
                        new Case(Op.READ, 4096, 16, 1),
                        new Case(Op.SEND, 4096, 1, 1),
                        new Case(Op.WRITE, 4096, 1, 4))) {
            List<PeerResult> results = nccl.measure(stage("cuda-cumem", "cuda"), test, 0.02);
            assertThat(nccl.remarks()).isEmpty();
            PeerResult result = results.getFirst();
            assertThat(results).hasSize(1);
            assertThat(result.wrong()).as("%s", test).hasValue(0);
            assertThat(result.memory()).isEqualTo("cuda:cuda");
            assertThat(Double.isNaN(result.usP50())).isEqualTo(test.depth() > 1);
        }
    }

    @Test
    void ncclsSocketsAreComparedWithTcp() throws IOException {
        List<PeerResult> results =
                nccl().measure(stage("tcp", "cuda"), new Case(Op.WRITE, 64, 1, 1), 0.02);
        assertThat(results)
                .extracting(PeerResult::tool)
                .containsExactly("sockets, default", "sockets 4x4, default");
        assertThat(results.getLast().settings()).contains("NCCL_NSOCKS_PERTHREAD=4");
    }

    @Test
    void piecesArePermutedWhereTheyAreWritten() throws IOException {
        PythonPeer mooncake =
                peer(
                        "mooncake",
                        "import mooncake_peer; pair.main('mooncake', mooncake_peer.Mooncake)");
        for (String memory : List.of("cuda", "cuda:pinned")) {
            List<PeerResult> results =
                    mooncake.measure(
                            stage("cuda-cumem", memory), new Case(Op.WRITE, 1 << 16, 16, 1), 0.02);
            assertThat(mooncake.remarks()).isEmpty();
            assertThat(results)
                    .hasSize(2)
                    .allMatch(r -> r.wrong().orElseThrow() == 0 && r.gbps() > 0);
        }
    }

    @Test
    void ucclGoesByCudaIpc() throws IOException {
        put("uccl/__init__.py", "");
        put("uccl/p2p.py", PythonPeerTest.UCCL);
        put("uccl-9.dist-info/METADATA", "Name: uccl\nVersion: 9\n");
        PythonPeer uccl =
                peer(
                        "uccl",
                        """
                        import uccl_peer
                        uccl_peer.GPUS, uccl_peer.packaged = ("/dev/null",), lambda *_: None
                        import os; os.environ["UCCL_NCCL_SO"] = ""
                        pair.main("uccl", uccl_peer.Uccl)
                        """);
        for (int pieces : new int[] {1, 16}) {
            List<PeerResult> results =
                    uccl.measure(
                            stage("cuda-ipc", "cuda-foreign"),
                            new Case(Op.WRITE, 1 << 16, pieces, 1),
                            0.02);
            assertThat(uccl.remarks()).isEmpty();
            assertThat(results)
                    .hasSize(2)
                    .allMatch(r -> r.wrong().orElseThrow() == 0 && r.path().equals("ipc"));
        }
        assertThat(
                        uccl.measure(
                                stage("cuda-cumem", "cuda:pinned"),
                                new Case(Op.WRITE, 64, 1, 1),
                                0.02))
                .isEmpty();
        assertThat(uccl.remarks().toString()).contains("memory of GPUs only");
    }

    @Test
    void piecesThatArriveInTheWrongPlaceAreFound() throws IOException {
        put(
                "mooncake/engine.py",
                PythonPeerTest.ENGINE.replace(
                        "zip(near, far, lengths))", "zip(near, sorted(far), lengths))"));
        PythonPeer mooncake =
                peer(
                        "mooncake",
                        "import mooncake_peer; pair.main('mooncake', mooncake_peer.Mooncake)");
        List<PeerResult> results =
                mooncake.measure(
                        stage("cuda-cumem", "cuda"), new Case(Op.WRITE, 1 << 16, 16, 1), 0.02);
        assertThat(results).isNotEmpty().allMatch(r -> r.isWrong());
    }

    @Test
    void whoMovesWhatIsKnown() throws IOException {
        PythonPeer nccl = nccl();
        assertThat(nccl.fits(stage("cuda-cumem", "cuda"))).isTrue();
        assertThat(nccl.fits(stage("cuda-cumem", "cuda:pinned"))).isFalse();
        assertThat(nccl.fits(stage("mapped", "telpher"))).isFalse();
        assertThat(new MemcpyPeer(List.of()).fits(stage("cuda-cumem", "cuda"))).isFalse();
        assertThat(new CudaPeer().fits(stage("cuda-cumem", "cuda:pinned"))).isTrue();
        assertThat(new CudaPeer().fits(stage("tcp", "cuda"))).isFalse();
    }

    @Test
    void withoutADriverTheReasonIsTold() throws IOException {
        assumeThat(io.telpher.Device.list()).as("this machine has a GPU").isEmpty();
        PythonPeer nccl =
                new PythonPeer("nccl", Path.of(python), scripts.resolve("nccl_peer.py"), List.of());
        assertThat(nccl.measure(stage("cuda-cumem", "cuda"), new Case(Op.WRITE, 8, 1, 1), 0.02))
                .isEmpty();
        assertThat(nccl.remarks()).singleElement().asString().contains("not compared", "CUDA");
        assertThat(CudaPeer.missing()).isNotNull();
    }

    private static Stage stage(String path, String memory) {
        return new Stage(
                path,
                MemoryPair.parse(memory),
                0,
                List.of(),
                Traffic.PAIR,
                Traffic.Direction.ONE,
                2,
                8,
                Stage.Waiting.POLL);
    }
}
