package io.telpher.cli.bench;

/// Jain's fairness index: 1 when all get the same, 1/n when one of n gets everything.
final class Fairness {
    private Fairness() {}

    /// @return the index of these shares; 1 for none
    static double jain(double... shares) {
        double sum = 0;
        double squares = 0;
        for (double share : shares) {
            sum += share;
            squares += share * share;
        }
        return squares == 0 ? 1 : sum * sum / (shares.length * squares);
    }
}
