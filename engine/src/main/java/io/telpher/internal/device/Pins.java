package io.telpher.internal.device;

import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.ReentrantLock;

/// Host memory that this process page-locked by one kind of driver, for all its devices at once.
/// Counted: whoever asks for memory inside of what is locked already shares it. Thread-safe.
public final class Pins {
    private static final Gpu.Pin SOMEBODY_ELSES = () -> {};

    private final ReentrantLock lock = new ReentrantLock();

    /// By first byte; they do not overlap, for the driver refuses that.
    private final TreeMap<Long, Range> ranges = new TreeMap<>();

    /// What the driver does, by one of its opened devices.
    public interface Driver {
        /// @return 0, or minus the driver's code
        int tryLock(long address, long bytes);

        /// Takes back [#tryLock].
        void unlock(long address);

        /// @return whether a result of [#tryLock] says that a part of the memory is locked already
        boolean isLockedAlready(int result);

        /// @return whether the driver knows the address as page-locked memory
        boolean isLocked(long address);

        /// @return name, number and text of a result
        String describe(int result);
    }

    private static final class Range {
        final long address;
        final long bytes;
        int users = 1;

        Range(long address, long bytes) {
            this.address = address;
            this.bytes = bytes;
        }

        boolean covers(long from, long to) {
            return address <= from && to <= address + bytes;
        }
    }

    /// See [Gpu#pin].
    public Gpu.Pin pin(Driver driver, long address, long bytes) {
        lock.lock();
        try {
            Map.Entry<Long, Range> below = ranges.floorEntry(address);
            if (below != null && below.getValue().covers(address, address + bytes)) {
                below.getValue().users++;
                return new Pinned(driver, below.getValue());
            }
            int result = driver.tryLock(address, bytes);
            if (result == 0) {
                Range range = new Range(address, bytes);
                ranges.put(address, range);
                return new Pinned(driver, range);
            }
            if (!driver.isLockedAlready(result)) {
                throw new TelpherException.Unsupported(
                        "page-locking %d bytes at 0x%x: %s; it takes free memory of the host"
                                .formatted(bytes, address, driver.describe(result)));
            }
            if (driver.isLocked(address) && driver.isLocked(address + bytes - 1)) {
                return SOMEBODY_ELSES;
            }
            throw new TelpherException.Unsupported(
                    "page-locking %d bytes at 0x%x: a part is locked already, by somebody else or by"
                                    .formatted(bytes, address)
                            + " a range that overlaps");
        } finally {
            lock.unlock();
        }
    }

    private final class Pinned implements Gpu.Pin {
        private final Driver driver;
        private final Range range;
        private boolean closed;

        Pinned(Driver driver, Range range) {
            this.driver = driver;
            this.range = range;
        }

        /// With a device that is lost the driver refuses. The memory's owner must be able to
        /// give it back all the same.
        private void unregister() {
            try {
                driver.unlock(range.address);
            } catch (TelpherException.NativeFailure e) {
                Log.warning("page-locked memory stays so", e);
            }
        }

        @Override
        public void close() {
            lock.lock();
            try {
                if (closed) {
                    return;
                }
                closed = true;
                if (--range.users > 0) {
                    return;
                }
                ranges.remove(range.address);
                unregister();
            } finally {
                lock.unlock();
            }
        }
    }
}
