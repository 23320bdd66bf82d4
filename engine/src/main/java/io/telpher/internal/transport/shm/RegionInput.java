package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.ffi.linux.FdPassing;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Puts together the messages about regions that come in over a link's socket. The descriptors that
/// came with one that is not complete are this object's to close. One thread at a time.
final class RegionInput {
    private static final int[] NONE = {};

    private final int socket;
    private final byte[] incoming = new byte[RegionMessage.BYTES + ExportRecord.MAX];
    private final ByteBuffer start = ByteBuffer.wrap(incoming).order(ByteOrder.LITTLE_ENDIAN);
    private int received;
    private int[] descriptors = NONE;

    RegionInput(int socket) {
        this.socket = socket;
    }

    /// Reads at most to the end of the current message, so that descriptors that arrive are this
    /// message's. Never waits.
    ///
    /// @return bytes; 0 at the end of the stream; or minus errno
    long read() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment into = arena.allocate(RegionMessage.BYTES + tail() - received);
            FdPassing.Received got = FdPassing.receive(socket, into, ExportRecord.MOST_PARTS);
            if (got.descriptors().length > 0) {
                UnixChannel.closeAll(descriptors);
                descriptors = got.descriptors();
            }
            if (got.bytes() > 0) {
                MemorySegment.copy(into, JAVA_BYTE, 0, incoming, received, (int) got.bytes());
                received += (int) got.bytes();
            }
            return got.bytes();
        }
    }

    /// @return bytes of the tail of the message that is coming in, as far as is known; less than 0
    ///     for nonsense
    private int tail() {
        return received < RegionMessage.BYTES ? 0 : RegionMessage.tail(start);
    }

    /// Whether what has come is no beginning of a message.
    boolean isNonsense() {
        return tail() < 0;
    }

    /// @return the message when it is complete, whose descriptors are the caller's now, else null
    @Nullable RegionMessage take() {
        if (received < RegionMessage.BYTES + tail()) {
            return null;
        }
        RegionMessage whole = new RegionMessage(Arrays.copyOf(incoming, received), descriptors);
        received = 0;
        descriptors = NONE;
        return whole;
    }

    /// Gives back what came with a message that is not complete.
    void close() {
        UnixChannel.closeAll(descriptors);
        descriptors = NONE;
    }
}
