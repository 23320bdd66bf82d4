package io.telpher.contract;

import java.util.List;
import java.util.Random;

/// How much the tests do, and the seed of those that roll dice.
final class Scale {
    private static final double SCALE =
            Double.parseDouble(System.getProperty("telpher.test.scale", "1"));
    private static final long SEED = Long.getLong("telpher.test.seed", System.nanoTime());

    static {
        if (System.getProperty("telpher.test.seed") == null) {
            System.out.println("random tests: -Dtelpher.test.seed=" + SEED);
        }
    }

    private Scale() {}

    /// @return so many, more or fewer by `-Dtelpher.test.scale`
    static int count(int usual) {
        return (int) Math.max(1, Math.min(Integer.MAX_VALUE, usual * SCALE));
    }

    /// @return flags that make a JVM roll the same dice as this one
    static List<String> flags() {
        return List.of("-Dtelpher.test.seed=" + SEED, "-Dtelpher.test.scale=" + SCALE);
    }

    /// @return dice that roll the same for the same seed and name
    static Random random(String name) {
        return new Random(SEED ^ (long) name.hashCode() << 20);
    }

    /// @return a size between the two, all magnitudes equally likely
    static int size(Random random, int least, int most) {
        double log =
                Math.log(least + 1.0)
                        + random.nextDouble() * (Math.log(most + 1.0) - Math.log(least + 1.0));
        return (int) Math.max(least, Math.min(most, Math.round(Math.exp(log) - 1)));
    }
}
