package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.TransferState;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.io.TempDir;

/// A peer whose process goes on as another program: nobody may write into that, or read from it.
@Setting.In({Place.TWO, Place.NETNS})
abstract class ExecContract extends Contract {
    private static final long ADDRESS = 0x1000_0000_0000L;
    private static final int SIZE = 4 << 20;

    @TempDir Path folder;

    @Override
    void release() {
        here.closeRegions();
    }

    @RepeatedTest(2)
    void anotherProgramIsNeitherWrittenNorRead() throws IOException {
        PeerProcess process = (PeerProcess) peer;
        byte[] bytes =
                peer.run(
                        self -> {
                            MemorySegment memory = ExecProbe.map(ADDRESS, SIZE);
                            return self.keep(
                                            "target",
                                            self.endpoint().register(memory),
                                            Participant.arena())
                                    .remote()
                                    .toBytes();
                        });
        RemoteMemory target = RemoteMemory.ofBytes(bytes);
        // What the other program does not have is the old one's to the end.
        RemoteMemory allocated = remote("allocated", Kind.TELPHER, SIZE);
        peer.fill("allocated", 0, SIZE, 1);
        region("source", Kind.FOREIGN, SIZE);
        here.fill("source", 0, SIZE, 1);
        here.write("source", 0, SIZE, target).assertDone(SIZE);
        List<CompletableFuture<TelpherException>> users = new ArrayList<>();
        for (int size : new int[] {64, 5000, SIZE}) {
            users.add(untilItFails(() -> here.write("source", 0, size, target.slice(0, size))));
            String copy = "copy" + size;
            MemorySlice local = region(copy, Kind.FOREIGN, size).all();
            users.add(untilItFails(() -> readAndCheck(copy, local, target)));
        }
        users.add(untilItFails(() -> here.write("source", 0, SIZE, allocated)));
        MemorySlice all = region("copy", Kind.FOREIGN, SIZE).all();
        users.add(untilItFails(() -> readAndCheck("copy", all, allocated)));
        Path result = folder.resolve("result");
        List<String> command = new ArrayList<>(PeerProcess.java(List.of()));
        command.addAll(
                List.of(
                        ExecProbe.class.getName(),
                        Long.toString(ADDRESS),
                        Integer.toString(SIZE),
                        result.toString()));
        List<String> program = List.copyOf(command);
        sleep(random.nextInt(50));
        long start = System.nanoTime();
        peer.launch(self -> replace(program));
        for (CompletableFuture<TelpherException> user : users) {
            assertThat(Peer.result(user)).isInstanceOf(TelpherException.PeerLost.class);
        }
        assertThat(System.nanoTime() - start).isLessThan(Duration.ofSeconds(3).toNanos());
        await().atMost(Duration.ofSeconds(20)).until(() -> !process.isAlive());
        assertThat(result).hasContent("quiet");
        Files.delete(result);
        replacePeer();
    }

    private static void replace(List<String> program) throws Exception {
        try {
            ExecProbe.exec(program);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /// Reads; the end of the transfer tells whether all of it came from the peer.
    private Outcome readAndCheck(String copy, MemorySlice local, RemoteMemory target) {
        Outcome outcome = Outcome.of(connection().read(local, target.slice(0, local.length())));
        if (outcome.state() == TransferState.DONE) {
            here.check(copy, 0, local.length(), 1);
        }
        return outcome;
    }

    private static CompletableFuture<TelpherException> untilItFails(Supplier<Outcome> operation) {
        return CompletableFuture.supplyAsync(
                () -> {
                    while (true) {
                        try {
                            Outcome outcome = operation.get();
                            if (outcome.state() != TransferState.DONE) {
                                return outcome.error();
                            }
                        } catch (TelpherException e) {
                            return e;
                        }
                    }
                },
                task -> new Thread(task, "test-user").start());
    }
}
