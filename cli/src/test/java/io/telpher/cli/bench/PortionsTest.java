package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PortionsTest {
    private static final double SECONDS = 4;

    /// @param slower how much longer an operation takes than in the calibration
    private static double measure(boolean counted, double slower) {
        Portions portions = new Portions(SECONDS, counted);
        double known = 1;
        double all = 0;
        while (portions.hasNext()) {
            double took = counted ? portions.next() * slower / known : portions.next();
            known = slower;
            portions.took(took);
            all += took;
        }
        return all;
    }

    @ParameterizedTest
    @ValueSource(doubles = {0.01, 0.1, 1, 3, 10})
    void aMistakenCalibrationDoesNotDecideHowLongARowLasts(double slower) {
        assertThat(measure(true, slower)).isBetween(SECONDS * 0.9, SECONDS * 2.6);
        assertThat(measure(false, slower)).isEqualTo(SECONDS);
    }

    /// Each one fills and checks memory.
    @ParameterizedTest
    @ValueSource(doubles = {0.5, 0.9, 0.99})
    void theSegmentsAreFewEvenIfEachEndsEarly(double share) {
        Portions portions = new Portions(SECONDS, true);
        int count = 0;
        while (portions.hasNext()) {
            portions.took(portions.next() * (1 - share));
            count++;
        }
        assertThat(count).isLessThanOrEqualTo(8);
    }
}
