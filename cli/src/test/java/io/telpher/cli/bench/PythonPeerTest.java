package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The scripts of the Python peers, on packages that are imitated, and what is said of peers that
/// cannot run.
class PythonPeerTest {
    private static final String GOOD =
            """
            {"system":"nixl","version":"1","client":"python","transport":"tcp","path":"p","memory":"own","op":"write",\
            "tool":"default","settings":"s","bytes":8,"pieces":1,"depth":1,"iterations":7,"GBps":2,\
            "us_p50":3.5,"us_p99":null,"cpu_s_per_GB":null,"wrong":0}""";

    @TempDir Path temp;
    private Path folder;

    @BeforeEach
    void environment() throws IOException {
        folder = temp.resolve("peers");
        Files.createDirectories(folder.resolve("bin"));
    }

    @Test
    void readsAResultAndWhatIsNotThere() {
        PeerResult result = PythonPeer.result(Json.parse(GOOD));
        assertThat(result.gbps()).isEqualTo(2);
        assertThat(result.iterations()).isEqualTo(7);
        assertThat(result.usP50()).isEqualTo(3.5);
        assertThat(result.usP99()).isNaN();
        assertThatThrownBy(() -> PythonPeer.result(Json.parse("{\"system\":\"nixl\"}")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("version");
    }

    @Test
    void jsonIsReadAsItIsWrittenAndNothingElse() {
        Map<String, Object> fields = Map.of("a", "x\"y<é\n");
        assertThat(Json.parse(Json.object(fields))).isEqualTo(fields);
        for (String text : List.of("", "[1]", "{\"a\":[1]}", "{\"a\":{}}", "{\"a\":1", "{} {}")) {
            assertThatThrownBy(() -> Json.parse(text)).isInstanceOf(IllegalArgumentException.class);
        }
    }

    @Test
    void aPeerThatIsNotInstalledNamesTheRemedy() {
        List<String> missing = new ArrayList<>();
        assertThat(new PeerInstall(folder).find("nixl", List.of(), missing)).isNull();
        assertThat(missing).singleElement().asString().contains("bench --install-peers nixl");
    }

    @Test
    void aPeerThatCannotRunSaysWhyOnce() throws IOException {
        python("echo 'chatter'; echo '{\"skip\":\"no GPU here\"}'");
        List<String> missing = new ArrayList<>();
        assertThat(new PeerInstall(folder).find("uccl", List.of(), missing)).isNull();
        assertThat(missing).containsExactly("uccl: no GPU here");

        PythonPeer peer = new PythonPeer("mooncake", python(""), temp.resolve("none"), List.of());
        python(
                "echo called >>"
                        + temp.resolve("calls")
                        + "; echo '{\"failed\":\"ERR 5\"}'; exit 1");
        assertThat(peer.measure(stage("tcp"), test(1), 0.01)).isEmpty();
        assertThat(peer.remarks())
                .singleElement()
                .asString()
                .contains("mooncake", "write of 8", "it failed: ERR 5");
        assertThat(peer.measure(stage("tcp"), test(1), 0.01)).isEmpty();
        assertThat(peer.remarks()).isEmpty();
        assertThat(Files.readAllLines(temp.resolve("calls"))).as("default, tuned").hasSize(2);
    }

    @Test
    void aScriptThatCrashesIsNoResult() throws IOException {
        // The line looks good, but the process did not end well.
        Path python = python("echo '" + GOOD + "'; echo 'Segmentation fault' >&2; exit 139");
        PythonPeer peer = new PythonPeer("mooncake", python, temp.resolve("none"), List.of());
        assertThat(peer.measure(stage("tcp"), test(1), 0.01)).isEmpty();
        assertThat(peer.remarks().toString()).contains("139", "Segmentation fault");
    }

    @Test
    void wrongBytesAreToldAndNotCompared() throws IOException {
        Path python = python("echo '" + GOOD.replace("\"wrong\":0", "\"wrong\":3") + "'");
        PythonPeer peer = new PythonPeer("mooncake", python, temp.resolve("none"), List.of());
        List<PeerResult> results = peer.measure(stage("tcp"), test(1), 0.01);
        assertThat(results).hasSize(2).allMatch(r -> r.wrong().orElseThrow() == 3);
        assertThat(peer.remarks().toString()).contains("3 bytes were wrong");
        StringWriter text = new StringWriter();
        Comparison comparison = new Comparison();
        Row row = new Row(stage("tcp"), test(1), 9, 1, 1, 1, 1, 1, 1, 0, null, 1, 1);
        comparison.add(row, "mooncake", results);
        comparison.report(new Table(new PrintWriter(text)), new JsonLines(null, null));
        assertThat(text.toString()).isEmpty();
    }

    @Test
    void installSaysWhichPackagesDoNotFit() throws IOException {
        python(
                """
                case "$*" in
                  *--version) echo 'Python 3.11.7' ;;
                  *install*uccl.txt) echo 'ERROR: No matching distribution found for uccl' >&2; exit 1 ;;
                  *install*) exit 0 ;;
                  *uccl_peer.py*) echo '{"skip":"not loaded"}' ;;
                  *--probe) echo '{"version":"1","ready":true}' ;;
                esac""");
        StringWriter text = new StringWriter();
        Table table = new Table(new PrintWriter(text));
        new PeerInstall(folder).install(PythonPeer.NAMES, false, table);
        assertThat(text.toString())
                .contains("nixl: ready", "mooncake: ready", "Python 3.11.7", "No matching")
                .contains("--compare nixl,mooncake");
        assertThatThrownBy(() -> new PeerInstall(folder).install(List.of("uccl"), true, table))
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("No matching distribution");
    }

    @Test
    void measuresWithAnImitationOfMooncakeAndFindsItsWrongBytes() throws IOException {
        imitate("mooncake", "mooncake-transfer-engine-non-cuda", "__init__.py", "");
        Path engine = imitate("mooncake", "mooncake-transfer-engine-non-cuda", "engine.py", ENGINE);
        PythonPeer peer = peer("mooncake");
        assertThat(peer.probe()).isNull();
        for (int depth : new int[] {1, 4}) {
            List<PeerResult> results = peer.measure(stage("tcp"), test(depth), 0.02);
            assertThat(peer.remarks()).isEmpty();
            assertThat(results).extracting(PeerResult::tool).containsExactly("default", "tuned");
            assertThat(results)
                    .allMatch(
                            r ->
                                    r.wrong().orElseThrow() == 0
                                            && r.gbps() > 0
                                            && r.op().equals("write"))
                    .allMatch(r -> (depth == 1) == (r.usP50() > 0))
                    .allMatch(r -> r.iterations() >= 10 && r.client().equals("python"));
        }
        assertThat(peer.measure(stage("tcp"), new Case(Op.WRITE, 4096, 8, 1), 0.02))
                .as("in pieces, of host memory too")
                .hasSize(2)
                .allMatch(r -> r.wrong().orElseThrow() == 0 && r.usP50() > 0);
        assertThat(peer.remarks()).isEmpty();
        assertThat(peer.measure(stage("mapped"), test(1), 0.02)).isEmpty();
        assertThat(peer.remarks()).singleElement().asString().contains("no shared memory");

        Files.writeString(
                engine,
                ENGINE.replace(
                                "Vec(near, length), Vec(far, length)",
                                "Vec(near, length - 1), Vec(far, length - 1)")
                        .replace("n == length", "n == length - 1"));
        assertThat(peer("mooncake").measure(stage("tcp"), test(1), 0.02))
                .isNotEmpty()
                .allMatch(r -> r.wrong().orElseThrow() <= 1)
                .anyMatch(r -> r.wrong().orElseThrow() == 1);
    }

    @Test
    void aTargetThatDiesEndsTheMeasurement() throws IOException {
        imitate("mooncake", "mooncake-transfer-engine-non-cuda", "__init__.py", "");
        imitate(
                "mooncake",
                "mooncake-transfer-engine-non-cuda",
                "engine.py",
                ENGINE.replace("return os.getpid()", "os._exit(9)"));
        PythonPeer peer = peer("mooncake");
        assertThat(peer.measure(stage("tcp"), test(1), 0.02)).isEmpty();
        assertThat(peer.remarks().toString()).contains("target process ended with exit code 9");
    }

    @Test
    void measuresWithAnImitationOfUccl() throws IOException {
        imitate("uccl", "uccl", "__init__.py", "");
        imitate("uccl", "uccl", "p2p.py", UCCL);
        new PeerInstall(folder).find("uccl", List.of(), new ArrayList<>());
        Path script = folder.resolve("telpher").resolve("here.py");
        Files.writeString(
                script,
                """
                import ctypes, pathlib, pair, uccl_peer
                uccl_peer.GPUS, uccl_peer.RDMA = ("/dev/null",), pathlib.Path("/")
                uccl_peer.packaged = lambda *_: None  # which opens the program itself
                pair.main("uccl", uccl_peer.Uccl)
                """);
        PythonPeer peer =
                new PythonPeer("uccl", folder.resolve("bin").resolve("python"), script, List.of());
        for (int depth : new int[] {1, 4}) {
            List<PeerResult> results = peer.measure(stage("mapped"), test(depth), 0.02);
            assertThat(peer.remarks()).isEmpty();
            assertThat(results)
                    .hasSize(2)
                    .allMatch(r -> r.wrong().orElseThrow() == 0 && r.gbps() > 0);
        }
        assertThat(peer.measure(stage("tcp"), test(1), 0.02)).isEmpty();
        assertThat(peer.remarks().toString()).contains("before the bytes are there");
    }

    /// Runs where `telpher bench --install-peers` was run before; it fetches nothing.
    @Test
    void measuresThePackagesThatAreInstalled() {
        List<String> missing = new ArrayList<>();
        PeerInstall install = PeerInstall.ofUser();
        List<PythonPeer> peers = new ArrayList<>();
        for (String name : PythonPeer.NAMES) {
            PythonPeer peer = install.find(name, List.of(0, 1), missing);
            if (peer != null) {
                peers.add(peer);
            }
        }
        assumeThat(peers).as("none can run here: %s", missing).isNotEmpty();
        for (PythonPeer peer : peers) {
            List<PeerResult> results = peer.measure(stage("tcp"), test(1), 0.05);
            assertThat(results).as("%s", peer.remarks()).isNotEmpty();
            assertThat(results).allMatch(r -> r.wrong().orElseThrow() == 0 && r.usP50() > 0);
        }
    }

    /// Moves bytes by `process_vm_writev`, with the calls of the real package that the script uses.
    static final String ENGINE =
            """
            import ctypes, os
            libc = ctypes.CDLL(None, use_errno=True)
            class Vec(ctypes.Structure):
                _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
            class TransferEngine:
                def initialize(self, host, metadata, protocol, device): return 0
                def register_memory(self, address, size):
                    libc.prctl(0x59616d61, -1)  # anybody may write here, where Yama would forbid it
                    return 0
                def get_rpc_port(self): return os.getpid()
                def transfer_sync_write(self, peer, near, far, length):
                    pid = int(peer.split(":")[1])
                    a, b = Vec(near, length), Vec(far, length)
                    n = libc.process_vm_writev(pid, ctypes.byref(a), 1, ctypes.byref(b), 1, 0)
                    return 0 if n == length else -1
                def batch_transfer_sync_write(self, peer, near, far, lengths):
                    return max(abs(self.transfer_sync_write(peer, *x)) for x in zip(near, far, lengths))
                def batch_transfer_async_write(self, peer, near, far, lengths):
                    return 1 if self.batch_transfer_sync_write(peer, near, far, lengths) == 0 else 0
                def transfer_check_status(self, token): return 1
                transfer_sync_read = batch_transfer_sync_read = batch_transfer_async_read = None
            """;

    /// Likewise for UCCL; its connect and accept need each other.
    static final String UCCL =
            """
            import ctypes, json, os, socket
            libc = ctypes.CDLL(None)
            class Vec(ctypes.Structure):
                _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
            class Endpoint:
                def __init__(self, gpu):
                    libc.prctl(0x59616d61, -1)
                    self.door = socket.create_server(("127.0.0.1", 0))
                def get_metadata(self): return json.dumps(["127.0.0.1", *[self.door.getsockname()[1]] * 2]).encode()
                @staticmethod
                def parse_metadata(data): return json.loads(data)
                def connect(self, host, gpu, remote_port):
                    self.line = socket.create_connection((host, remote_port))
                    return bool(self.line.recv(1)), 1
                def accept(self):
                    self.line = self.door.accept()[0]
                    self.line.send(b"!")
                    return True, "127.0.0.1", "0", 1
                def reg(self, address, size): return True, 3
                def advertise(self, connection, region, address, size):
                    return connection == 1 and region == 3, json.dumps([os.getpid(), address]).encode()
                def write_async(self, connection, region, near, size, blob):
                    pid, far = json.loads(blob)
                    a, b = Vec(near, size), Vec(far, size)
                    return libc.process_vm_writev(pid, ctypes.byref(a), 1, ctypes.byref(b), 1, 0) == size, 5
                read_async = None
                def poll_async(self, token): return token == 5, True
                def accept_local(self): return self.accept()[::2] + (1,)
                def connect_local(self, gpu): return self.connect("127.0.0.1", gpu, int(gpu))
                def advertise_ipc(self, connection, address, size): return self.advertise(connection, 3, address, size)
                def write_ipc_async(self, connection, near, size, blob):
                    return self.write_async(connection, 3, near, size, blob)
                def writev_ipc_async(self, connection, near, sizes, blobs):
                    each = [self.write_ipc_async(connection, *piece) for piece in zip(near, sizes, blobs)]
                    return min(ok for ok, _ in each), 5
            """;

    private PythonPeer peer(String name) {
        List<String> missing = new ArrayList<>();
        PythonPeer peer = new PeerInstall(folder).find(name, List.of(), missing);
        assertThat(missing).isEmpty();
        return peer;
    }

    /// Puts a package where the scripts find it: beside them.
    private Path imitate(String name, String distribution, String file, String text)
            throws IOException {
        String python = Tool.find("python3");
        assumeThat(python).as("python3 is missing (package python3)").isNotNull();
        python("exec " + python + " \"$@\"");
        Path scripts = folder.resolve("telpher");
        Path info = scripts.resolve(distribution.replace('-', '_') + "-9.dist-info");
        Files.createDirectories(info);
        Files.writeString(info.resolve("METADATA"), "Name: " + distribution + "\nVersion: 9\n");
        Path at = scripts.resolve(name).resolve(file);
        Files.createDirectories(at.getParent());
        return Files.writeString(at, text);
    }

    /// Makes an interpreter of the environment.
    private Path python(String shell) throws IOException {
        Path python = folder.resolve("bin").resolve("python");
        Files.writeString(python, "#!/bin/sh\n" + shell + "\n");
        return Files.setPosixFilePermissions(python, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private static Stage stage(String path) {
        return Stages.plain(path, 8, Stage.Waiting.POLL);
    }

    private static Case test(int depth) {
        return new Case(Op.WRITE, 8, 1, depth);
    }
}
