package io.telpher.topology;

/// The links from chip to chip between a GPU and its CPU.
///
/// @param count how many
/// @param megabytes what each carries in each direction, in MB/s
public record C2c(int count, int megabytes) {
    /// @return GB/s in each direction
    public double bandwidth() {
        return count * (double) megabytes / 1000;
    }
}
