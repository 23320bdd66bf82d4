package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;

/// Promises that are tested by killing the peer's process.
@Setting.In({Place.TWO, Place.NETNS})
abstract class MortalContract extends Contract {
    /// As promised; more on an emulated machine.
    private static final long PROMISED = Duration.ofSeconds(RdmaNode.isHere() ? 20 : 1).toNanos();

    /// What a busy machine may make of it now and then: still less than the liveness limit, so that
    /// it is the death itself that is noticed. An emulated one has its twenty seconds anyway.
    static final long AT_MOST = RdmaNode.isHere() ? PROMISED : 4 * PROMISED;

    /// The quickest of all deaths on this path so far.
    private long quickest = Long.MAX_VALUE;

    /// Checks how long after a death an error came, in nanoseconds.
    void checkNotice(long after) {
        quickest = Math.min(quickest, after);
        assertThat(after).as("ns from a death to its error").isLessThan(AT_MOST);
    }

    /// A machine that is busy all the time may be late every second time, but not always.
    @AfterParameterizedClassInvocation
    void deathsAreNoticedAsPromised() {
        long noticed = quickest;
        quickest = Long.MAX_VALUE; // the next path is tested by the same instance
        if (noticed != Long.MAX_VALUE) {
            assertThat(noticed).as("ns from a death to its error").isLessThan(PROMISED);
        }
    }

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
