package io.telpher.internal.engine;

import org.jspecify.annotations.Nullable;

/// A map from longs that allocates only when it grows: open addressing, linear probing, removal by
/// shifting back.
final class LongMap<T> {
    private static final long[] NO_KEYS = {};
    private static final @Nullable Object[] NO_VALUES = {};

    private long[] keys = NO_KEYS;
    @Nullable Object[] values = NO_VALUES;
    private int size;

    private static int slot(long key, int mask) {
        long h = key * 0x9e3779b97f4a7c15L;
        return (int) (h >>> 32) & mask;
    }

    @SuppressWarnings("unchecked") // only T is ever put in
    @Nullable T get(long key) {
        if (size == 0) {
            return null;
        }
        int mask = keys.length - 1;
        int i = slot(key, mask);
        Object value;
        while ((value = values[i]) != null) {
            if (keys[i] == key) {
                return (T) value;
            }
            i = i + 1 & mask;
        }
        return null;
    }

    void put(long key, T value) {
        if (size * 2 >= keys.length) {
            grow();
        }
        int mask = keys.length - 1;
        int i = slot(key, mask);
        while (values[i] != null && keys[i] != key) {
            i = i + 1 & mask;
        }
        if (values[i] == null) {
            size++;
        }
        keys[i] = key;
        values[i] = value;
    }

    @SuppressWarnings("unchecked") // only T is ever put in
    @Nullable T remove(long key) {
        if (size == 0) {
            return null;
        }
        int mask = keys.length - 1;
        int i = slot(key, mask);
        while (values[i] != null && keys[i] != key) {
            i = i + 1 & mask;
        }
        Object removed = values[i];
        if (removed == null) {
            return null;
        }
        size--;
        int hole = i;
        int j = i;
        while (true) {
            j = j + 1 & mask;
            if (values[j] == null) {
                break;
            }
            int home = slot(keys[j], mask);
            if ((j - home & mask) >= (j - hole & mask)) {
                keys[hole] = keys[j];
                values[hole] = values[j];
                hole = j;
            }
        }
        values[hole] = null;
        return (T) removed;
    }

    int size() {
        return size;
    }

    private void grow() {
        long[] oldKeys = keys;
        @Nullable Object[] oldValues = values;
        int capacity = Math.max(8, oldKeys.length * 2);
        keys = new long[capacity];
        values = new Object[capacity];
        for (int i = 0; i < oldKeys.length; i++) {
            Object value = oldValues[i];
            if (value != null) {
                int j = slot(oldKeys[i], capacity - 1);
                while (values[j] != null) {
                    j = j + 1 & capacity - 1;
                }
                keys[j] = oldKeys[i];
                values[j] = value;
            }
        }
    }
}
