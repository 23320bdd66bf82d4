package io.telpher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
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

    @Test
    void moreBytesThanCanBeCountedAreRefused() {
        RemoteMemory most = new RemoteMemory(1, 1, 1, 1, 0, Long.MAX_VALUE, Access.READ_WRITE);
        assertThatThrownBy(() -> RemoteSlices.of(most, most))
                .isInstanceOf(ArithmeticException.class);
    }
}
