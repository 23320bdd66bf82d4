package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A small frame of the engine's own, kept until the peer has confirmed it. Pooled by the
/// connection.
final class ControlFrame {
    /// Longest payload: a name or a descriptor.
    static final int MAX_PAYLOAD = 1024;

    /// Who wants to know when the peer has applied a frame.
    interface Owner {
        /// It has. Under the connection's lock.
        void confirmed();
    }

    final MemorySegment header;
    @Nullable Owner owner;
    @Nullable MemorySegment payload;
    int length;

    ControlFrame() {
        header = Arena.ofAuto().allocate(Lane.HEADER, 8);
    }

    void start(int type, int flags, int count, long transfer) {
        header.fill((byte) 0);
        length = 0;
        owner = null;
        Frame.start(header, 0, type, flags, count, 0, transfer);
    }

    ControlFrame with(int field, long value) {
        Frame.set(header, 0, field, value);
        return this;
    }

    void payload(byte[] bytes) {
        MemorySegment own = payload;
        if (own == null) {
            own = Arena.ofAuto().allocate(MAX_PAYLOAD, 8);
            payload = own;
        }
        MemorySegment.copy(bytes, 0, own, java.lang.foreign.ValueLayout.JAVA_BYTE, 0, bytes.length);
        length = bytes.length;
        header.set(Frame.INT, 4, length);
    }
}
