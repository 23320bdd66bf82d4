package io.telpher.cli.soak;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/// Looks into the memory of a process from outside, past every engine. Stays with the program that
/// it was opened for: after that one's end it sees nothing. Used by one thread.
final class Eyes implements AutoCloseable {
    private final FileChannel memory;

    private Eyes(FileChannel memory) {
        this.memory = memory;
    }

    /// @throws IOException when the process is gone, or may not be looked at
    static Eyes on(long pid) throws IOException {
        return new Eyes(
                FileChannel.open(Path.of("/proc/" + pid + "/mem"), StandardOpenOption.READ));
    }

    /// @param address first byte, in the other process
    /// @param into gets as many bytes as it has
    /// @return false when the process is gone, or has nothing mapped there
    boolean read(long address, MemorySegment into) {
        ByteBuffer buffer = into.asByteBuffer();
        try {
            while (buffer.hasRemaining()) {
                if (memory.read(buffer, address + buffer.position()) <= 0) {
                    return false;
                }
            }
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    @Override
    public void close() {
        try {
            memory.close();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
