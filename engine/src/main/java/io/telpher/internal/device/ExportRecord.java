package io.telpher.internal.device;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// What travels to a peer that is to reach memory of a GPU, little-endian:
///
/// ```text
/// 0 version 1   1 way   2 runtime, 0 CUDA   8 device UUID (16)   24 allocation id at the owner
/// (8)
/// 32 size of the allocation (8)   40 offset of the range in it (8)   48 size of the range (8)
/// 56 reserved (8)   64 handle (64)
/// ```
///
/// @param way [Gpu#WAY_DESCRIPTOR] or [Gpu#WAY_IPC]
/// @param device whose memory it is
/// @param allocation the owner's number for the allocation
/// @param allocationSize its size
/// @param offset of the range in it
/// @param size of the range
/// @param handle 64 bytes, zero for descriptors
public record ExportRecord(
        int way,
        UUID device,
        long allocation,
        long allocationSize,
        long offset,
        long size,
        byte[] handle) {
    /// Bytes of the encoded form.
    public static final int MAX = 128;

    private static final int HANDLE = 64;
    private static final byte VERSION = 1;

    /// Checks the ranges.
    public ExportRecord {
        if (handle.length != HANDLE) {
            throw new IllegalArgumentException("a handle has 64 bytes, this one " + handle.length);
        }
        if (way != Gpu.WAY_DESCRIPTOR && way != Gpu.WAY_IPC) {
            throw new IllegalArgumentException("way " + way);
        }
        if (size <= 0
                || offset < 0
                || allocationSize <= 0
                || size > allocationSize
                || offset > allocationSize - size) {
            throw new IllegalArgumentException(
                    "%d bytes at %d of an allocation of %d"
                            .formatted(size, offset, allocationSize));
        }
    }

    /// @return the encoded form
    public byte[] toBytes() {
        ByteBuffer out = ByteBuffer.allocate(MAX).order(ByteOrder.LITTLE_ENDIAN);
        out.put(VERSION).put((byte) way);
        out.putLong(8, device.getMostSignificantBits());
        out.putLong(16, device.getLeastSignificantBits());
        out.putLong(24, allocation).putLong(32, allocationSize).putLong(40, offset);
        out.putLong(48, size);
        out.put(64, handle);
        return out.array();
    }

    /// @return null when the bytes make no sense
    public static @Nullable ExportRecord ofBytes(byte[] bytes) {
        if (bytes.length != MAX || bytes[0] != VERSION || bytes[2] != 0) {
            return null;
        }
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        try {
            return new ExportRecord(
                    in.get(1),
                    new UUID(in.getLong(8), in.getLong(16)),
                    in.getLong(24),
                    in.getLong(32),
                    in.getLong(40),
                    in.getLong(48),
                    Arrays.copyOfRange(bytes, 64, MAX));
        } catch (IllegalArgumentException e) {
            return null;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ExportRecord that && Arrays.equals(toBytes(), that.toBytes());
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(toBytes());
    }
}
