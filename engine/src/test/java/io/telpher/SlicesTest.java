package io.telpher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class SlicesTest {
    private static RemoteMemory region(int region, long key) {
        return new RemoteMemory(1, region, 1, key, 0, 1L << 40, Access.READ_WRITE);
    }

    /// Against the list itself.
    @Test
    void piecesLieWhereTheListSays() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int round = 0; round < 200; round++) {
            List<RemoteMemory> list = new ArrayList<>();
            int count = random.nextInt(20);
            for (int i = 0; i < count; i++) {
                long length = random.nextInt(4) == 0 ? 0 : random.nextInt(100);
                list.add(
                        region(random.nextInt(3), random.nextInt(2))
                                .slice(random.nextInt(1000), length));
            }
            RemoteSlices slices = RemoteSlices.of(list);
            String as = "seed " + seed + ", round " + round + ": " + list;
            assertThat(slices.count()).as(as).isEqualTo(count);
            assertThat(slices.hasEmpty())
                    .as(as)
                    .isEqualTo(list.stream().anyMatch(piece -> piece.length() == 0));
            long start = 0;
            for (int i = 0; i < count; i++) {
                RemoteMemory piece = list.get(i);
                assertThat(slices.region(i).life()).as(as).isEqualTo(piece.life());
                assertThat(slices.regions()).as(as).contains(slices.region(i));
                assertThat(slices.offset(i)).as(as).isEqualTo(piece.offset());
                assertThat(slices.length(i)).as(as).isEqualTo(piece.length());
                assertThat(slices.start(i)).as(as).isEqualTo(start);
                for (long at = start; at < start + piece.length(); at++) {
                    assertThat(slices.pieceAt(at)).as(as).isEqualTo(i);
                }
                start += piece.length();
            }
            assertThat(slices.totalBytes()).as(as).isEqualTo(start);
            assertThat(slices.regions().stream().map(RemoteMemory::life))
                    .as(as)
                    .containsExactlyElementsOf(
                            list.stream().map(RemoteMemory::life).distinct().toList());
        }
    }

    /// The first descriptor of a region stands for the others, so that looks at regions need not
    /// look at pieces.
    @Test
    void aRegionIsListedOnce() {
        RemoteMemory one = region(1, 7);
        RemoteMemory two = region(2, 7);
        RemoteSlices slices =
                RemoteSlices.of(one.slice(5, 1), two.slice(0, 1), one.slice(9, 1), two.slice(3, 1));
        assertThat(slices.regions()).containsExactly(one.slice(5, 1), two.slice(0, 1));
        assertThat(slices.region(2)).isSameAs(slices.region(0));
        assertThat(slices.region(3)).isSameAs(slices.region(1));
    }

    @Test
    void stridedPiecesStartWhereTheirMemoryDoes() {
        RemoteSlices slices = RemoteSlices.strided(region(1, 7).slice(100, 1000), 10, 50, 20);
        assertThat(slices.offset(3)).isEqualTo(250);
        assertThat(slices.start(3)).isEqualTo(30);
        assertThat(slices.pieceAt(39)).isEqualTo(3);
        assertThat(slices.totalBytes()).isEqualTo(200);
        assertThatThrownBy(() -> RemoteSlices.strided(region(1, 7).slice(100, 1000), 10, 50, 21))
                .isInstanceOf(IndexOutOfBoundsException.class);
    }

    /// Against a list of all pieces, of any strides; what does not lie inside is refused.
    @Test
    void piecesOfAGridLieWhereItsIndicesSay() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        int inside = 0;
        for (int round = 0; round < 2000; round++) {
            long[] shape = random.longs(random.nextInt(5), 0, 5).toArray();
            long[] strides = random.longs(shape.length, -40, 41).toArray();
            long length = random.nextInt(6);
            long first = random.nextInt(200);
            String as =
                    "seed %d, round %d: %d bytes at %d, %s by %s"
                            .formatted(
                                    seed,
                                    round,
                                    length,
                                    first,
                                    Arrays.toString(shape),
                                    Arrays.toString(strides));
            List<Long> offsets = new ArrayList<>();
            list(shape, strides, 0, first, offsets);
            boolean fits = offsets.stream().allMatch(at -> at >= 0 && at + length <= 300);
            if (!fits) {
                assertThatThrownBy(() -> Pieces.grid("r", first, length, shape, strides, 300))
                        .as(as)
                        .isInstanceOf(IndexOutOfBoundsException.class);
                continue;
            }
            inside++;
            Pieces<String> pieces = Pieces.grid("r", first, length, shape, strides, 300);
            assertThat(pieces.count()).as(as).isEqualTo(offsets.size());
            assertThat(pieces.total()).as(as).isEqualTo(length * offsets.size());
            assertThat(pieces.hasEmpty()).as(as).isEqualTo(length == 0 && !offsets.isEmpty());
            assertThat(pieces.isStrided())
                    .as(as)
                    .isEqualTo(shape.length == 1 && strides[0] >= length);
            assertThat(pieces.stride()).as(as).isEqualTo(pieces.isStrided() ? strides[0] : -1);
            for (int i = 0; i < offsets.size(); i++) {
                assertThat(pieces.offset(i)).as(as).isEqualTo(offsets.get(i));
                assertThat(pieces.length(i)).as(as).isEqualTo(length);
                assertThat(pieces.start(i)).as(as).isEqualTo(length * i);
                if (length > 0) {
                    assertThat(pieces.pieceAt(length * (i + 1) - 1)).as(as).isEqualTo(i);
                }
            }
        }
        assertThat(inside).as("seed %d: grids inside of their region", seed).isBetween(200, 1900);
    }

    @Test
    void aGridThatReachesFurtherThanANumberLiesOutside() {
        long far = 1L << 62;
        for (long[] strides :
                new long[][] {{far, 0}, {-far, 0}, {far / 2, far / 2}, {far / 2, -far / 2}}) {
            assertThatThrownBy(() -> Pieces.grid("r", 7, far, new long[] {3, 3}, strides, far))
                    .isInstanceOf(IndexOutOfBoundsException.class)
                    .hasMessageContaining(
                            "offset 7, shape [3, 3] and strides " + Arrays.toString(strides));
        }
    }

    private static void list(
            long[] shape, long[] strides, int dimension, long at, List<Long> offsets) {
        if (dimension == shape.length) {
            offsets.add(at);
            return;
        }
        for (int i = 0; i < shape[dimension]; i++) {
            list(shape, strides, dimension + 1, at + i * strides[dimension], offsets);
        }
    }

    @Test
    void aGridHasFewerThanTwoToTheThirtyFirstPieces() {
        long[] still = {46340, 46341, 1};
        assertThat(Pieces.grid("r", 0, 1, still, new long[3], 1).count()).isEqualTo(46340 * 46341);
        for (long[] tooMany :
                new long[][] {{46341, 46341}, {1L << 31}, {1L << 62, 1L << 62}, {1, 1L << 40}}) {
            assertThatThrownBy(() -> Pieces.grid("r", 0, 1, tooMany, new long[tooMany.length], 1))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("pieces in one transfer: at most 2147483647");
        }
        assertThat(Pieces.grid("r", 0, 1, new long[] {1L << 62, 0}, new long[2], 0).count())
                .isZero();
        assertThatThrownBy(() -> Pieces.grid("r", 0, 1, new long[] {-1}, new long[1], 1))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void piecesOfOneMemoryLieWhereTheListSays() {
        RemoteMemory memory = region(1, 7).slice(100, 50);
        RemoteSlices slices = RemoteSlices.of(memory, new long[] {40, 0, 7}, new long[] {10, 1, 0});
        assertThat(slices.offset(0)).isEqualTo(140);
        assertThat(slices.offset(1)).isEqualTo(100);
        assertThat(slices.length(2)).isZero();
        assertThat(slices.totalBytes()).isEqualTo(11);
        assertThat(slices.regions()).containsExactly(memory);
        for (long[] outside : new long[][] {{41, 10}, {-1, 1}, {50, 1}}) {
            assertThatThrownBy(
                            () ->
                                    RemoteSlices.of(
                                            memory,
                                            new long[] {outside[0]},
                                            new long[] {outside[1]}))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
        assertThatThrownBy(() -> RemoteSlices.of(memory, new long[2], new long[1]))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void moreBytesThanCanBeCountedAreRefused() {
        long far = 1L << 62;
        RemoteMemory memory = new RemoteMemory(1, 1, 1, 7, 0, far, Access.READ_WRITE);
        assertThatThrownBy(() -> RemoteSlices.strided(memory, 1, far, 3))
                .isInstanceOf(IndexOutOfBoundsException.class)
                .hasMessage(
                        "3 pieces of 1 bytes every " + far + " bytes do not fit into any region");
        assertThatThrownBy(() -> RemoteSlices.of(memory, new long[2], new long[] {far, far}))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("the first 2 pieces are more than 2^63 - 1 bytes");
        assertThatThrownBy(() -> Pieces.grid("r", 0, far, new long[] {2}, new long[] {0}, far))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("2 pieces of " + far + " bytes are more than 2^63 - 1");
    }
}
