package io.telpher.topology;

import java.util.Locale;

/// The PCIe link between a device or switch and the port above it. Speeds are in GT/s per lane, 0
/// where they are unknown, as in many virtual machines; widths are in lanes, likewise.
///
/// @param maxSpeed the most that both ends can
/// @param maxWidth the most that both ends can
/// @param currentSpeed what is used now; idle devices may clock their link down
/// @param currentWidth what is used now
public record PcieLink(double maxSpeed, int maxWidth, double currentSpeed, int currentWidth) {
    /// Nothing is known.
    public static final PcieLink UNKNOWN = new PcieLink(0, 0, 0, 0);

    /// What a lane of Gen1 to Gen6 carries in each direction, in GB/s, by GT/s.
    private static final double[][] LANE = {
        {2.5, 0.1875}, {5, 0.375}, {8, 0.75}, {16, 1.5}, {32, 3}, {64, 6}
    };

    private static final double UNKNOWN_LANE = 0.75;
    private static final int UNKNOWN_WIDTH = 16;

    /// @return GB/s in each direction at the maximum; where it is unknown, as Gen3 with 16 lanes
    public double bandwidth() {
        return lane(maxSpeed) * (maxWidth == 0 ? UNKNOWN_WIDTH : maxWidth);
    }

    private static double lane(double speed) {
        for (double[] generation : LANE) {
            if (generation[0] == speed) {
                return generation[1];
            }
        }
        return UNKNOWN_LANE;
    }

    /// @return whether the link is known to run slower or narrower than it can. A slow one may be
    ///     saving power: look again under load
    public boolean belowMaximum() {
        return (currentSpeed > 0 && currentSpeed < maxSpeed)
                || (currentWidth > 0 && currentWidth < maxWidth);
    }

    /// @return the maximum, such as `Gen5 x16`
    @Override
    public String toString() {
        return text(maxSpeed, maxWidth);
    }

    /// @return what is used now, such as `Gen1 x16`
    public String current() {
        return text(currentSpeed, currentWidth);
    }

    private static String text(double speed, int width) {
        if (speed == 0 && width == 0) {
            return "unknown";
        }
        int generation = 0;
        for (int i = 0; i < LANE.length; i++) {
            generation = LANE[i][0] == speed ? i + 1 : generation;
        }
        String rate =
                speed == 0
                        ? "Gen?"
                        : generation > 0
                                ? "Gen" + generation
                                : String.format(Locale.ROOT, "%.1fGT/s", speed);
        return rate + " x" + (width == 0 ? "?" : width);
    }
}
