package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.verbs.VerbsMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// What peers read behind their writes: a NIC that answers a read has put everything into memory
/// that came to it before. A registration of its own, so that it needs no region that may be read.
/// The word beside it takes what this side's own such reads bring, which nobody looks at.
final class FlushWord {
    /// Bytes of a word.
    static final int BYTES = 8;

    private final Device device;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment words;
    private final Provider.Registration registration;

    /// A read of the peer's word by this side.
    record Read(long remoteAddress, int remoteKey, long localAddress, int localKey) {}

    /// @throws io.telpher.TelpherException.NativeFailure as [Device#register]
    FlushWord(Device device) {
        this.device = device;
        this.words = arena.allocate(2 * BYTES, 64);
        boolean made = false;
        try {
            this.registration =
                    device.register(
                            words.address(),
                            words.byteSize(),
                            VerbsMemory.IBV_ACCESS_LOCAL_WRITE
                                    | VerbsMemory.IBV_ACCESS_REMOTE_READ);
            made = true;
        } finally {
            if (!made) {
                arena.close();
            }
        }
    }

    long address() {
        return words.address();
    }

    /// @return the key by which peers name it
    int key() {
        return registration.rkey();
    }

    /// @return a read of a peer's word, whose address and key these are
    Read read(long remoteAddress, int remoteKey) {
        return new Read(remoteAddress, remoteKey, words.address() + BYTES, registration.lkey());
    }

    /// Nothing uses it any more. What the device does not give up stays, and keeps the device open.
    void close() {
        int error = device.provider().deregister(registration.handle());
        if (device.ended("ibv_dereg_mr", error)) {
            arena.close();
        }
    }
}
