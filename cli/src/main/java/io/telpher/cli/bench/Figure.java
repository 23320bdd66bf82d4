package io.telpher.cli.bench;

/// One line of the table of promised figures.
///
/// @param name how `--figures` names it
/// @param what what is measured, and against which peer
/// @param bar what must be reached, or NaN where there is only an aim
/// @param aim what is aimed at, or NaN
/// @param better which way is better
/// @param unit unit of the values; `x` for a ratio to the peer
/// @param source measures one round
record Figure(
        String name,
        String what,
        double bar,
        double aim,
        Better better,
        String unit,
        Source source) {
    /// Which way is better.
    enum Better {
        /// The value must be at least the bar.
        HIGHER,
        /// The value must be at most the bar.
        LOWER,
        /// The value must be less than the bar.
        BELOW
    }

    /// Measures one round.
    interface Source {
        /// @return the value, or NaN where the peer is missing
        double measure(FigureRound round);
    }

    boolean reached(double value) {
        return switch (better) {
            case HIGHER -> value >= bar;
            case LOWER -> value <= bar;
            case BELOW -> value < bar;
        };
    }

    /// @return the bar as the table shows it
    String barText() {
        return Double.isNaN(bar) ? "" : sign() + plain(bar) + suffix();
    }

    String aimText() {
        return Double.isNaN(aim) ? "" : plain(aim) + suffix();
    }

    private static String plain(double value) {
        return value == Math.rint(value) ? Long.toString((long) value) : Double.toString(value);
    }

    private String sign() {
        return switch (better) {
            case HIGHER -> "at least ";
            case LOWER -> "at most ";
            case BELOW -> "less than ";
        };
    }

    private String suffix() {
        return unit.equals("x") ? "x" : unit.isEmpty() ? "" : " " + unit;
    }

    /// @return whether the median holds, as the table says it
    String verdict(Spread spread) {
        if (!spread.isKnown()) {
            return "not measured";
        }
        double value = spread.median();
        boolean aimed =
                !Double.isNaN(aim) && (better == Better.HIGHER ? value >= aim : value <= aim);
        if (aimed) {
            return "aim reached";
        }
        return Double.isNaN(bar) ? "aim missed" : reached(value) ? "reached" : "missed";
    }
}
