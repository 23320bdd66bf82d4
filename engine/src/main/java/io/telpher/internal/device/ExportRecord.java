package io.telpher.internal.device;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// What travels to a peer that is to reach memory of a GPU, little-endian:
///
/// ```text
/// 0 version 1   1 way   2 runtime, 0 CUDA   8 device UUID (16)
/// 24 allocation id of the first part at the owner (8)   32 its size (8)
/// 40 offset of the range in the first part (8)   48 size of the range (8)
/// 56 further parts (4)   60 reserved (4)   64 handle (64)
/// 128 further parts, 16 bytes each: allocation id (8), size (8)
/// ```
///
/// Peers that know of one part only are never given more.
///
/// @param way [Gpu#WAY_DESCRIPTOR] or [Gpu#WAY_IPC]
/// @param device whose memory it is
/// @param parts the allocations that the range lies in, one behind the other; for
///     [Gpu#WAY_DESCRIPTOR] a descriptor of each goes along
/// @param offset of the range in the first of them
/// @param size of the range, which ends in the last of them
/// @param handle 64 bytes, zero for descriptors
public record ExportRecord(
        int way, UUID device, List<Part> parts, long offset, long size, byte[] handle) {
    /// Most parts: with them a message fits into what the kernel takes at once even for the
    /// smallest of sockets' buffers, and their descriptors into half of what it passes at once.
    public static final int MOST_PARTS = 128;

    private static final int ONE_PART = 128;
    private static final int PART = 16;

    /// Most bytes of the encoded form.
    public static final int MAX = ONE_PART + (MOST_PARTS - 1) * PART;

    private static final int HANDLE = 64;
    private static final byte VERSION = 1;

    /// An allocation.
    ///
    /// @param allocation the owner's number for it, which no other one ever has
    /// @param size its bytes
    public record Part(long allocation, long size) {}

    /// Checks the ranges.
    public ExportRecord {
        parts = List.copyOf(parts);
        if (handle.length != HANDLE) {
            throw new IllegalArgumentException("a handle has 64 bytes, this one " + handle.length);
        }
        if (way != Gpu.WAY_DESCRIPTOR && way != Gpu.WAY_IPC) {
            throw new IllegalArgumentException("way " + way);
        }
        int most = way == Gpu.WAY_DESCRIPTOR ? MOST_PARTS : 1;
        if (parts.isEmpty() || parts.size() > most) {
            throw new IllegalArgumentException(parts.size() + " parts");
        }
        long all = total(parts);
        long tail = all - offset - size;
        if (size <= 0
                || size > all
                || offset < 0
                || offset >= parts.getFirst().size()
                || tail < 0
                || tail >= parts.getLast().size()) {
            throw new IllegalArgumentException(
                    "%d bytes at %d of %d parts of %d bytes"
                            .formatted(size, offset, parts.size(), all));
        }
    }

    private static long total(List<Part> parts) {
        long all = 0;
        for (Part part : parts) {
            all += part.size();
            if (part.size() <= 0 || all < 0) {
                throw new IllegalArgumentException("a part of %d bytes".formatted(part.size()));
            }
        }
        return all;
    }

    /// @return bytes of all parts
    public long allocationSize() {
        return total(parts);
    }

    /// @return the encoded form
    public byte[] toBytes() {
        int more = parts.size() - 1;
        ByteBuffer out = ByteBuffer.allocate(ONE_PART + more * PART).order(ByteOrder.LITTLE_ENDIAN);
        out.put(VERSION).put((byte) way);
        out.putLong(8, device.getMostSignificantBits());
        out.putLong(16, device.getLeastSignificantBits());
        Part first = parts.getFirst();
        out.putLong(24, first.allocation()).putLong(32, first.size()).putLong(40, offset);
        out.putLong(48, size).putInt(56, more);
        out.put(64, handle).position(ONE_PART);
        for (Part part : parts.subList(1, parts.size())) {
            out.putLong(part.allocation()).putLong(part.size());
        }
        return out.array();
    }

    /// @return null when the bytes make no sense
    public static @Nullable ExportRecord ofBytes(byte[] bytes) {
        if (bytes.length < ONE_PART || bytes[0] != VERSION || bytes[2] != 0) {
            return null;
        }
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int more = in.getInt(56);
        if (more < 0 || more >= MOST_PARTS || bytes.length != ONE_PART + more * PART) {
            return null;
        }
        List<Part> parts = new ArrayList<>(1 + more);
        parts.add(new Part(in.getLong(24), in.getLong(32)));
        for (int at = ONE_PART; at < bytes.length; at += PART) {
            parts.add(new Part(in.getLong(at), in.getLong(at + 8)));
        }
        try {
            return new ExportRecord(
                    in.get(1),
                    new UUID(in.getLong(8), in.getLong(16)),
                    parts,
                    in.getLong(40),
                    in.getLong(48),
                    Arrays.copyOfRange(bytes, 64, ONE_PART));
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
