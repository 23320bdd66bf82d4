package io.telpher.internal.transport.verbs;

import io.telpher.spi.Window;

/// One region of the peer that this side's NIC reads and writes. Its owner's own NIC keeps
/// everybody out of a region that was closed, so nothing is announced here. Counters are not its
/// business: atomics of NICs are atomic against each other at best, not against processors.
final class VerbsWindow implements Window {
    static final String PATH = "verbs";

    private final VerbsWindows owner;
    private final ControlMessage.Resolved place;
    private final long name;
    private volatile boolean closed;

    /// @param name what [VerbsWindows] knows it by
    VerbsWindow(VerbsWindows owner, long name, ControlMessage.Resolved place) {
        this.owner = owner;
        this.name = name;
        this.place = place;
    }

    @Override
    public String path() {
        return PATH;
    }

    @Override
    public int enter() {
        return closed ? STALE : 0;
    }

    @Override
    public void exit(int ticket) {
        // Nobody waits for it.
    }

    /// Written so that no sum can overflow.
    @Override
    public int check(long offset, long length, boolean write) {
        boolean allowed = (place.access() & (write ? 2 : 1)) != 0;
        return closed
                ? STALE
                : allowed && offset >= 0 && length >= 0 && offset <= place.size() - length
                        ? 0
                        : DENIED;
    }

    @Override
    public int join() {
        return enter();
    }

    /// The region is gone, or nobody wants the window any more.
    void end() {
        closed = true;
    }

    boolean isClosed() {
        return closed;
    }

    long address() {
        return place.address();
    }

    /// Nearly all regions are one piece, and a division costs as much as a native call.
    int key(long offset) {
        long bytes = place.pieceBytes();
        return place.keys()[offset < bytes ? 0 : (int) (offset / bytes)];
    }

    long leftInPiece(long offset) {
        long bytes = place.pieceBytes();
        return bytes - (offset < bytes ? offset : offset % bytes);
    }

    @Override
    public void close() {
        end();
        owner.forget(name, this);
    }
}
