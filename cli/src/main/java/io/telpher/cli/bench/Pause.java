package io.telpher.cli.bench;

/// What a loop does after a look that found nothing.
enum Pause {
    /// Looks again at once: there is a core for every rank.
    SPIN,
    /// Lets others run first: there are more ranks than cores.
    YIELD;

    /// @return what suits so many ranks on this machine
    static Pause of(int ranks) {
        return ranks > Cores.available().size() ? YIELD : SPIN;
    }

    void now() {
        if (this == YIELD) {
            Thread.yield();
        }
    }
}
