package io.telpher.internal.transport.shm;

import io.telpher.spi.Locator;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/// How to reach a listener on this host. Little-endian: version 1 (2 bytes), kind (2), inode of the
/// network namespace (8), then the name to the end. Later versions append; unknown kinds are
/// skipped.
///
/// @param kind how the name is meant
/// @param netNamespace where an abstract name is seen
/// @param name the abstract name, or the path
record ShmLocator(Kind kind, long netNamespace, String name) {
    private static final int FIXED = 12;

    /// How a Unix socket is named.
    enum Kind {
        /// Without a file; seen inside one network namespace.
        ABSTRACT,
        /// By a file; seen by whoever sees the folder.
        PATH
    }

    Locator toLocator() {
        byte[] text = name.getBytes(StandardCharsets.UTF_8);
        ByteBuffer out = ByteBuffer.allocate(FIXED + text.length).order(ByteOrder.LITTLE_ENDIAN);
        out.putShort((short) 1).putShort((short) kind.ordinal()).putLong(netNamespace).put(text);
        return new Locator(ShmTransport.NAME, out.array(), text());
    }

    /// @return null when this version does not understand it
    static @Nullable ShmLocator of(Locator locator) {
        try {
            ByteBuffer in = ByteBuffer.wrap(locator.data()).order(ByteOrder.LITTLE_ENDIAN);
            int version = in.getShort();
            int kind = in.getShort();
            long namespace = in.getLong();
            if (version < 1 || kind < 0 || kind >= Kind.values().length || !in.hasRemaining()) {
                return null;
            }
            byte[] name = new byte[in.remaining()];
            in.get(name);
            return new ShmLocator(
                    Kind.values()[kind], namespace, new String(name, StandardCharsets.UTF_8));
        } catch (BufferUnderflowException e) {
            return null;
        }
    }

    String text() {
        return kind == Kind.ABSTRACT ? "shm:@" + name : "shm:" + name;
    }
}
