package io.telpher.internal.engine;

import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import org.jspecify.annotations.Nullable;

/// Walks over an operation's bytes, copy by copy. Pieces of both sides need not be equal: each
/// copy ends where the first of the two ends. Used again and again; belongs to one thread at a
/// time.
final class PieceWalk {
    private @Nullable Operation op;
    private long left;
    private int localPiece;
    private int remotePiece;
    private long localInside;
    private long remoteInside;
    private long at;

    /// The local region of this copy, and where it begins there.
    @Nullable RegionImpl region;

    long localOffset;

    /// The peer's memory, one object for each region, and where this copy begins from the start of
    /// that.
    @Nullable RemoteMemory memory;

    long remoteOffset;

    /// Bytes of this copy.
    long bytes;

    /// Starts at a position of the operation's stream.
    void start(Operation of, long from, long length) {
        op = of;
        at = from;
        left = length;
        MemorySlices local = of.localPieces;
        RemoteSlices remote = of.remotePieces;
        localPiece = local == null || length == 0 ? 0 : local.pieceAt(from);
        localInside = local == null || length == 0 ? 0 : from - local.start(localPiece);
        remotePiece = remote == null || length == 0 ? 0 : remote.pieceAt(from);
        remoteInside = remote == null || length == 0 ? 0 : from - remote.start(remotePiece);
        bytes = 0;
    }

    /// Forgets the operation and its regions.
    void clear() {
        op = null;
        region = null;
        memory = null;
    }

    /// Goes to the next copy; empty pieces are passed over.
    ///
    /// @return false at the end
    boolean next() {
        Operation of = op;
        if (of == null) {
            return false;
        }
        while (left > 0) {
            long n = left;
            RemoteSlices remote = of.remotePieces;
            if (remote == null) {
                memory = of.remote;
                remoteOffset = memory == null ? 0 : memory.offset() + of.remoteOffset + at;
            } else {
                memory = remote.region(remotePiece);
                remoteOffset = remote.offset(remotePiece) + remoteInside;
                n = Math.min(n, remote.length(remotePiece) - remoteInside);
            }
            MemorySlices local = of.localPieces;
            if (local == null) {
                region = of.region;
                localOffset = of.localOffset + at;
            } else {
                region = (RegionImpl) local.region(localPiece);
                localOffset = local.offset(localPiece) + localInside;
                n = Math.min(n, local.length(localPiece) - localInside);
            }
            pass(of, n);
            if (n > 0) {
                bytes = n;
                return true;
            }
        }
        return false;
    }

    private void pass(Operation of, long n) {
        at += n;
        left -= n;
        MemorySlices local = of.localPieces;
        if (local != null) {
            localInside += n;
            if (localInside == local.length(localPiece)) {
                localPiece++;
                localInside = 0;
            }
        }
        RemoteSlices remote = of.remotePieces;
        if (remote != null) {
            remoteInside += n;
            if (remoteInside == remote.length(remotePiece)) {
                remotePiece++;
                remoteInside = 0;
            }
        }
    }
}
