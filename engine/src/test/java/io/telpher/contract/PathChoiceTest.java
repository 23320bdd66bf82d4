package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.internal.ffi.linux.Processes;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Which path an endpoint chooses when all are allowed, and what it says about it.
class PathChoiceTest {
    /// Writes to a region of a peer and checks the bytes.
    ///
    /// @return the path
    private static String write(Participant here, Peer peer, Kind kind) {
        RemoteMemory target = peer.add("target" + kind, kind, 100_000);
        MemoryRegion source = here.add("source" + kind, Kind.FOREIGN, 100_000);
        here.fill("source" + kind, 0, 100_000, 5);
        Outcome outcome = Outcome.of(here.connection().write(source.all(), target));
        outcome.assertDone(100_000);
        peer.check("target" + kind, 0, 100_000, 5);
        return outcome.path();
    }

    @Test
    void oneProcess() {
        try (Couple couple = Couple.open(o -> o).connect()) {
            assertThat(write(couple.here(), couple.there(), Kind.TELPHER)).isEqualTo("self");
            assertThat(write(couple.here(), couple.there(), Kind.FOREIGN)).isEqualTo("self");
        }
    }

    @Test
    void whyThereIsNoOneSidedAccessAtAll() {
        try (Couple couple =
                Couple.open(o -> o.withTransports(List.of("shm")).withPaths(List.of("shm-ring")))
                        .connect()) {
            assertThat(write(couple.here(), couple.there(), Kind.TELPHER)).isEqualTo("shm-ring");
            assertThat(couple.here().connection().explain())
                    .containsOnlyOnce("one-sided: ")
                    .contains("mapped: no, not among the option 'paths'")
                    .contains("cma: no, not among the option 'paths'");
        }
    }

    @Test
    void twoProcesses() {
        try (Participant here = new Participant();
                PeerProcess peer = PeerProcess.start()) {
            peer.openWith(here, o -> o);
            assertThat(write(here, peer, Kind.TELPHER)).isEqualTo("mapped");
            assertThat(write(here, peer, Kind.FOREIGN)).isIn("cma", "shm-ring");
            assertThat(here.connection().explain())
                    .contains("mapped", "cma", "tcp: not tried, shm works and comes first");
            assertThat(here.endpoint().explain()).contains("shm: in use", "tcp: in use");
        }
    }

    @Test
    void theSocketOfAKilledProcessIsSweptAway(@TempDir Path folder) {
        String sockets = folder.toString();
        Participant.Tweak options = o -> TestPath.MAPPED.restrict(o).withSocketDirectory(sockets);
        PeerProcess victim = PeerProcess.start();
        victim.run(self -> self.open(options));
        assertThat(folder).isNotEmptyDirectory();
        victim.kill();
        try (Participant here = new Participant();
                PeerProcess peer = PeerProcess.start()) {
            peer.openWith(here, options);
            assertThat(write(here, peer, Kind.TELPHER)).isEqualTo("mapped");
            assertThat(folder.toFile().list()).hasSize(2);
        }
        assertThat(folder).isEmptyDirectory();
    }

    @Test
    void aKernelThatForbidsTheOthersMemory() {
        assumeTrue(
                "root".equals(System.getProperty("user.name"))
                        && Files.isExecutable(Path.of("/usr/bin/setpriv")),
                "needs root and setpriv of the package util-linux");
        String[] withoutTracing = {
            "/usr/bin/setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"
        };
        try (PeerProcess here = PeerProcess.start(withoutTracing);
                PeerProcess there = PeerProcess.start(withoutTracing)) {
            for (PeerProcess peer : new PeerProcess[] {here, there}) {
                peer.tell(
                        self -> assertThat(Processes.prctl(Processes.PR_SET_DUMPABLE, 0)).isZero());
            }
            checkRingInsteadOfCma(here, there);
        }
    }

    /// As containers without privileges have it: the same user, and no right to look into the
    // other.
    @Test
    void userNamespacesOfTheirOwn() throws Exception {
        String[] ownUsers = {"/usr/bin/unshare", "--user", "--map-root-user"};
        assumeTrue(
                Files.isExecutable(Path.of(ownUsers[0])),
                "needs unshare of the package util-linux");
        int allowed =
                new ProcessBuilder(ownUsers[0], ownUsers[1], ownUsers[2], "true")
                        .redirectErrorStream(true)
                        .start()
                        .waitFor();
        assumeTrue(allowed == 0, "this system does not allow new user namespaces");
        try (PeerProcess here = PeerProcess.start(ownUsers);
                PeerProcess there = PeerProcess.start(ownUsers)) {
            checkRingInsteadOfCma(here, there);
        }
    }

    /// Connects two processes over shared memory.
    ///
    /// @return what the one that connects says of it
    private static String explained(PeerProcess here, PeerProcess there, Participant.Tweak paths) {
        there.run(self -> self.open(o -> paths.apply(o.withTransports(List.of("shm")))));
        byte[] address = there.run(self -> self.endpoint().address().toBytes());
        CompletableFuture<Boolean> accepted = there.begin(Participant::accept);
        String explained =
                here.run(
                        self -> {
                            self.open(o -> paths.apply(o.withTransports(List.of("shm"))));
                            return self.connect(address).explain();
                        });
        Peer.result(accepted);
        return explained;
    }

    /// Connects two processes that may not look into each other: the reason is kept, and the ring
    /// takes over for what cannot be mapped.
    private static void checkRingInsteadOfCma(PeerProcess here, PeerProcess there) {
        // Also where nothing but the ring is left.
        List<String> ringOrCma = List.of("cma", "shm-ring");
        assertThat(explained(here, there, o -> o.withPaths(ringOrCma)))
                .contains("cma: no, process_vm_readv");
        here.tell(self -> self.endpoint().close());
        there.tell(self -> self.endpoint().close());
        assertThat(explained(here, there, o -> o)).contains("cma: no, process_vm_readv");
        byte[] target = there.add("target", Kind.FOREIGN, 1000).toBytes();
        byte[] mapped = there.add("mapped", Kind.TELPHER, 1000).toBytes();
        String paths =
                here.run(
                        self -> {
                            self.add("source", Kind.FOREIGN, 1000);
                            self.fill("source", 0, 1000, 4);
                            Outcome foreign =
                                    self.write("source", 0, 1000, RemoteMemory.ofBytes(target))
                                            .assertDone(1000);
                            Outcome telpher =
                                    self.write("source", 0, 1000, RemoteMemory.ofBytes(mapped))
                                            .assertDone(1000);
                            return foreign.path() + " " + telpher.path();
                        });
        assertThat(paths).isEqualTo("shm-ring mapped");
        there.check("target", 0, 1000, 4);
        there.check("mapped", 0, 1000, 4);
    }
}
