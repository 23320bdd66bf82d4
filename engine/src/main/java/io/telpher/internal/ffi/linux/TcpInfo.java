package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// What the kernel knows about a TCP connection: the fields of `struct tcp_info` (`linux/tcp.h`)
/// that the engine uses. Allocated once, filled by [#read]. Fields that an older kernel does not
/// fill read as 0. Not thread-safe.
public final class TcpInfo {
    public static final int TCP_ESTABLISHED = 1;
    public static final int TCP_SYN_SENT = 2;
    public static final int TCP_CLOSE = 7;
    public static final int TCP_CLOSE_WAIT = 8;

    static final int BYTES = 192;
    static final int STATE = 0;
    static final int RETRANSMITS = 2;
    static final int PROBES = 3;
    static final int BACKOFF = 4;
    static final int UNACKED = 24;
    static final int LAST_DATA_SENT = 44;
    static final int LAST_DATA_RECV = 52;
    static final int LAST_ACK_RECV = 56;
    static final int RTT = 68;
    static final int SND_CWND = 80;
    static final int TOTAL_RETRANS = 100;
    static final int BYTES_ACKED = 120;
    static final int BYTES_RECEIVED = 128;
    static final int NOTSENT_BYTES = 144;
    static final int MIN_RTT = 148;
    static final int DELIVERY_RATE = 160;

    private final MemorySegment info;

    public TcpInfo(Arena arena) {
        info = arena.allocate(BYTES, 8);
    }

    /// Asks the kernel. Returns how many bytes it filled.
    public int read(int fd) {
        info.fill((byte) 0);
        return Sockets.getsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_INFO, info);
    }

    public int state() {
        return info.get(JAVA_BYTE, STATE) & 0xff;
    }

    /// Repetitions of the segment that is being retransmitted now.
    public int retransmits() {
        return info.get(JAVA_BYTE, RETRANSMITS) & 0xff;
    }

    /// Unanswered window or keep-alive probes.
    public int probes() {
        return info.get(JAVA_BYTE, PROBES) & 0xff;
    }

    public int backoff() {
        return info.get(JAVA_BYTE, BACKOFF) & 0xff;
    }

    /// Segments sent and not acknowledged.
    public int unacked() {
        return info.get(JAVA_INT, UNACKED);
    }

    public int lastDataSentMillis() {
        return info.get(JAVA_INT, LAST_DATA_SENT);
    }

    public int lastDataReceivedMillis() {
        return info.get(JAVA_INT, LAST_DATA_RECV);
    }

    public int lastAckReceivedMillis() {
        return info.get(JAVA_INT, LAST_ACK_RECV);
    }

    public int rttMicros() {
        return info.get(JAVA_INT, RTT);
    }

    public int minRttMicros() {
        return info.get(JAVA_INT, MIN_RTT);
    }

    public int congestionWindow() {
        return info.get(JAVA_INT, SND_CWND);
    }

    public int totalRetransmits() {
        return info.get(JAVA_INT, TOTAL_RETRANS);
    }

    public long bytesAcked() {
        return info.get(JAVA_LONG, BYTES_ACKED);
    }

    public long bytesReceived() {
        return info.get(JAVA_LONG, BYTES_RECEIVED);
    }

    /// Bytes in the send buffer that never left it.
    public int notSentBytes() {
        return info.get(JAVA_INT, NOTSENT_BYTES);
    }

    public long deliveryBytesPerSecond() {
        return info.get(JAVA_LONG, DELIVERY_RATE);
    }
}
