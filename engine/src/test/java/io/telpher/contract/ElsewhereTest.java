package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// What goes wrong in other systems and is shown by no other test to go right here:
/// `docs/known-failures-elsewhere.md` has all of it.
class ElsewhereTest {
    private static final int MIB = 1 << 20;

    /// Beyond what an allocator keeps for itself: freed memory of this size is unmapped.
    private static final int UNMAPPED = 64 * MIB;

    private static Participant connect(PeerProcess peer, TestPath path) {
        Participant here = new Participant();
        peer.openWith(here, path::restrict);
        return here;
    }

    @ParameterizedTest
    @EnumSource(names = {"MAPPED", "CMA", "RING", "TCP"})
    void aSliceFarInsideItsMemoryIsWrittenWhereItBelongs(TestPath path) {
        Kind theirs = path == TestPath.MAPPED ? Kind.TELPHER : Kind.FOREIGN;
        try (PeerProcess peer = PeerProcess.start();
                Participant here = connect(peer, path)) {
            try (Arena arena = Arena.ofShared()) {
                // Neither the region nor the slice starts where its allocation does.
                MemorySegment all = arena.allocate(8 * MIB, 64);
                MemoryRegion local = here.endpoint().register(all.asSlice(MIB + 8, 6 * MIB));
                RemoteMemory remote = peer.add("target", theirs, 8 * MIB);
                Content.fill(local.segment(), 3 * MIB, MIB, 5);
                Outcome.of(
                                here.connection()
                                        .write(
                                                local.slice(3 * MIB, MIB),
                                                remote.slice(5 * MIB + 24, MIB)))
                        .assertDone(MIB);
                peer.tell(
                        self -> {
                            MemorySegment target = self.segment("target");
                            Content.check(target.asSlice(2 * MIB + 24), 3 * MIB, MIB, 5);
                            for (long i = 0; i < 5L * MIB + 24; i++) {
                                assertThat(target.get(Bytes.BYTE, i)).isZero();
                            }
                        });
                local.close();
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"CMA", "RING", "TCP"})
    void aWriteIntoMemoryThatItsOwnerHasFreedFailsAndHarmsNobody(TestPath path) {
        try (PeerProcess peer = PeerProcess.start();
                Participant here = connect(peer, path)) {
            RemoteMemory target =
                    RemoteMemory.ofBytes(
                            peer.run(
                                    self -> {
                                        // The region stays open: its owner forgot it.
                                        Arena arena = Participant.arena();
                                        MemoryRegion region =
                                                self.endpoint()
                                                        .register(arena.allocate(UNMAPPED, 64));
                                        byte[] remote = region.remote().toBytes();
                                        arena.close();
                                        return remote;
                                    }));
            here.add("source", Kind.FOREIGN, UNMAPPED);
            Outcome outcome = here.write("source", 0, UNMAPPED, target);
            assertThat(outcome.state()).isEqualTo(TransferState.FAILED);
            Couple.checkWorks(here, peer);
        }
    }

    @Test
    void aNotificationComesThoughItsSenderNeverLooksAgain() {
        try (PeerProcess peer = PeerProcess.start();
                Participant here = connect(peer, TestPath.TCP)) {
            int size = 16 * MIB;
            RemoteMemory target = peer.add("target", Kind.TELPHER, size);
            here.add("source", Kind.TELPHER, size);
            here.fill("source", 0, size, 9);
            // Posted, and not touched any more.
            here.connection()
                    .write(
                            here.region("source").all(),
                            target,
                            TransferOptions.DEFAULTS.withNotification(Bytes.off(20, 1)));
            peer.tell(
                    self -> {
                        self.connection().awaitNotification(Participant.LIMIT);
                        self.check("target", 0, size, 9);
                    });
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"RING", "TCP"})
    void anIdleTargetCostsNoCore(TestPath path) throws IOException {
        try (PeerProcess peer = PeerProcess.start();
                Participant here = connect(peer, path)) {
            Couple.checkWorks(here, peer);
            Contract.sleep(1000); // what the JVM still has to do
            long before = ticks(peer.pid());
            Contract.sleep(3000);
            // 300 ticks of 10 ms are a whole core.
            assertThat(ticks(peer.pid()) - before).as("ticks of an idle process").isLessThan(100);
        }
    }

    /// @return the time that a process has used, user and system, in ticks
    private static long ticks(long pid) throws IOException {
        String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    }

    @ParameterizedTest
    @EnumSource(names = {"MAPPED", "TCP"})
    void noSignalIsTouched(TestPath path) {
        try (PeerProcess peer = PeerProcess.start()) {
            List<String> before = peer.run(self -> signals());
            try (Participant here = connect(peer, path)) {
                Couple.checkWorks(here, peer);
                List<String> after = peer.run(self -> signals());
                assertThat(after).isEqualTo(before);
            }
        }
    }

    /// @return which signals are ignored or caught
    private static List<String> signals() throws IOException {
        try (var lines = Files.lines(Path.of("/proc/self/status"))) {
            return lines.filter(line -> line.matches("Sig(Ign|Cgt):.*"))
                    .collect(java.util.stream.Collectors.toCollection(java.util.ArrayList::new));
        }
    }
}
