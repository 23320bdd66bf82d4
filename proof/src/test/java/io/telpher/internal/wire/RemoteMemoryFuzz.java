package io.telpher.internal.wire;

import io.telpher.RemoteMemory;
import io.telpher.internal.device.ExportRecord;
import java.nio.ByteBuffer;
import java.util.Arrays;

/// Memory descriptors: the first bytes are one, 16 more say which part is taken of it. And what a
/// same-host peer is told of memory of a GPU.
public final class RemoteMemoryFuzz {
    private RemoteMemoryFuzz() {}

    /// @param data a descriptor, then offset and length of a part
    public static void fuzzerTestOneInput(byte[] data) {
        ExportRecord record =
                ExportRecord.ofBytes(Arrays.copyOf(data, Math.min(data.length, ExportRecord.MAX)));
        if (record != null && !record.equals(ExportRecord.ofBytes(record.toBytes()))) {
            throw new AssertionError("a record that was read again as another");
        }
        RemoteMemory memory;
        try {
            memory =
                    RemoteMemory.ofBytes(
                            Arrays.copyOf(data, Math.min(data.length, RemoteMemory.SIZE)));
        } catch (IllegalArgumentException e) {
            return;
        }
        if (!RemoteMemory.ofBytes(memory.toBytes()).equals(memory)) {
            throw new AssertionError(memory + " is not what its bytes say");
        }
        ByteBuffer rest =
                ByteBuffer.wrap(Arrays.copyOfRange(data, RemoteMemory.SIZE, data.length + 16));
        long from = rest.getLong();
        long length = rest.getLong();
        try {
            RemoteMemory part = memory.slice(from, length);
            boolean inside = from >= 0 && length >= 0 && from <= memory.length() - length;
            if (!inside || part.length() != length || part.offset() - from != memory.offset()) {
                throw new AssertionError(part + " is no part of " + memory);
            }
        } catch (IndexOutOfBoundsException e) {
            if (from >= 0 && length >= 0 && from <= memory.length() - length) {
                throw e;
            }
        }
    }
}
