package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.security.SecureRandom;

/// Random bytes at a known place in this process's memory. A peer that is about to write to this
/// memory reads them first: after `exec` the pid is the same, but the cookie is gone.
final class ProcessCookie {
    static final int BYTES = 16;

    private ProcessCookie() {}

    /// Made when the first link comes to be; lives as long as the process.
    private static final class Holder {
        private static final byte[] VALUE = random();
        private static final MemorySegment MEMORY = Arena.global().allocateFrom(JAVA_BYTE, VALUE);

        private static byte[] random() {
            byte[] bytes = new byte[BYTES];
            new SecureRandom().nextBytes(bytes);
            return bytes;
        }
    }

    static long address() {
        return Holder.MEMORY.address();
    }

    static byte[] bytes() {
        return Holder.VALUE.clone();
    }
}
