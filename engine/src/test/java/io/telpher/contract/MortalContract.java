package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;

/// Promises that are tested by killing the peer's process.
@Setting.In({Place.TWO, Place.NETNS})
abstract class MortalContract extends Contract {
    /// A second as promised, and a second for two busy cores; more for an emulated machine.
    static final long NOTICE = Duration.ofSeconds(RdmaNode.isHere() ? 20 : 2).toNanos();

    /// Every test gets a peer that lives.
    @BeforeEach
    @Override
    void prepare(TestInfo test) {
        if (!process().isAlive()) {
            replacePeer();
        }
        super.prepare(test);
    }

    @Override
    void release() {
        here.closeRegions();
        if (process().isAlive()) {
            peer.tell(Participant::closeRegions);
        }
    }

    PeerProcess process() {
        return (PeerProcess) peer;
    }

    void checkLost(TelpherException error) {
        // Names the peer, and the path or its transport.
        String path = setting.path().path();
        assertThat(error)
                .isInstanceOf(TelpherException.PeerLost.class)
                .hasMessageMatching("(?s).*[0-9a-f]{16}.*")
                .hasMessageMatching("(?s).*(" + path + (path.equals("tcp") ? "" : "|shm") + ").*");
    }

    /// Kills the peer after a while.
    ///
    /// @return the moment
    CompletableFuture<Long> killLater(int millis) {
        PeerProcess victim = process();
        return CompletableFuture.supplyAsync(
                () -> {
                    sleep(millis);
                    long now = System.nanoTime();
                    victim.kill();
                    return now;
                },
                task -> new Thread(task, "test-killer").start());
    }

    RemoteMemory remoteOf(String name) {
        return RemoteMemory.ofBytes(peer.run(self -> self.region(name).remote().toBytes()));
    }

    /// Waits until the peer has written its first progress.
    void awaitProgress() {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (Bytes.acquire(here.segment("progress"), 0) == 0) {
            assertThat(System.nanoTime()).as("time for the first write").isLessThan(end);
            Thread.onSpinWait();
        }
    }
}
