package io.telpher.sim;

/// Prints a line for each of some seeds: what the log of its random run hashes to.
final class Fingerprints {
    private Fingerprints() {}

    /// @param args the first seed, and how many
    public static void main(String[] args) {
        long first = Long.parseLong(args[0]);
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            System.out.println(of(first + i));
        }
    }

    static String of(long seed) {
        try (RandomRun run = new RandomRun(seed, Planted.NONE, null)) {
            run.run();
            return "seed %d: %016x".formatted(seed, run.simulation.fingerprint());
        }
    }
}
