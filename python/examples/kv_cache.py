"""Hands a paged KV cache over from a prefill process to a decode process: 10,000 blocks of a request, scattered on both sides, in one write.

The decode side owns its blocks and says which ones the request gets; the prefill side writes into them and tells when they are there.
"""

import multiprocessing

import numpy as np
import telpher

BLOCKS, BLOCK, REQUEST = 16_384, 2_048, 10_000  # blocks of each cache, bytes of a block, blocks of the request


def prefill(address):
    cache = np.random.default_rng(1).integers(0, 256, (BLOCKS, BLOCK), "u1")
    with telpher.Endpoint() as endpoint:
        region = endpoint.register(cache, access="none")
        decode = endpoint.connect(address, timeout=60)
        remote = decode.lookup("kv-cache", timeout=60)
        block_table = np.random.default_rng(2).permutation(BLOCKS)[:REQUEST]  # where the request lies here
        decode.notify(cache[block_table].sum(axis=1, dtype="u8").tobytes()).wait()  # for the check
        theirs = np.frombuffer(decode.wait_notification(timeout=60), "i8")
        source, target = region.blocks(block_table, BLOCK), remote.blocks(theirs, BLOCK)
        decode.write(source, target, notification=b"request 1").wait()


def main():
    cache = np.zeros((BLOCKS, BLOCK), "u1")
    with telpher.Endpoint() as endpoint:
        region = endpoint.register(cache)
        endpoint.publish("kv-cache", region)
        # spawn: a JVM does not survive a fork.
        process = multiprocessing.get_context("spawn").Process(target=prefill, args=(endpoint.address,))
        process.start()
        peer = endpoint.accept(timeout=60)
        sums = np.frombuffer(peer.wait_notification(timeout=60), "u8")
        block_table = np.random.default_rng(3).permutation(BLOCKS)[:REQUEST].astype("i8")
        peer.notify(block_table.tobytes()).wait()
        print(peer.wait_notification(timeout=60).decode(), "is here:", REQUEST, "blocks")
        assert (cache[block_table].sum(axis=1, dtype="u8") == sums).all(), "a block is not what was sent"
        untouched = np.setdiff1d(np.arange(BLOCKS), block_table)
        assert not cache[untouched].any(), "a block of somebody else was written"
        process.join(60)


if __name__ == "__main__":
    main()
