"""What PyTorch's memory goes through between two processes, GPU 0 and GPU 1: one line for each check. Run by test_gpu.py, and by hand:

    python gpu_pair.py [cuda|cpu] [SECONDS]

PYTORCH_CUDA_ALLOC_CONF chooses torch's allocator. With cpu the same goes through the host's memory, which needs no GPU.
"""

import faulthandler
import multiprocessing
import sys
import time

import telpher
import torch

WAIT = 60
KIB, MIB = 1 << 10, 1 << 20


class Side:
    """One of the two processes. Both run the same checks; rank 0 writes unless a check says otherwise."""

    def __init__(self, rank, device, endpoint, peer):
        self.rank, self.device, self.endpoint, self.peer = rank, device, endpoint, peer
        self.said = ""

    def swap(self, payload=b""):
        """Gives the other side some bytes and takes its own: both have come here then."""
        self.peer.notify(payload)
        return self.peer.wait_notification(WAIT)

    def theirs(self, region):
        """The other side's region of this check."""
        return telpher.RemoteMemory(self.swap(bytes(region.remote)))

    def pattern(self, nbytes, seed):
        """The same bytes on both sides, other ones for each seed."""
        at = torch.arange(nbytes, dtype=torch.int32, device=self.device)
        return at.mul_(1103515245).add_(seed * 0x1234567).bitwise_right_shift_(24).to(torch.uint8)  # no block is like another

    def synchronize(self):
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)

    def until_direct(self, local, remote, seconds=5):
        """Writes until a GPU does it, or it is clear that none will: a trial of the GPUs, and opening memory, take a while."""
        end = time.monotonic() + (seconds if self.device != "cpu" else 0)
        while True:
            transfer = self.peer.write(local, remote)
            transfer.wait(WAIT)
            if transfer.path.startswith("cuda") or time.monotonic() > end:
                return transfer.path


def same(got, wanted, what):
    if not torch.equal(got, wanted):
        wrong = int((got != wanted).sum())
        raise AssertionError("%s: %d of %d elements are wrong" % (what, wrong, wanted.numel()))


def microseconds(run, count=200):
    times = []
    for _ in range(count):
        before = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - before)
    return sorted(times)[count // 2] / 1e3


# --- checks ------------------------------------------------------------------------------------------


def tensors(side):
    """Whole tensors, and what one costs."""
    here = side.pattern(16 * MIB, 1) if side.rank == 0 else torch.zeros(16 * MIB, dtype=torch.uint8, device=side.device)
    region = side.endpoint.register(here)
    remote = side.theirs(region)
    if side.rank == 0:
        path = side.until_direct(region, remote, 30)
        side.said = "%s; us:" % path
        for nbytes in (8, 64 * KIB, MIB, 16 * MIB):
            prepared = side.peer.prepare_write(region[:nbytes], remote[:nbytes], stream=None)
            prepared.run(WAIT)
            side.said += " %s %.1f" % (nbytes, microseconds(lambda: prepared.run(WAIT), 20 if nbytes > MIB else 200))
    side.swap()
    same(here, side.pattern(16 * MIB, 1), "a tensor")
    side.swap()
    region.close()


def neighbours(side):
    """Tensors that the allocator cut from one piece of memory: what is between them stays."""
    row = [torch.zeros(100 * KIB + i, dtype=torch.uint8, device=side.device) for i in range(12)]
    regions = [side.endpoint.register(each) for each in row[::2]]
    theirs = side.swap(b"".join(bytes(each.remote) for each in regions))
    remotes = [telpher.RemoteMemory(theirs[at : at + 48]) for at in range(0, len(theirs), 48)]
    if side.rank == 0:
        for seed, (tensor, region, remote) in enumerate(zip(row[::2], regions, remotes)):
            tensor.copy_(side.pattern(tensor.numel(), seed))
            side.peer.write(region, remote).wait(WAIT)
    side.swap()
    for seed, tensor in enumerate(row[::2]):
        same(tensor, side.pattern(tensor.numel(), seed), "neighbour %d" % seed)
    if side.rank == 1:
        assert not any(bool(each.any()) for each in row[1::2]), "memory between the tensors was written"
    side.swap()
    for region in regions:
        region.close()


def views(side):
    """Strided sources and targets: a transposed matrix into every other column of another one."""
    matrix = side.pattern(256 * 512 * 4, 2).view(torch.int32).view(256, 512)
    if side.rank == 1:
        room = torch.zeros(512, 2 * 256, dtype=torch.int32, device=side.device)
        side.swap()
        side.peer.receive(room[:, ::2]).wait(WAIT)
        same(room[:, ::2], matrix.T, "columns")
        assert not bool(room[:, 1::2].any()), "the columns between were written"
    else:
        side.swap()
        side.peer.send(matrix.T).wait(WAIT)
    side.swap()


def hosts(side):
    """The host's memory (NumPy's) into a GPU's and back, over both ways: writes and reads."""
    import numpy

    wanted = side.pattern(4 * MIB, 3)
    tensor = torch.zeros(4 * MIB, dtype=torch.uint8, device=side.device)
    region = side.endpoint.register(tensor)
    remote = side.theirs(region)
    if side.rank == 0:
        array = wanted.cpu().numpy().copy()
        write = side.peer.write(array, remote)
        write.wait(WAIT)
        back = numpy.zeros_like(array)
        read = side.peer.read(back, remote)
        read.wait(WAIT)
        assert (back == array).all(), "what was read back differs"
        side.said = "write %s, read %s" % (write.path, read.path)
    side.swap()
    if side.rank == 1:
        same(tensor, wanted, "a tensor from an array")
    side.swap()
    region.close()


def messages(side):
    """Sends and receives of tensors that nobody registered."""
    for tag, nbytes in enumerate((8, 100_000, 10 * MIB)):
        tensor = side.pattern(nbytes, tag)
        if side.rank == 0:
            side.peer.send(tensor, tag=tag).wait(WAIT)
        else:
            into = torch.zeros_like(tensor)
            assert side.peer.receive(into, tag=tag).wait(WAIT) == nbytes
            same(into, tensor, "a message of %d bytes" % nbytes)
    side.swap()


def large(side):
    """256 MiB, which torch's expandable segments make of many parts."""
    size = 256 * MIB if side.device != "cpu" else 8 * MIB
    here = side.pattern(size, 4) if side.rank == 0 else torch.zeros(size, dtype=torch.uint8, device=side.device)
    region = side.endpoint.register(here)
    remote = side.theirs(region)
    if side.rank == 0:
        side.until_direct(region[:MIB], remote[:MIB])
        before = time.perf_counter()
        transfer = side.peer.write(region, remote)
        transfer.wait(WAIT)
        side.said = "%s, %.1f GB/s" % (transfer.path, size / (time.perf_counter() - before) / 1e9)
    side.swap()
    same(here, side.pattern(size, 4), "%d bytes" % size)
    side.swap()
    region.close()


def blocks(side):
    """10,000 blocks of 4 KiB of a paged cache (fewer on the host), scattered on both sides, in one write."""
    all_of_them, count, block = (16_384, 10_000, 4 * KIB) if side.device != "cpu" else (1_638, 1_000, 4 * KIB)
    full = side.pattern(all_of_them * block, 5).view(all_of_them, block)
    cache = full.clone() if side.rank == 0 else torch.zeros_like(full)
    table = torch.randperm(all_of_them, generator=torch.Generator().manual_seed(side.rank))[:count]
    region = side.endpoint.register(cache)
    remote = side.theirs(region)
    others = torch.randperm(all_of_them, generator=torch.Generator().manual_seed(1 - side.rank))[:count]
    if side.rank == 0:
        path = side.until_direct(region[:block], remote.blocks(others[:1], block))
        prepared = side.peer.prepare_write(region.blocks(table, block), remote.blocks(others, block), stream=None)
        side.said = "%s, ms: first %.2f, then %.2f" % (
            path, microseconds(lambda: prepared.run(WAIT), 1) / 1e3, microseconds(lambda: prepared.run(WAIT), 20) / 1e3)
    side.swap()
    if side.rank == 1:
        wanted = torch.zeros_like(cache)
        wanted[table.to(side.device)] = full[others.to(side.device)]
        same(cache, wanted, "blocks")
    side.swap()
    region.close()


def weights(side):
    """The tensors of a model, three versions of them, each in one write with a notification behind it."""
    model = [torch.zeros(shape, device=side.device) for shape in [(1024, 512), (512,), (512, 1536), (1536,), (333,)] * 8]
    regions = [side.endpoint.register(each) for each in model]
    theirs = side.swap(b"".join(bytes(each.remote) for each in regions))
    remotes = [telpher.RemoteMemory(theirs[at : at + 48]) for at in range(0, len(theirs), 48)]
    for version in (1, 2, 3):
        if side.rank == 0:
            for tensor in model:
                tensor.fill_(version)
            before = time.perf_counter()
            transfer = side.peer.write(regions, remotes, notification=b"%d" % version)  # begins after torch's current stream
            transfer.wait(WAIT)
            side.said = "%s, %.2f ms" % (transfer.path, (time.perf_counter() - before) * 1e3)
            side.peer.wait_notification(WAIT)
        else:
            assert side.peer.wait_notification(WAIT) == b"%d" % version
            assert all(bool((each == version).all()) for each in model), "version %d is not whole" % version
            side.peer.notify(b"ready").wait(WAIT)
    side.swap()
    for region in regions:
        region.close()


def memory_again(side):
    """Memory that was given back to the driver and is taken again: a peer that had opened the old one must not write there."""
    for seed in range(4):
        here = side.pattern(4 * MIB, seed) if side.rank == 0 else torch.zeros(4 * MIB, dtype=torch.uint8, device=side.device)
        with side.endpoint.register(here) as region:
            remote = side.theirs(region)
            if side.rank == 0:
                side.said = side.until_direct(region, remote, 2)
            side.swap()
            same(here, side.pattern(4 * MIB, seed), "round %d" % seed)
            side.swap()
        del here, region
        if side.device != "cpu":
            torch.cuda.empty_cache()
    side.swap()


def streams(side):
    """Transfers in the order of torch's streams: nothing waits on the host."""
    x = torch.zeros(MIB, dtype=torch.uint8, device=side.device)
    region = side.endpoint.register(x)
    remote = side.theirs(region)
    stream = torch.cuda.Stream(side.device)
    if side.rank == 0:
        side.until_direct(region, remote)
    side.swap()
    late = int(2e8)  # cycles: a tenth of a second
    if side.rank == 0:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(late)
            x.fill_(7)
            before = time.perf_counter()
            write = side.peer.write(region, remote, notification=b"seven", stream=stream)
            x.fill_(9)
            posted, pending = time.perf_counter() - before, not write.done()
        write.wait(WAIT)
        assert pending, "the write ended before the stream was there"
        stream.synchronize()
        assert bool((x == 9).all()), "the stream did not go on"
        side.said = "%s, posted in %.0f us" % (write.path, posted * 1e6)
    else:
        assert side.peer.wait_notification(WAIT) == b"seven"
        assert bool((x == 7).all()), "the write did not wait for the stream, or the stream not for the write"
    side.swap()
    if side.rank == 0:
        # By default it begins after the current stream, for which the call does not wait.
        torch.cuda._sleep(late)
        x.fill_(3)
        write = side.peer.write(region, remote, notification=b"three")
        pending = not write.done()
        write.wait(WAIT)
        assert pending, "the write ended before the current stream was there"
    else:
        assert side.peer.wait_notification(WAIT) == b"three"
        assert bool((x == 3).all()), "the write did not wait for the current stream"
    side.swap()
    if side.rank == 1:
        # What torch does behind a receive finds the message.
        with torch.cuda.stream(stream):
            receive = side.peer.receive(x, stream=stream)
            copy = x + 1
        assert not receive.done()
        side.swap()
        stream.synchronize()
        assert bool((copy == 6).all()), "the stream did not wait for the message"
    else:
        side.swap()
        y = torch.full_like(x, 5)
        prepared = side.peer.prepare_send(y, stream=torch.cuda.current_stream(side.device))
        prepared.run(WAIT)
    side.swap()
    region.close()


def run(rank, device, address, out):
    device = device if device == "cpu" else "%s:%d" % (device, rank % torch.cuda.device_count())
    with telpher.Endpoint() as endpoint:
        if rank == 0:
            out.send(endpoint.address)
            peer = endpoint.accept(WAIT)
        else:
            peer = endpoint.connect(address, WAIT)
        side = Side(rank, device, endpoint, peer)
        for check in (tensors, neighbours, views, hosts, messages, large, blocks, weights, memory_again, streams):
            if check is streams and device == "cpu":
                continue
            before, side.said = time.perf_counter(), ""
            check(side)
            if rank == 0:
                print("ok %-13s %5.1f s  %s" % (check.__name__, time.perf_counter() - before, side.said), flush=True)
        side.swap()


def main(device="cuda", seconds="100"):
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    here, there = multiprocessing.Pipe()
    # Its stacks too, should it hang; it is a daemon of this process, and ends with it.
    other = multiprocessing.get_context("spawn").Process(target=second, args=(device, here, float(seconds)), daemon=True)
    other.start()
    run(0, device, None, there)
    other.join(WAIT)
    sys.exit(other.exitcode)


def second(device, pipe, seconds):
    faulthandler.dump_traceback_later(seconds, exit=True)
    run(1, device, pipe.recv(), None)


if __name__ == "__main__":
    main(*sys.argv[1:])
