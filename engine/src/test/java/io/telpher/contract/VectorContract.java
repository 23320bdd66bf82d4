package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.ConnectionMetrics;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.io.Serializable;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Vectored writes and reads, as lists and in the strided form.
abstract class VectorContract extends Contract {
    /// Ten times what a piece costs, and a tenth of what it costs in long lists elsewhere.
    private static final long MOST_NANOS_A_PIECE = 4_000;

    /// What a lane carries for a piece of a list beside its bytes; of a strided form nothing.
    private static final long MOST_BYTES_A_PIECE = 32;

    private static final int REGION = 300_000;
    private static final int REGIONS = 3;

    /// A piece of one of several regions.
    private record Piece(int region, int offset, int length) {}

    /// A strided form.
    private record Form(int piece, int stride, int count) implements Serializable {
        long extent() {
            return (long) stride * count;
        }
    }

    /// Cuts bytes into pieces that lie in any order, with gaps, in several regions.
    private List<Piece> scatter(int total, int count) {
        int[] cuts = random.ints(count - 1, 0, total + 1).sorted().toArray();
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            order.add(i);
        }
        Collections.shuffle(order, random);
        int[] used = new int[REGIONS];
        Piece[] pieces = new Piece[count];
        for (int i : order) {
            int length = (i < count - 1 ? cuts[i] : total) - (i > 0 ? cuts[i - 1] : 0);
            int region = random.nextInt(REGIONS);
            used[region] += random.nextInt(4);
            pieces[i] = new Piece(region, used[region], length);
            used[region] += length;
        }
        return List.of(pieces);
    }

    private MemorySlices local(List<Piece> pieces) {
        List<MemorySlice> slices = new ArrayList<>();
        pieces.forEach(p -> slices.add(here.slice("local" + p.region, p.offset, p.length)));
        return MemorySlices.of(slices);
    }

    private static RemoteSlices remote(List<Piece> pieces, RemoteMemory[] regions) {
        List<RemoteMemory> slices = new ArrayList<>();
        pieces.forEach(p -> slices.add(regions[p.region].slice(p.offset, p.length)));
        return RemoteSlices.of(slices);
    }

    private RemoteMemory[] regions(Kind kind) {
        RemoteMemory[] remote = new RemoteMemory[REGIONS];
        for (int i = 0; i < REGIONS; i++) {
            region("local" + i, i == 0 ? Kind.TELPHER : Kind.FOREIGN, REGION);
            remote[i] = remote("remote" + i, kind, REGION);
        }
        return remote;
    }

    private static byte[] bytes(Participant self, String name) {
        byte[] bytes = new byte[REGION];
        MemorySegment.copy(self.segment(name), Bytes.BYTE, 0, bytes, 0, REGION);
        return bytes;
    }

    /// What the pieces hold, one after the other.
    private static byte[] gather(List<Piece> pieces, byte[][] regions, int total) {
        byte[] bytes = new byte[total];
        int at = 0;
        for (Piece piece : pieces) {
            System.arraycopy(regions[piece.region], piece.offset, bytes, at, piece.length);
            at += piece.length;
        }
        return bytes;
    }

    private static void scatter(List<Piece> pieces, byte[][] regions, byte[] bytes) {
        int at = 0;
        for (Piece piece : pieces) {
            System.arraycopy(bytes, at, regions[piece.region], piece.offset, piece.length);
            at += piece.length;
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void piecesNeedNotBeEqualOnBothSides(Kind kind) {
        RemoteMemory[] regions = regions(kind);
        for (int round = 0; round < Scale.count(20); round++) {
            int total = Scale.size(random, 0, 200_000);
            List<Piece> near = scatter(total, 1 + random.nextInt(60));
            List<Piece> far = scatter(total, 1 + random.nextInt(60));
            byte[][] ours = new byte[REGIONS][];
            byte[][] theirs = new byte[REGIONS][];
            long seed = random.nextLong();
            for (int i = 0; i < REGIONS; i++) {
                String name = "remote" + i;
                here.fill("local" + i, 0, REGION, seed + i);
                peer.fill(name, 0, REGION, ~seed + i);
                ours[i] = bytes(here, "local" + i);
                theirs[i] = peer.run(self -> bytes(self, name));
            }
            boolean write = random.nextBoolean();
            if (write) {
                scatter(far, theirs, gather(near, ours, total));
                Outcome.of(
                                connection()
                                        .write(
                                                local(near),
                                                remote(far, regions),
                                                TransferOptions.DEFAULTS))
                        .assertDone(total);
            } else {
                scatter(near, ours, gather(far, theirs, total));
                Outcome.of(
                                connection()
                                        .read(
                                                local(near),
                                                remote(far, regions),
                                                TransferOptions.DEFAULTS))
                        .assertDone(total);
            }
            for (int i = 0; i < REGIONS; i++) {
                String name = "remote" + i;
                assertThat(bytes(here, "local" + i)).as("local %d", i).isEqualTo(ours[i]);
                byte[] found = peer.run(self -> bytes(self, name));
                assertThat(found).as(name).isEqualTo(theirs[i]);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void stridedPiecesOfUnequalLength(Kind kind) {
        List<Form> near =
                List.of(
                        new Form(64, 96, 1000),
                        new Form(24, 24, 1000),
                        new Form(1000, 1001, 100),
                        new Form(7, 13, 3000),
                        new Form(4096, 8192, 100),
                        new Form(0, 8, 50),
                        new Form(100_000, 100_000, 2));
        List<Form> far =
                List.of(
                        new Form(64, 128, 1000),
                        new Form(8, 40, 3000),
                        new Form(1, 2, 100_000),
                        new Form(21, 33, 1000),
                        new Form(12_800, 30_000, 32),
                        new Form(0, 0, 70),
                        new Form(100_000, 100_000, 2));
        int size = 1 << 20;
        MemoryRegion local = region("local", kind, size);
        RemoteMemory remote = remote("remote", kind, size);
        for (int i = 0; i < near.size(); i++) {
            Form ours = near.get(i);
            Form theirs = far.get(i);
            long total = (long) ours.piece * ours.count;
            MemorySlices here5 =
                    MemorySlices.strided(local, 5, ours.piece, ours.stride, ours.count);
            RemoteSlices there3 =
                    RemoteSlices.strided(
                            remote.slice(3, size - 3), theirs.piece, theirs.stride, theirs.count);
            long seed = random.nextLong();
            fillStrided(here, "local", 5, ours, seed);
            peer.fill("remote", 0, size, STALE);
            Outcome.of(connection().write(here5, there3, TransferOptions.DEFAULTS))
                    .assertDone(total);
            peer.tell(self -> checkStrided(self, "remote", 3, theirs, seed));
            here.fill("local", 0, size, STALE);
            Outcome.of(connection().read(here5, there3, TransferOptions.DEFAULTS))
                    .assertDone(total);
            checkStrided(here, "local", 5, ours, seed);
        }
    }

    /// And each costs little. By the processor time of the thread that posts and waits, since the
    /// machine may have much else to do.
    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aHundredThousandPieces(Kind kind) {
        Form form = new Form(200, 256, 100_000);
        MemoryRegion local = region("local", kind, form.extent());
        RemoteMemory remote = remote("remote", kind, form.extent());
        List<MemorySlice> near = new ArrayList<>();
        List<RemoteMemory> far = new ArrayList<>();
        for (int i = 0; i < form.count; i++) {
            near.add(local.slice((long) i * form.stride, form.piece));
            far.add(remote.slice((long) i * form.stride, form.piece));
        }
        Collections.shuffle(near, random);
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long begin = threads.getCurrentThreadCpuTime();
        MemorySlices list = MemorySlices.of(near);
        RemoteSlices remoteList = RemoteSlices.of(far);
        long used = threads.getCurrentThreadCpuTime() - begin;
        long seed = random.nextLong();
        for (int i = 0; i < form.count; i++) {
            long at = (long) i * form.piece;
            Content.fill(here.segment("local"), list.offset(i), form.piece, seed, at);
        }
        peer.fill("remote", 0, form.extent(), STALE);
        long total = (long) form.count * form.piece;
        long carried = carried();
        long least = Long.MAX_VALUE; // the first one is compiled on the way
        int rounds = 0;
        while (rounds < 6 && (rounds < 1 || least + used / form.count > MOST_NANOS_A_PIECE)) {
            begin = threads.getCurrentThreadCpuTime();
            Outcome.of(connection().write(list, remoteList, TransferOptions.DEFAULTS))
                    .assertDone(total);
            least = Math.min(least, (threads.getCurrentThreadCpuTime() - begin) / form.count);
            rounds++;
        }
        assertThat(least + used / form.count)
                .as("nanoseconds of the caller's processor for each piece")
                .isLessThan(MOST_NANOS_A_PIECE);
        assertThat(carried() - carried)
                .as("bytes for lists, on lanes")
                .isLessThan(rounds * (total + MOST_BYTES_A_PIECE * form.count));
        peer.tell(self -> checkStrided(self, "remote", 0, form, seed));

        here.fill("local", 0, local.size(), STALE);
        MemorySlices strided = MemorySlices.strided(local, 8, form.piece, form.stride, form.count);
        Outcome.of(connection().read(strided, remoteList, TransferOptions.DEFAULTS))
                .assertDone(total);
        checkStrided(here, "local", 8, form, seed);

        peer.fill("remote", 0, form.extent(), STALE);
        Form halves = new Form(100, 128, 200_000);
        RemoteSlices remoteHalves =
                RemoteSlices.strided(
                        remote.slice(1, remote.length() - 1),
                        halves.piece,
                        halves.stride,
                        halves.count);
        carried = carried();
        Outcome.of(connection().write(strided, remoteHalves, TransferOptions.DEFAULTS))
                .assertDone(total);
        assertThat(carried() - carried)
                .as("bytes for a strided form, on lanes")
                .isLessThan(total + halves.count);
        peer.tell(self -> checkStrided(self, "remote", 1, halves, seed));
    }

    /// What lanes have sent; windows are none.
    private long carried() {
        return connection().metrics().lanes().stream()
                .mapToLong(ConnectionMetrics.Lane::bytesSent)
                .sum();
    }

    /// What is packed for a full lane waits in the lane's staging buffer: nothing else may be
    /// packed there meanwhile.
    @Test
    void piecesThatWaitForAFullLaneStayAsTheyAre() {
        int large = 1 << 20;
        int piece = 1024;
        int[] places = IntStream.range(0, 700).toArray();
        for (int i = places.length - 1; i > 0; i--) {
            int other = random.nextInt(i + 1);
            int place = places[i];
            places[i] = places[other];
            places[other] = place;
        }
        long slot = large + (long) piece * places.length;
        MemoryRegion local = region("local", Kind.FOREIGN, 16 * slot);
        RemoteMemory remote = remote("remote", Kind.FOREIGN, local.size());
        List<MemorySlices> near = new ArrayList<>();
        List<RemoteSlices> far = new ArrayList<>();
        for (long at = 0; at < local.size(); at += slot) {
            List<RemoteMemory> pieces = new ArrayList<>(List.of(remote.slice(at, large)));
            for (int place : places) {
                pieces.add(remote.slice(at + large + (long) piece * place, piece));
            }
            near.add(MemorySlices.of(local.slice(at, slot)));
            far.add(RemoteSlices.of(pieces));
        }
        long seed = random.nextLong();
        here.fill("local", 0, local.size(), seed);
        runAll(i -> connection().write(near.get(i), far.get(i), TransferOptions.DEFAULTS));
        peer.tell(
                self -> {
                    MemorySegment memory = self.segment("remote");
                    for (long at = 0; at < memory.byteSize(); at += slot) {
                        Content.check(memory, at, large, seed, at);
                        for (int i = 0; i < places.length; i++) {
                            long to = at + large + (long) piece * places[i];
                            Content.check(memory, to, piece, seed, at + large + (long) piece * i);
                        }
                    }
                });
        here.fill("local", 0, local.size(), STALE);
        runAll(i -> connection().read(near.get(i), far.get(i), TransferOptions.DEFAULTS));
        here.check("local", 0, local.size(), seed);
    }

    /// Posts sixteen transfers, all in flight at the same time.
    private static void runAll(IntFunction<Transfer> post) {
        IntStream.range(0, 16).mapToObj(post).toList().forEach(t -> Outcome.of(t).assertDone());
    }

    private static void fillStrided(Participant self, String name, long at, Form form, long seed) {
        self.fill(name, 0, self.segment(name).byteSize(), STALE);
        for (int i = 0; i < form.count; i++) {
            long from = at + (long) i * form.stride;
            Content.fill(self.segment(name), from, form.piece, seed, (long) i * form.piece);
        }
    }

    /// Checks every piece, and that nothing between them was touched.
    private static void checkStrided(Participant self, String name, long at, Form form, long seed) {
        MemorySegment memory = self.segment(name);
        Content.check(memory, 0, at, STALE, 0);
        for (int i = 0; i < form.count; i++) {
            long from = at + (long) i * form.stride;
            Content.check(memory, from, form.piece, seed, (long) i * form.piece);
            from += form.piece;
            long rest = Math.min(MARGIN, memory.byteSize() - from);
            long gap = i < form.count - 1 ? form.stride - form.piece : rest;
            Content.check(memory, from, gap, STALE, from);
        }
    }

    @Test
    void bothSidesMustHoldTheSameNumberOfBytes() {
        region("local", Kind.TELPHER, 4096);
        RemoteMemory remote = remote("remote", Kind.TELPHER, 4096);
        MemorySlices near = MemorySlices.of(here.slice("local", 0, 10), here.slice("local", 50, 5));
        for (long length : new long[] {14, 16}) {
            RemoteSlices far = RemoteSlices.of(remote.slice(0, length));
            assertThatThrownBy(() -> connection().write(near, far, TransferOptions.DEFAULTS))
                    .isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> connection().read(near, far, TransferOptions.DEFAULTS))
                    .isInstanceOf(IllegalArgumentException.class);
        }
    }

    /// Pieces of nothing count: frames have no word for them, so only where this side sees the
    /// peer's regions.
    @Test
    void anEmptyPieceOfAClosedRegionFailsTheTransfer() {
        assumeTrue(setting.path().oneSided(), "frames carry no pieces of nothing");
        region("local", Kind.TELPHER, 100);
        RemoteMemory open = remote("open", Kind.TELPHER, 100);
        RemoteMemory closed = remote("closed", Kind.TELPHER, 100);
        here.write("local", 0, 100, open).assertDone(100);
        here.write("local", 0, 100, closed).assertDone(100);
        peer.tell(self -> self.closeRegion("closed"));
        MemorySlices local = MemorySlices.of(List.of(here.slice("local", 0, 100)));
        RemoteSlices pieces = RemoteSlices.of(List.of(open, closed.slice(50, 0)));
        Outcome.of(connection().write(local, pieces, TransferOptions.DEFAULTS))
                .assertError(TelpherException.StaleRegion.class);
        Outcome.of(connection().read(local, pieces, TransferOptions.DEFAULTS))
                .assertError(TelpherException.StaleRegion.class);
    }

    @Test
    void oneBadPieceFailsTheTransfer() {
        region("local", Kind.TELPHER, 10_000);
        RemoteMemory good = remote("good", Kind.TELPHER, 10_000);
        RemoteMemory closed = remote("closed", Kind.TELPHER, 10_000);
        peer.tell(self -> self.closeRegion("closed"));
        MemorySlices near = MemorySlices.of(here.slice("local", 0, 10_000));
        RemoteSlices far =
                RemoteSlices.of(good.slice(0, 4000), closed.slice(0, 2000), good.slice(5000, 4000));
        assertThat(Outcome.failure(() -> connection().write(near, far, TransferOptions.DEFAULTS)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThat(Outcome.failure(() -> connection().read(near, far, TransferOptions.DEFAULTS)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        here.fill("local", 0, 10_000, 8);
        here.write("local", 0, 10_000, good).assertDone(10_000);
        peer.check("good", 0, 10_000, 8);
    }
}
