package io.telpher.internal.device.cuda;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/// Page-locked host memory for the tables of launches, in blocks of powers of two. Blocks go
/// back here, never to the driver: freeing waits for everything that runs on the device.
/// Guarded by the queue's lock.
final class PinnedPool {
    private final CudaContext context;
    private final Held held;
    private final List<Block> spare = new ArrayList<>();

    PinnedPool(CudaContext context, Held held) {
        this.context = context;
        this.held = held;
    }

    /// A piece of page-locked memory; devices see it at the host's address.
    ///
    /// @param address first byte, aligned to a page
    /// @param bytes how many
    record Block(long address, long bytes) {}

    /// Memory of at least this size, not cleared.
    Block take(long bytes) {
        long size = Math.max(4096, Long.highestOneBit(bytes - 1) << 1);
        for (Iterator<Block> blocks = spare.iterator(); blocks.hasNext(); ) {
            Block block = blocks.next();
            if (block.bytes() == size) {
                blocks.remove();
                return block;
            }
        }
        long before = context.enter();
        try {
            return new Block(held.pinned(size), size);
        } finally {
            context.exit(before);
        }
    }

    void give(Block block) {
        spare.add(block);
    }
}
