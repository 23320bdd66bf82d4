package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.TcpInfo;
import java.util.concurrent.TimeUnit;

/// Tells for how long the peer's kernel has owed an acknowledgement. A stopped process's kernel
/// still acknowledges, and answers window probes, so only a lost host or network is silent.
/// Thread-safe.
final class TcpSilence {
    private final TcpInfo info;
    private final int descriptor;
    private boolean over;

    /// When something was first seen to be owed that has not been paid since; only while `owing`.
    private long owedSince;

    private boolean owing;
    private long acked;

    TcpSilence(TcpInfo info, int descriptor) {
        this.info = info;
        this.descriptor = descriptor;
    }

    /// @return nanoseconds since the last acknowledgement, if one is owed, else 0
    synchronized long nanos() {
        if (over || info.read(descriptor) < 0) {
            return 0;
        }
        // Probes count what was sent without an answer: of a closed window and of keep-alive.
        if (info.unacked() == 0 && info.probes() == 0) {
            owing = false;
            return 0;
        }
        long now = System.nanoTime();
        if (!owing || info.bytesAcked() != acked) {
            owing = true;
            owedSince = now;
            acked = info.bytesAcked();
        }
        // The last acknowledgement may be older than the debt: after an idle hour, by an hour.
        long sinceAck =
                TimeUnit.MILLISECONDS.toNanos(Integer.toUnsignedLong(info.lastAckReceivedMillis()));
        return Math.min(sinceAck, now - owedSince);
    }

    /// @return the smoothed round-trip time in nanoseconds, -1 when it is not known
    synchronized long roundTripNanos() {
        return over || info.read(descriptor) < 0
                ? -1
                : TimeUnit.MICROSECONDS.toNanos(Integer.toUnsignedLong(info.rttMicros()));
    }

    /// The descriptor is about to be closed.
    synchronized void end() {
        over = true;
    }
}
