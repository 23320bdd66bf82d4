package io.telpher.internal.transport.verbs;

/// What the codes of a port's width and speed mean.
final class Speeds {
    private Speeds() {}

    /// @param width as the library codes the number of lanes
    /// @param speed as it codes a lane's speed
    /// @return Mb/s of all lanes together, 0 when unknown
    static int mbps(int width, int speed) {
        int lanes =
                switch (width) {
                    case 1 -> 1;
                    case 2 -> 4;
                    case 4 -> 8;
                    case 8 -> 12;
                    case 16 -> 2;
                    default -> 0;
                };
        int each =
                switch (speed) {
                    case 1 -> 2_500;
                    case 2 -> 5_000;
                    case 4, 8 -> 10_000;
                    case 16 -> 14_000;
                    case 32 -> 25_000;
                    case 64 -> 50_000;
                    case 128 -> 100_000;
                    default -> 0;
                };
        return lanes * each;
    }
}
