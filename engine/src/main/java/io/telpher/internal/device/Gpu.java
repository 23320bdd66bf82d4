package io.telpher.internal.device;

import io.telpher.Device;
import io.telpher.TelpherException;
import org.jspecify.annotations.Nullable;

/// One opened GPU. Thread-safe; methods make its context current on the calling thread for their
/// duration and put back what was there.
///
/// Failures of the driver are [io.telpher.TelpherException.NativeFailure]; what the driver does
/// not do here is [io.telpher.TelpherException.Unsupported], with the reason.
public interface Gpu {
    /// @return which
    Device device();

    /// Allocates memory that other processes can be given, if the driver knows how, else plain
    /// memory. Not cleared.
    ///
    /// @param bytes more than zero
    Allocation allocate(long bytes);

    /// Memory of this GPU.
    interface Allocation extends AutoCloseable {
        /// @return first byte
        long address();

        /// @return whether the memory lives on while other processes have it mapped
        boolean mayLinger();

        /// Frees it. Nobody of this process may use it any more.
        @Override
        void close();
    }

    /// Makes memory of this GPU known to other processes, whoever allocated it. Exports of one
    /// allocation share what the driver gives out for it: keyed by what the driver knows the
    /// allocation by, so that an address that was freed and used again is never taken for the old
    /// one.
    ///
    /// @param address first byte
    /// @param bytes inside one allocation, or inside at most [ExportRecord#MOST_PARTS] mappings
    ///     side by side
    /// @param ways [#WAY_DESCRIPTOR], [#WAY_IPC], or both
    /// @return what another process needs; close it when nobody may be given it any more
    /// @throws io.telpher.TelpherException.Unsupported when no way of `ways` exists, with the
    ///     reason
    Export export(long address, long bytes, int ways);

    /// POSIX descriptor of an allocation made by `cuMemCreate`.
    int WAY_DESCRIPTOR = 1;

    /// Legacy CUDA IPC handle of an allocation made by `cuMemAlloc`.
    int WAY_IPC = 2;

    /// What another process needs to reach memory of this GPU.
    interface Export extends AutoCloseable {
        /// @return [#WAY_DESCRIPTOR] or [#WAY_IPC]
        int way();

        /// @return at most [ExportRecord#MAX] bytes that [#open] understands
        byte[] record();

        /// @return descriptors that go along, the export's own, one for each part of the record;
        ///     none for [#WAY_IPC]
        int[] descriptors();

        @Override
        void close();
    }

    /// Maps memory that another process exported, so that this GPU reaches it. Opening the same
    /// allocation again shares the mapping: descriptors are told apart by owner and allocation,
    /// legacy handles by their bytes, since what a peer says must not lead to another peer's
    /// memory. A mapping goes with its last user: a kept one would keep the owner's memory from
    /// being free.
    ///
    /// @param owner the authenticated owner's incarnation
    /// @param record from [Export#record()]; comes from a peer and is checked
    /// @param descriptors from [Export#descriptors()], stay the caller's
    /// @throws io.telpher.TelpherException.Unsupported when this GPU cannot reach it, with the
    ///     reason
    Import open(long owner, byte[] record, int[] descriptors);

    /// Memory of another process, or of another GPU of this one, that this GPU reaches.
    interface Import extends AutoCloseable {
        /// @return first byte of the exported range, for this GPU
        long address();

        /// @return bytes of the exported range
        long size();

        /// @return the path's name: `cuda-direct`, `cuda-cumem`, `cuda-ipc`, `hip-direct`
        String path();

        /// Unmaps it, unless others still use it. No copy that uses it may be under way.
        @Override
        void close();
    }

    /// Makes another GPU's memory of this process reachable for this GPU.
    ///
    /// @param address first byte of memory of the other GPU
    /// @param bytes how many
    /// @throws io.telpher.TelpherException.Unsupported when the two cannot reach each other
    Import reach(Gpu other, long address, long bytes);

    /// Page-locks host memory, so that this and all other opened GPUs copy from and to it by
    /// themselves.
    ///
    /// @param address of the host memory
    /// @param bytes how many
    /// @return to be closed before the memory is unmapped; an empty one where it was locked
    ///     already
    /// @throws io.telpher.TelpherException.Unsupported when it cannot be, with the limit that
    ///     stands in the way
    Pin pin(long address, long bytes);

    /// Page-locked host memory.
    interface Pin extends AutoCloseable {
        @Override
        void close();
    }

    /// Copies and waits. Either side may be memory of this GPU, an import of it, or host memory,
    /// page-locked or not. For set-up, staging and single small pieces; [#queue()] for the rest.
    void copy(long to, long from, long bytes);

    /// Adds to a 64-bit word of this GPU, or sets it, and waits: atomic against GPUs and CPUs.
    ///
    /// @param address a multiple of 8
    void update(long address, boolean add, long value);

    /// @return how frames to and from this GPU's memory are staged
    Staging staging();

    /// Page-locked buffers of a lane, in each direction.
    ///
    /// @param bytes of each
    /// @param buffers how many
    record Staging(int bytes, int buffers) {}

    /// @return the queue for copies that this GPU makes; the same one for every caller
    CopyQueue queue();

    /// Puts a gate into a stream of this GPU: what comes later in the stream waits until it is
    /// opened.
    ///
    /// @param stream of the runtime, in this GPU's primary context
    /// @throws io.telpher.TelpherException.Unsupported where the runtime has no such thing
    default Gate gate(long stream) {
        throw new TelpherException.Unsupported(
                "transfers cannot be put in the order of a stream of " + device());
    }

    /// Where a stream stands now: what comes later in it goes on, and nobody has to give the point
    /// back.
    ///
    /// @param stream of the runtime, in this GPU's primary context
    /// @return null when the stream has nothing left to do, perhaps after waiting for it
    /// @throws io.telpher.TelpherException.Unsupported where the stream records a graph, or the
    ///     runtime has no such thing
    default @Nullable Point point(long stream) {
        throw new TelpherException.Unsupported(
                "transfers cannot begin after a stream of " + device());
    }

    /// A point in a stream.
    interface Point {
        /// @return whether the stream has done what came before; what that wrote is visible then.
        ///     Stays true
        boolean isReached();
    }

    /// A point that the stream does not pass. Belongs to whoever put it there until it is opened,
    /// which must happen; not to be asked afterwards.
    interface Gate extends Point {
        /// Lets the stream go on; the gate is not to be used any more. Never blocks.
        void open();
    }

    /// Makes this GPU able to copy between memory of two others, both of which it reaches
    /// ([CopyQueue.Way#VIA]). Where copy engines make some of these copies it takes some of its
    /// memory, once, until the process ends.
    ///
    /// @throws io.telpher.TelpherException.Unsupported where it cannot, with the reason
    default void becomeIntermediate() {
        throw new TelpherException.Unsupported(device() + " does not copy between other devices");
    }
}
