package io.telpher;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/// A peer's region, or a range of it, as the peer described it: a value that travels as [#SIZE]
/// bytes by any means. It names one life of one region: after the region was closed, or its owner
/// restarted, every use of it fails with [TelpherException.StaleRegion] and touches nothing.
///
/// Layout, little-endian: incarnation 8, region 4, generation 4, key 8, offset 8, length 8, access
/// 1, reserved 7.
public final class RemoteMemory {
    /// Bytes of the encoded form.
    public static final int SIZE = 48;

    private final long incarnation;
    private final int region;
    private final int generation;
    private final long key;
    private final long offset;
    private final long length;
    private final Access access;

    /// Describes memory. Programs get descriptors from [MemoryRegion#remote()] or
    /// [#ofBytes(byte[])].
    ///
    /// @param incarnation the owner's incarnation
    /// @param region the region's index at its owner
    /// @param generation the life of that index
    /// @param key the secret of that life
    /// @param offset first byte, from the start of the region
    /// @param length bytes
    /// @param access what the owner allows
    public RemoteMemory(
            long incarnation,
            int region,
            int generation,
            long key,
            long offset,
            long length,
            Access access) {
        if (region < 0 || offset < 0 || length < 0 || offset + length < 0) {
            throw new IllegalArgumentException(
                    "not a memory descriptor: region %d, offset %d, length %d"
                            .formatted(region, offset, length));
        }
        this.incarnation = incarnation;
        this.region = region;
        this.generation = generation;
        this.key = key;
        this.offset = offset;
        this.length = length;
        this.access = Objects.requireNonNull(access, "access");
    }

    /// Decodes [#toBytes()].
    ///
    /// @throws IllegalArgumentException when the bytes are no descriptor
    public static RemoteMemory ofBytes(byte[] bytes) {
        if (bytes.length != SIZE) {
            throw new IllegalArgumentException(
                    "a memory descriptor has " + SIZE + " bytes, these are " + bytes.length);
        }
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        long incarnation = in.getLong();
        int region = in.getInt();
        int generation = in.getInt();
        long key = in.getLong();
        long offset = in.getLong();
        long length = in.getLong();
        int access = in.get();
        if (access < 0 || access >= Access.values().length) {
            throw new IllegalArgumentException("not a memory descriptor: access code " + access);
        }
        return new RemoteMemory(
                incarnation, region, generation, key, offset, length, Access.values()[access]);
    }

    /// @return the encoded form, [#SIZE] bytes
    public byte[] toBytes() {
        ByteBuffer out = ByteBuffer.allocate(SIZE).order(ByteOrder.LITTLE_ENDIAN);
        out.putLong(incarnation)
                .putInt(region)
                .putInt(generation)
                .putLong(key)
                .putLong(offset)
                .putLong(length);
        out.put((byte) access.ordinal());
        return out.array();
    }

    /// A part of this memory.
    ///
    /// @param from first byte, from the start of this memory
    /// @param bytes how many
    /// @throws IndexOutOfBoundsException when the part does not lie inside
    public RemoteMemory slice(long from, long bytes) {
        MemorySlice.checkRange(from, bytes, length);
        return new RemoteMemory(incarnation, region, generation, key, offset + from, bytes, access);
    }

    /// What is equal for all parts of one life of a region.
    RemoteMemory life() {
        return new RemoteMemory(incarnation, region, generation, key, 0, 0, access);
    }

    /// @return incarnation of the endpoint that owns the memory
    public long incarnation() {
        return incarnation;
    }

    /// @return index of the region at its owner
    public int region() {
        return region;
    }

    /// @return which life of that index this descriptor names
    public int generation() {
        return generation;
    }

    /// @return the secret of that life: holding it is the permission to use the region
    public long key() {
        return key;
    }

    /// @return first byte, from the start of the region
    public long offset() {
        return offset;
    }

    /// @return length in bytes
    public long length() {
        return length;
    }

    /// @return what the owner allows
    public Access access() {
        return access;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof RemoteMemory that
                && incarnation == that.incarnation
                && region == that.region
                && generation == that.generation
                && key == that.key
                && offset == that.offset
                && length == that.length
                && access == that.access;
    }

    @Override
    public int hashCode() {
        return Objects.hash(incarnation, region, generation, offset, length);
    }

    /// Leaves the key out.
    @Override
    public String toString() {
        return "RemoteMemory[%016x region %d.%d, offset %d, length %d, %s]"
                .formatted(incarnation, region, generation, offset, length, access);
    }
}
