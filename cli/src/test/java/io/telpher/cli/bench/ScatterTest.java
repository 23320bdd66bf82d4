package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ScatterTest {
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 10, 1000, 1024, 100_000})
    void placesEveryPieceOnce(int pieces) {
        int[] places = IntStream.range(0, pieces).map(i -> Scatter.place(i, pieces)).toArray();
        assertThat(places).doesNotHaveDuplicates();
        assertThat(IntStream.of(places).min()).hasValue(0);
        assertThat(IntStream.of(places).max()).hasValue(pieces - 1);
    }

    @ParameterizedTest
    @ValueSource(ints = {10, 1000, 1024, 100_000})
    void neighboursAreNotJoined(int pieces) {
        for (int i = 1; i < pieces; i++) {
            assertThat(Scatter.place(i, pieces)).isNotEqualTo(Scatter.place(i - 1, pieces) + 1);
        }
    }
}
