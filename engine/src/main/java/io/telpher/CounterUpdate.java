package io.telpher;

import java.util.Objects;

/// A change of a 64-bit word in the target's memory, made after every byte of its transfer is
/// there. The target sees the bytes once it has read the new value with acquire semantics.
///
/// @param memory the word: at least 8 bytes, and its address is a multiple of 8
/// @param kind how the value is applied
/// @param value what is added or stored
public record CounterUpdate(RemoteMemory memory, Kind kind, long value) {
    /// How a value is applied to the word.
    public enum Kind {
        /// Added, atomically with respect to other updates by Telpher.
        ADD,
        /// Stored.
        SET
    }

    /// Checks that the memory holds a word.
    public CounterUpdate {
        Objects.requireNonNull(memory, "memory");
        Objects.requireNonNull(kind, "kind");
        if (memory.length() < Long.BYTES || (memory.offset() & 7) != 0) {
            throw new IllegalArgumentException(
                    "a counter needs 8 bytes at a multiple of 8; this memory has "
                            + memory.length()
                            + " bytes at offset "
                            + memory.offset());
        }
    }

    /// @return an update that adds
    public static CounterUpdate add(RemoteMemory memory, long value) {
        return new CounterUpdate(memory, Kind.ADD, value);
    }

    /// @return an update that stores
    public static CounterUpdate set(RemoteMemory memory, long value) {
        return new CounterUpdate(memory, Kind.SET, value);
    }
}
