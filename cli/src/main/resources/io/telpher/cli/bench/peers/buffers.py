"""The memory that the peers' scripts move: of this process, page-locked, or of a GPU by the CUDA driver alone."""

import ctypes
import math
import mmap
import random

PART = 1 << 20
PRIME = 1_000_003


class Skip(Exception):
    """The peer cannot run here; the message says why."""


class Failed(Exception):
    """The peer ran, and reported an error."""


def kinds(options):
    """The kinds of memory of this process and of the other one."""
    near, far = (options.into, options.source) if options.op == "read" else (options.source, options.into)
    return (far, near) if options.target else (near, far)


def on_gpu(kind):
    return kind.startswith("cuda")


class Memory:
    """Private memory of this process, every page of it touched."""

    def __init__(self, size, pieces=1):
        self.pieces = pieces
        self.allocate(size)
        self.clear(size)

    def allocate(self, size):
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def clear(self, size):
        ctypes.memset(self.address, 0, size)

    def put(self, data):
        ctypes.memmove(self.address, data, len(data))

    def get(self, size):
        return ctypes.string_at(self.address, size)

    def fill(self, size, seed):
        self.put(contents(size, seed))

    def wrong(self, size, seed):
        """How many of the first bytes differ from what an operation on a filled memory writes."""
        there, expected = self.get(size), scattered(contents(size, seed), self.pieces)
        if there == expected:
            return 0
        parts = (slice(at, at + PART) for at in range(0, size, PART))
        return sum(sum(a != b for a, b in zip(there[p], expected[p])) for p in parts if there[p] != expected[p])


class Cuda:
    """The CUDA driver, with the primary context of one GPU current on this thread."""

    def __init__(self, rank):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Skip(f"no CUDA driver: {error}") from error
        self("cuInit", 0)
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise Skip("the CUDA driver sees no GPU")
        self.ordinal = rank % count.value
        self("cuDeviceGet", ctypes.byref(device), self.ordinal)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise Failed(f"{name}: CUDA error {code}")


class CudaMemory(Memory):
    """Memory of a GPU."""

    def __init__(self, cuda, size, pieces):
        self.cuda = cuda
        super().__init__(size, pieces)

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.cuda("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.address = address.value

    def clear(self, size):
        self.cuda("cuMemsetD8_v2", ctypes.c_uint64(self.address), ctypes.c_ubyte(0), ctypes.c_size_t(size))
        self.cuda("cuCtxSynchronize")

    def put(self, data):
        self.cuda("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
        self.cuda("cuCtxSynchronize")

    def get(self, size):
        data = bytearray(size)
        into = (ctypes.c_char * size).from_buffer(data)
        self.cuda("cuMemcpyDtoH_v2", into, ctypes.c_uint64(self.address), ctypes.c_size_t(size))
        return bytes(data)


class PinnedMemory(Memory):
    """Page-locked memory of the host."""

    def __init__(self, cuda, size, pieces):
        self.cuda = cuda
        super().__init__(size, pieces)

    def allocate(self, size):
        address = ctypes.c_void_p()
        self.cuda("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 1)
        self.address = address.value


def allocate(options):
    """This process's memory; the initiator has the first GPU, the target the second."""
    near, far = kinds(options)
    if on_gpu(near) or on_gpu(far):
        cuda = Cuda(1 if options.target else 0)
        make = CudaMemory if on_gpu(near) else PinnedMemory
        memory = make(cuda, options.bytes, options.pieces)
        memory.gpu = cuda.ordinal
        return memory
    return Memory(options.bytes, options.pieces)


def contents(size, seed):
    if size <= 4 * PART:
        return random.Random(seed).randbytes(size)
    block = random.Random(seed).randbytes(PRIME)  # that is all that random bytes are quick enough for
    return (block * (size // PRIME + 1))[:size]


def place(piece, pieces):
    """Where a piece goes: no two neighbours stay together."""
    step = max(1, int(pieces * 0.618))
    while math.gcd(step, pieces) != 1:
        step -= 1
    return piece * step % pieces


def scattered(data, pieces):
    if pieces == 1:
        return data
    size = len(data) // pieces
    out = bytearray(len(data))
    for i in range(pieces):
        at = place(i, pieces) * size
        out[at : at + size] = data[i * size : (i + 1) * size]
    return bytes(out)
