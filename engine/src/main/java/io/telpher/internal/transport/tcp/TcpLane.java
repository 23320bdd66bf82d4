package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.TcpInfo;
import io.telpher.spi.Lane;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A lane over one TCP stream. The send token guards [TcpOutput], the poll token [TcpInput].
final class TcpLane implements Lane {
    /// Largest payload of a frame: big enough that a system call is small beside the copy.
    static final int MAX_PAYLOAD = 1 << 20;

    private final TcpSocket socket;
    private final TcpOutput output;
    private final TcpInput input;
    private final TcpSilence silence;

    /// @param descriptor a connected, non-blocking socket; it belongs to the lane from now on
    TcpLane(int descriptor) {
        socket = new TcpSocket(descriptor, TcpSocket.describe(descriptor));
        output = new TcpOutput(socket);
        input = new TcpInput(socket);
        silence = new TcpSilence(new TcpInfo(socket.arena()), descriptor);
    }

    @Override
    public String path() {
        return "tcp";
    }

    @Override
    public String text() {
        return socket.text();
    }

    @Override
    public int maxPayload() {
        return MAX_PAYLOAD;
    }

    @Override
    public int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            @Nullable Object owner) {
        return output.send(header, at, payload, offset, length, owner);
    }

    @Override
    public int flush() {
        return output.flush();
    }

    @Override
    public void releaseOutbound(Object owner) {
        output.release(owner);
    }

    @Override
    public int poll(Receiver receiver, int limit) {
        return input.poll(receiver, limit);
    }

    @Override
    public void discardInbound(Object owner) {
        input.discard(owner);
    }

    @Override
    public int descriptor() {
        return socket.descriptor();
    }

    @Override
    public boolean wantsWrite() {
        return output.wantsWrite();
    }

    @Override
    public boolean park() {
        return !input.ready();
    }

    @Override
    public void unpark() {
        // The descriptor is level-triggered: there is nothing to take back.
    }

    @Override
    public long roundTripNanos() {
        return silence.roundTripNanos();
    }

    @Override
    public long silence() {
        return silence.nanos();
    }

    @Override
    public @Nullable String failure() {
        return socket.failure();
    }

    @Override
    public void close() {
        silence.end();
        input.drain();
        socket.close();
    }
}
