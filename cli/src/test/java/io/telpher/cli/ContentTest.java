package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ContentTest {
    private final MemorySegment memory = Arena.ofAuto().allocate(70_000, 8);

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 8, 9, 64, 4096, 65_537})
    void acceptsWhatItFilled(int length) {
        long seed = Content.seed(3, 1, length);
        Content.fill(memory, 5, length, seed, 0);
        assertThat(Content.firstWrong(memory, 5, length, seed, 0)).isEqualTo(-1);
        assertThat(Content.countWrong(memory, 5, length, seed, 0)).isZero();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 7, 8, 4000, 4094, 4095})
    void findsAPlantedByte(int place) {
        long seed = Content.seed(3, 1, 4096);
        Content.fill(memory, 0, 4096, seed, 0);
        byte right = memory.get(ValueLayout.JAVA_BYTE, place);
        memory.set(ValueLayout.JAVA_BYTE, place, (byte) (right ^ 0x10));
        assertThat(Content.firstWrong(memory, 0, 4096, seed, 0)).isEqualTo(place);
        assertThat(Content.countWrong(memory, 0, 4096, seed, 0)).isEqualTo(1);
    }

    @Test
    void zeroedMemoryDoesNotPass() {
        for (int round = 0; round < 1000; round++) {
            assertThat(Content.firstWrong(memory, 0, 8, Content.seed(round, 0, 8), 0))
                    .isNotEqualTo(-1);
        }
    }

    @Test
    void staleMisplacedAndForeignContentDoesNotPass() {
        Content.fill(memory, 0, 4096, Content.seed(3, 1, 4096), 0);
        assertThat(wrongWords(Content.seed(2, 1, 4096), 0)).isEqualTo(512);
        assertThat(wrongWords(Content.seed(3, 2, 4096), 0)).isEqualTo(512);
        assertThat(wrongWords(Content.seed(3, 1, 8192), 0)).isEqualTo(512);
        assertThat(wrongWords(Content.seed(3, 1, 4096), 8)).isEqualTo(512);
    }

    private int wrongWords(long seed, long position) {
        int wrong = 0;
        for (int i = 0; i < 4096; i += 8) {
            if (Content.firstWrong(memory, i, 8, seed, position + i) >= 0) {
                wrong++;
            }
        }
        return wrong;
    }

    @Test
    void piecesTakenApartAreCheckedByTheirPositionInTheWhole() {
        long seed = Content.seed(1, 0, 30);
        Content.fill(memory, 0, 30, seed, 0);
        MemorySegment.copy(memory, 10, memory, 1000, 10);
        assertThat(Content.firstWrong(memory, 1000, 10, seed, 10)).isEqualTo(-1);
        assertThat(Content.firstWrong(memory, 1000, 10, seed, 20)).isNotEqualTo(-1);
    }
}
