package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.Tool;
import org.junit.jupiter.api.Test;

class MatrixProductsTest {
    @Test
    void whatIsMissingIsNamed() {
        assumeTrue(Gpus.all().size() < MatrixProducts.GPUS, "this machine has two GPUs");
        assumeTrue(Tool.find("python3") != null, "python3 is missing (package python3)");
        assertThatThrownBy(MatrixProducts::new)
                .isInstanceOf(BenchFailure.class)
                .hasMessageContaining("torch");
    }

    @Test
    void ratesAreThoseBetweenTwoMarks() {
        var before = new MatrixProducts.Mark(1_000_000_000, new long[] {100, 7});
        var after = new MatrixProducts.Mark(1_500_000_000, new long[] {400, 8});
        assertThat(after.rate(before, 0)).isEqualTo(600);
        assertThat(after.rate(before, 1)).isEqualTo(2);
    }
}
