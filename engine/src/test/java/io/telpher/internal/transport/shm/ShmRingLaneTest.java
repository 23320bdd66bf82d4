package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.spi.Lane;
import io.telpher.spi.Link;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.io.BufferedReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ShmRingLaneTest {
    private static final int FRAMES = 60_000;

    private final MemorySegment header = Arena.ofAuto().allocate(Lane.HEADER, 64);
    private final MemorySegment payload = Arena.ofAuto().allocate(RingMemory.DATA, 64);

    @Test
    void twoThreadsExchangeRandomFramesAndPark() throws Exception {
        long seed = System.nanoTime();
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            RingPeer right = new RingPeer(pair.right().lane(), seed + 1, seed, FRAMES, FRAMES);
            // The late start makes sure that somebody sleeps.
            Executor later = CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS);
            CompletableFuture<Long> parks = CompletableFuture.supplyAsync(right::run, later);
            long left = new RingPeer(pair.left().lane(), seed, seed + 1, FRAMES, FRAMES).run();
            assertThat(parks.get(100, TimeUnit.SECONDS) + left).as("seed " + seed).isPositive();
        }
    }

    @Test
    void aSlowReaderWakesAWriterThatMetAFullRing() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            RingPeer right =
                    new RingPeer(pair.right().lane(), 5, 6, 0, FRAMES / 20).pausing(300_000);
            CompletableFuture<Long> reader = CompletableFuture.supplyAsync(right::run);
            assertThat(new RingPeer(pair.left().lane(), 6, 5, FRAMES / 20, 0).run()).isPositive();
            reader.get(100, TimeUnit.SECONDS);
        }
    }

    /// The second process of the tests below.
    static final class Child {
        public static void main(String[] arguments) throws Exception {
            BufferedReader in = ChildJvm.parent();
            PeerAddress peer = ChildJvm.address(in.readLine());
            try (ShmHarness harness = new ShmHarness()) {
                System.out.println(ChildJvm.text(harness.address()));
                Link link = harness.accept(peer);
                if (arguments[0].equals("exchange")) {
                    long seed = Long.parseLong(arguments[1]);
                    new RingPeer(link.lane(), seed + 1, seed, FRAMES, FRAMES).run();
                    System.out.println("done");
                } else {
                    ShmRingLaneTest test = new ShmRingLaneTest();
                    for (int i = 0; i < 3; i++) {
                        test.send(link.lane(), i, 100);
                    }
                    System.out.println("sent");
                }
                in.readLine();
            }
        }
    }

    @Test
    void twoProcessesExchangeRandomFramesAndPark() throws Exception {
        long seed = System.nanoTime();
        try (ShmHarness harness = new ShmHarness();
                ChildJvm child = new ChildJvm(Child.class, "exchange", Long.toString(seed))) {
            child.say(ChildJvm.text(harness.address()));
            Link link = harness.connect(ChildJvm.address(child.hear()));
            new RingPeer(link.lane(), seed, seed + 1, FRAMES, FRAMES).run();
            assertThat(child.hear()).as("seed " + seed).isEqualTo("done");
            link.windows().close();
            link.lane().close();
        }
    }

    @Test
    void aKilledPeerIsNoticedAfterItsLastFramesWereRead() throws Exception {
        try (ShmHarness harness = new ShmHarness();
                ChildJvm child = new ChildJvm(Child.class, "kill")) {
            child.say(ChildJvm.text(harness.address()));
            Link link = harness.connect(ChildJvm.address(child.hear()));
            Lane lane = link.lane();
            assertThat(child.hear()).isEqualTo("sent");
            List<Long> seen = new ArrayList<>();
            assertThat(lane.poll(collect(seen), 1)).isEqualTo(1);

            long before = System.nanoTime();
            Processes.kill(child.pid(), Processes.SIGKILL);
            while (lane.park()) {
                assertThat(Poll.poll(lane.descriptor(), Poll.POLLIN, 5_000)).isPositive();
                lane.unpark();
            }
            assertThat(lane.poll(collect(seen), 10)).isEqualTo(2);
            while (lane.poll(collect(seen), 10) != Lane.DEAD) {
                assertThat(System.nanoTime() - before).isLessThan(5_000_000_000L);
                Thread.sleep(1);
            }
            assertThat(System.nanoTime() - before).isLessThan(1_000_000_000L);
            assertThat(seen).containsExactly(0L, 1L, 2L);
            assertThat(lane.failure())
                    .contains("process " + child.pid())
                    .containsAnyOf("hung up", "pidfd");
            assertThat(send(lane, 9, 0)).isEqualTo(Lane.DEAD);
            assertThat(lane.park()).isFalse();
            link.windows().close();
            lane.close();
        }
    }

    @Test
    void aPeerThatClosesIsNoticed() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness()) {
            ShmHarness.Pair pair = ShmHarness.pair(one, two);
            pair.right().windows().close();
            pair.right().lane().close();
            Lane lane = pair.left().lane();
            if (lane.park()) {
                assertThat(Poll.poll(lane.descriptor(), Poll.POLLIN, 5_000)).isPositive();
                lane.unpark();
            }
            assertThat(lane.poll(collect(new ArrayList<>()), 1)).isEqualTo(Lane.DEAD);
            assertThat(lane.failure()).contains("hung up");
            pair.left().windows().close();
            lane.close();
        }
    }

    /// A peer decides how much it shares, and this side maps and page-locks it.
    @Test
    void noMoreIsSharedThanBuffersTake() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            Lane lane = pair.left().lane();
            assertThatThrownBy(() -> lane.share(ShmLink.MOST_SHARED + 4096, ShmHarness.soon()))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("cannot map");
            assertThat(linkOf(pair.right().lane()).peerShared()).isNull();
            assertThat(lane.share(ShmLink.MOST_SHARED, ShmHarness.soon())).isNotNull();
            assertThat(linkOf(pair.right().lane()).peerShared()).isNotNull();
        }
    }

    @Test
    void anImpossibleLengthEndsTheLane() throws Exception {
        for (int length : new int[] {RingMemory.DATA / 4 + 1, -1, Integer.MIN_VALUE}) {
            try (ShmHarness one = new ShmHarness();
                    ShmHarness two = new ShmHarness();
                    ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
                Lane left = pair.left().lane();
                assertThat(send(left, 1, 8)).isEqualTo(Lane.OK);
                MemorySegment ring = linkOf(left).outbound().segment();
                ring.set(JAVA_INT, RingMemory.at(0) + 4, length);
                Lane right = pair.right().lane();
                assertThat(right.poll(collect(new ArrayList<>()), 5)).isEqualTo(Lane.DEAD);
                assertThat(right.failure()).contains(Integer.toString(length));
                assertThat(right.poll(collect(new ArrayList<>()), 5)).isEqualTo(Lane.DEAD);
            }
        }
    }

    @Test
    void anImpossiblePositionEndsTheLane() throws Exception {
        for (long head : new long[] {-64, 1, 1L << 40, Long.MIN_VALUE}) {
            try (ShmHarness one = new ShmHarness();
                    ShmHarness two = new ShmHarness();
                    ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
                Lane left = pair.left().lane();
                linkOf(left).outbound().segment().set(JAVA_LONG, RingMemory.HEAD, head);
                int result = Lane.OK;
                for (int i = 0; i < 100 && result == Lane.OK; i++) {
                    result = send(left, i, left.maxPayload());
                }
                assertThat(result).isEqualTo(Lane.DEAD);
                assertThat(left.failure()).contains(Long.toString(head));
            }
        }
    }

    @Test
    void aHeaderThatMakesNoSenseEndsTheLane() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            send(pair.left().lane(), 1, 8);
            Receiver refusing =
                    new Receiver() {
                        @Override
                        public boolean begin(MemorySegment frame, long at, Placement placement) {
                            return false;
                        }

                        @Override
                        public void end(
                                MemorySegment frame,
                                long at,
                                MemorySegment bytes,
                                long bytesAt,
                                Placement placement) {
                            throw new AssertionError("not begun");
                        }
                    };
            assertThat(pair.right().lane().poll(refusing, 1)).isEqualTo(Lane.DEAD);
            assertThat(pair.right().lane().failure()).contains("makes no sense");
        }
    }

    @Test
    void aDestinationThatIsGoneCostsItsFrameOnly() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            MemorySegment target;
            try (Arena arena = Arena.ofShared()) {
                target = arena.allocate(100);
            }
            List<Boolean> discarded = new ArrayList<>();
            Receiver receiver =
                    new Receiver() {
                        @Override
                        public boolean begin(MemorySegment frame, long at, Placement placement) {
                            placement.into(target, 0, this);
                            return true;
                        }

                        @Override
                        public void end(
                                MemorySegment frame,
                                long at,
                                MemorySegment bytes,
                                long bytesAt,
                                Placement placement) {
                            discarded.add(placement.discarded());
                        }
                    };
            send(pair.left().lane(), 1, 8);
            send(pair.left().lane(), 2, 0);
            assertThat(pair.right().lane().poll(receiver, 5)).isEqualTo(2);
            assertThat(discarded).containsExactly(true, false);
        }
    }

    @Test
    void aConfirmationWakesASleeper() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            Lane left = pair.left().lane();
            Lane right = pair.right().lane();
            assertThat(left.park()).isTrue();
            assertThat(Poll.poll(left.descriptor(), Poll.POLLIN, 0)).isZero();
            right.confirm(5);
            right.poll(collect(new ArrayList<>()), 1);
            assertThat(Poll.poll(left.descriptor(), Poll.POLLIN, 0)).isPositive();
            left.unpark();
            assertThat(Poll.poll(left.descriptor(), Poll.POLLIN, 0)).isZero();
            assertThat(left.park()).as("5 has not been looked at").isFalse();
            assertThat(left.confirmed()).isEqualTo(5);
            assertThat(left.park()).isTrue();
            left.unpark();
        }
    }

    /// A writer that met a full ring, and was answered before it slept, with too little.
    @Test
    void aWriterThatGoesToSleepAsksForSpaceAgain() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness();
                ShmHarness.Pair pair = ShmHarness.pair(one, two)) {
            Lane left = pair.left().lane();
            Lane right = pair.right().lane();
            while (send(left, 1, 0) == Lane.OK) {}
            assertThat(send(left, 2, left.maxPayload())).isEqualTo(Lane.FULL);
            int quarter = (int) (RingMemory.DATA / 4 / RingMemory.recordBytes(0));
            takeOneByOne(right, quarter);
            assertThat(Poll.poll(left.descriptor(), Poll.POLLIN, 0)).as("sleeps not yet").isZero();
            assertThat(left.park()).as("a quarter is not enough").isTrue();
            takeOneByOne(right, quarter);
            assertThat(Poll.poll(left.descriptor(), Poll.POLLIN, 0)).as("woken").isPositive();
            left.unpark();
            assertThat(left.park()).as("there is room").isFalse();
            assertThat(send(left, 2, left.maxPayload())).isEqualTo(Lane.OK);
            assertThat(left.park()).as("nothing is wanted any more").isTrue();
            left.unpark();
        }
    }

    /// Takes records so that the reader does not seem to be at the end of what there is.
    private static void takeOneByOne(Lane lane, int count) {
        for (int i = 0; i < count; i++) {
            assertThat(lane.poll(collect(new ArrayList<>()), 1)).isEqualTo(1);
        }
    }

    @Test
    void aClosedLaneThrowsInsteadOfCrashing() throws Exception {
        try (ShmHarness one = new ShmHarness();
                ShmHarness two = new ShmHarness()) {
            ShmHarness.Pair pair = ShmHarness.pair(one, two);
            pair.close();
            assertThat(send(pair.left().lane(), 1, 8)).isEqualTo(Lane.DEAD);
            assertThat(pair.left().lane().poll(collect(new ArrayList<>()), 1)).isEqualTo(Lane.DEAD);
        }
    }

    private int send(Lane lane, long number, int length) {
        header.set(JAVA_LONG, 0, 1 | (long) length << 32);
        header.set(JAVA_LONG, 8, number);
        int result = lane.send(header, 0, payload, 0, length, null);
        lane.flush();
        return result;
    }

    private static ShmLink linkOf(Lane lane) {
        return ((ShmRingLane) lane).link();
    }

    private static Receiver collect(List<Long> numbers) {
        return new Receiver() {
            @Override
            public boolean begin(MemorySegment frame, long at, Placement placement) {
                placement.buffer();
                return true;
            }

            @Override
            public void end(
                    MemorySegment frame,
                    long at,
                    MemorySegment bytes,
                    long bytesAt,
                    Placement placement) {
                numbers.add(frame.get(JAVA_LONG, at + 8));
            }
        };
    }
}
