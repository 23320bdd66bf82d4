package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.spi.LocalRegion;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// One life of a local region as one device knows it: registered as a whole, or in pieces of equal
/// size where the device takes no range as long. [Registrations] owns it.
final class RegionKeys {
    /// Pieces begin at pages.
    private static final long PAGE = 4096;

    private final int index;
    private final int generation;
    private final long address;
    private final long size;
    private final long pieceBytes;
    private final List<Provider.Registration> pieces;

    /// Those that the device has not given up.
    private final List<Provider.Registration> left;

    private RegionKeys(LocalRegion region, long pieceBytes, List<Provider.Registration> pieces) {
        this.index = region.index();
        this.generation = region.generation();
        this.address = region.segment().address();
        this.size = region.size();
        this.pieceBytes = pieceBytes;
        this.pieces = List.copyOf(pieces);
        this.left = new ArrayList<>(pieces);
    }

    /// Registers a region.
    ///
    /// @throws TelpherException.NativeFailure when a piece cannot be registered; nothing is left
    static RegionKeys register(Device device, LocalRegion region) {
        long size = region.size();
        long start = region.segment().address();
        long most = device.attributes().maxMrSize();
        // Devices say all ones for no limit.
        long pieceBytes = most <= 0 || most >= size ? Math.max(size, 1) : pieceBytes(start, most);
        List<Provider.Registration> pieces = new ArrayList<>();
        boolean complete = false;
        try {
            for (long at = 0; at < Math.max(size, 1); at += pieceBytes) {
                long bytes = Math.min(pieceBytes, Math.max(size, 1) - at);
                pieces.add(register(device, start + at, bytes, region));
            }
            complete = true;
            return new RegionKeys(region, pieceBytes, pieces);
        } finally {
            if (!complete) {
                String unused = deregister(device, pieces);
            }
        }
    }

    private static long pieceBytes(long start, long most) {
        long whole = most / PAGE * PAGE;
        return start % PAGE == 0 || whole <= PAGE ? whole : whole - PAGE;
    }

    /// The NIC writes what this side reads from peers, so local writing is asked for also where
    /// peers may only read; memory that cannot be written to is tried without.
    private static Provider.Registration register(
            Device device, long address, long bytes, LocalRegion region) {
        int access =
                VerbsMemory.IBV_ACCESS_LOCAL_WRITE
                        | (region.access().canWrite() ? VerbsMemory.IBV_ACCESS_REMOTE_WRITE : 0)
                        | (region.access().canRead() ? VerbsMemory.IBV_ACCESS_REMOTE_READ : 0);
        try {
            return device.register(address, bytes, access);
        } catch (TelpherException.NativeFailure e) {
            if (e.errno() != Errno.EFAULT || region.access().canWrite()) {
                throw e;
            }
            return device.register(address, bytes, access & ~VerbsMemory.IBV_ACCESS_LOCAL_WRITE);
        }
    }

    /// Takes all pieces back: no request of this process or of peers touches the memory any more.
    /// One thread at a time; what has failed is tried again by another call.
    ///
    /// @return null, or which call failed
    @Nullable String deregister(Device device) {
        return deregister(device, left);
    }

    private static @Nullable String deregister(Device device, List<Provider.Registration> pieces) {
        int[] error = new int[1];
        pieces.removeIf(
                piece -> {
                    int failed = device.provider().deregister(piece.handle());
                    error[0] = failed == 0 ? error[0] : failed;
                    return failed == 0;
                });
        return error[0] == 0
                ? null
                : "ibv_dereg_mr on %s failed: %s; the device may still write there"
                        .formatted(device, Errno.describe(error[0]));
    }

    boolean isOf(int region, int life) {
        return index == region && generation == life;
    }

    long address() {
        return address;
    }

    long size() {
        return size;
    }

    long pieceBytes() {
        return pieceBytes;
    }

    int pieces() {
        return pieces.size();
    }

    int remoteKey(int piece) {
        return pieces.get(piece).rkey();
    }

    /// @return the key by which own requests name the byte at an offset
    int localKey(long offset) {
        return pieces.get(offset < pieceBytes ? 0 : (int) (offset / pieceBytes)).lkey();
    }

    /// @return how many bytes from an offset on have the same key
    long leftInPiece(long offset) {
        return pieceBytes - (offset < pieceBytes ? offset : offset % pieceBytes);
    }
}
