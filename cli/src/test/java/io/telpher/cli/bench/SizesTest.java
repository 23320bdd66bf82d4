package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SizesTest {
    @ParameterizedTest
    @CsvSource({
        "8,8",
        "4K,4096",
        "4k,4096",
        "4KiB,4096",
        "1M,1048576",
        "64MB,67108864",
        "5G,5368709120",
        "0,0"
    })
    void readsSizes(String text, long bytes) {
        assertThat(Sizes.parse(text)).isEqualTo(bytes);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "K",
                "-1",
                "1.5M",
                "8T",
                "4 K",
                "999999999999999G",
                "99999999999999999999"
            })
    void refusesWhatIsNoSize(String text) {
        assertThatThrownBy(() -> Sizes.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(text);
    }

    @ParameterizedTest
    @ValueSource(
            longs = {0, 1, 8, 1000, 1023, 1024, 1536, 65536, 1 << 20, 3L << 30, (1L << 40) + 1})
    void printsWhatItReads(long bytes) {
        assertThat(Sizes.parse(Sizes.format(bytes))).isEqualTo(bytes);
    }

    @Test
    void readsLists() {
        assertThat(Sizes.parseList("8,4K,1M")).containsExactly(8L, 4096L, 1L << 20);
    }
}
