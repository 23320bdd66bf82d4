package io.telpher.cli.bench;

import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.zip.DataFormatException;
import org.HdrHistogram.Histogram;

/// What one rank found in one [Phase].
///
/// @param rank its number
/// @param operations operations that it initiated
/// @param nanos how long its loop took
/// @param allocated bytes that its thread allocated in the loop
/// @param times picoseconds per timed operation
record PhaseResult(int rank, long operations, long nanos, long allocated, Histogram times) {
    /// Longest time that is told apart from longer ones: 1,000 s.
    private static final long LONGEST = 1_000_000_000_000_000L;

    /// @return a histogram of picoseconds, precise to a tenth of a percent
    static Histogram histogram() {
        Histogram histogram = new Histogram(LONGEST, 3);
        return histogram;
    }

    Message encode() {
        ByteBuffer buffer = ByteBuffer.allocate(times.getNeededByteBufferCapacity());
        int length = times.encodeIntoCompressedByteBuffer(buffer);
        byte[] bytes = new byte[length];
        buffer.get(0, bytes);
        return Message.of("result")
                .with("rank", rank)
                .with("operations", operations)
                .with("nanos", nanos)
                .with("allocated", allocated)
                .with("times", Base64.getEncoder().encodeToString(bytes));
    }

    static PhaseResult decode(Message message) {
        try {
            byte[] bytes = Base64.getDecoder().decode(message.text("times"));
            return new PhaseResult(
                    (int) message.number("rank"),
                    message.number("operations"),
                    message.number("nanos"),
                    message.number("allocated"),
                    Histogram.decodeFromCompressedByteBuffer(ByteBuffer.wrap(bytes), LONGEST));
        } catch (DataFormatException e) {
            throw new BenchFailure("rank " + message.text("rank") + " sent a broken histogram", e);
        }
    }
}
