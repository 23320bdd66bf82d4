"""What can be registered and sent: arrays, tensors, buffers, strides, blocks; and what cannot."""

import array
import ctypes
import gc
import mmap
import sys
import types
import weakref

import pytest
import telpher
from conftest import DEADLINE
from telpher import _streams

np = pytest.importorskip("numpy", reason="NumPy is missing (package python3-numpy)")


def moved(pair, source, target):
    """Writes the bytes of one object into another through a region of the second's endpoint."""
    region = pair.b.register(target)
    pair.ab.write(source, region.remote).wait(DEADLINE)
    region.close()


def test_buffers_and_arrays(tcp_pair):
    pair = tcp_pair
    mapped = mmap.mmap(-1, 4096)
    for target in (bytearray(24), array.array("d", [0] * 3), np.zeros((3, 2), "f4"), memoryview(bytearray(30))[3:27], (ctypes.c_int * 6)()):
        source = np.arange(24, dtype="u1").reshape(2, 3, 4)
        moved(pair, source, target)
        assert bytes(memoryview(target).cast("B")) == bytes(range(24))
    region = pair.b.register(mapped)
    pair.ab.write(b"mapped", region.remote).wait(DEADLINE)
    assert mapped[:6] == b"mapped"
    with pytest.raises(BufferError):
        mapped.close()
    region.close()
    mapped.close()


def test_dtype_and_shape_never_change_bytes(tcp_pair):
    source = np.array([[1.5, -2.0], [float("nan"), 1e300]])
    target = np.zeros(32, "u1")
    moved(tcp_pair, source, target)
    assert target.tobytes() == source.tobytes()


@pytest.mark.parametrize("make", [
    lambda a: a.T,
    lambda a: a[::2, 1:, ::3],
    lambda a: a[::-1, ::-1],
    lambda a: a.transpose(2, 0, 1)[1:],
    lambda a: a[:, 2],
    lambda a: a[..., None, 0],
    lambda a: np.broadcast_to(a[0], a.shape),
])
def test_strides_are_walked_in_the_order_of_elements(tcp_pair, make):
    base = np.arange(4 * 6 * 7, dtype="i4").reshape(4, 6, 7)
    source = make(base)
    target = np.zeros(source.shape, "i4")
    moved(tcp_pair, source, target)
    assert (target == source).all()
    if source.flags.writeable:  # and the other way: only these elements are written
        back, expected = np.zeros_like(base), np.zeros_like(base)
        make(expected)[...] = source
        region = tcp_pair.b.register(target)
        tcp_pair.ab.read(make(back), region.remote).wait(DEADLINE)
        assert (back == expected).all()


def test_random_strides(tcp_pair):
    import random

    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(25):
        base = np.frombuffer(chance.randbytes(2 * 3 * 4 * 5 * 2), "u2").reshape(2, 3, 4, 5)
        axes = list(range(4))
        chance.shuffle(axes)
        cut = tuple(slice(chance.randrange(2), None, chance.choice((1, 1, 2, -1)) if chance.random() < 0.8 else 2) for _ in axes)
        source = base.transpose(axes)[cut]
        if source.size == 0:
            continue
        target = np.zeros(source.shape, "u2")
        moved(tcp_pair, source, target)
        assert (target == source).all(), (axes, cut)


def test_arrays_over_a_region_keep_registered_memory_after_its_close(tcp_pair):
    memory = np.zeros(1 << 20, "u1")
    freed = weakref.ref(memory)
    region = tcp_pair.a.register(memory)
    over = region.numpy()
    del memory
    region.close()
    gc.collect()
    assert freed() is not None
    over[:] = 7
    del over, region
    gc.collect()
    assert freed() is None


def test_views_of_a_registered_array_need_no_registration(tcp_pair):
    cache = np.zeros((8, 16), "i8")
    cache[:, 3] = range(8)
    region = tcp_pair.a.register(cache, access="none")
    target = np.zeros(8, "i8")
    before = tcp_pair.a.metrics()["regions"]
    receive = tcp_pair.ba.receive(target)
    transfer = tcp_pair.ab.send(cache[:, 3])
    assert tcp_pair.a.metrics()["regions"] == before == 1
    transfer.wait(DEADLINE)
    assert receive.wait(DEADLINE) == 64 and target.tolist() == list(range(8))
    region.close()


@pytest.mark.parametrize("source", [
    np.array(7, "i2"), np.float32(1.5), np.array([True, False]), np.array([1 + 2j]), np.array([1], ">i4"), np.array(["ab"]), np.array([b"ab"]),
    np.array(["2020-01-01"], "M8[D]"), np.array([5], "m8[25s]"), np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")]), np.zeros(2, "V7"),
    np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")])["b"], np.arange(6, dtype="u1")[::-2], memoryview(bytearray(range(9)))[::-3], ctypes.c_int(5), b"bytes",
], ids=lambda source: getattr(getattr(source, "dtype", None), "str", type(source).__name__))
def test_every_kind_of_element(tcp_pair, source):
    wanted = source.tobytes() if hasattr(source, "tobytes") else bytes(source)
    target = bytearray(len(wanted))
    moved(tcp_pair, source, target)
    assert target == wanted


def test_lists_of_arrays(tcp_pair):
    for nothing in ([], [np.zeros(0)], np.zeros((0, 4)), b""):
        with pytest.raises(ValueError, match="without bytes"):
            tcp_pair.ab.send(nothing)
    with pytest.raises(TypeError, match="without lists in it"):
        tcp_pair.ab.send([[b"a"]])
    parts = [np.full(5, i, "i2") for i in range(10)] + [np.zeros(0), b"tail", np.arange(12, dtype="u1").reshape(3, 4).T]
    target = np.zeros(10 * 10 + 4 + 12, "u1")
    moved(tcp_pair, parts, target)
    assert target.tobytes() == b"".join(p if isinstance(p, bytes) else p.tobytes() for p in parts)
    region = tcp_pair.b.register(target)
    pieces = telpher.MemoryPieces.of([region[8:12], region[0:4]])
    assert (pieces.count, pieces.nbytes) == (2, 8)
    receive = tcp_pair.ba.receive(pieces)
    tcp_pair.ab.send(b"abcdefgh").wait(DEADLINE)
    receive.wait(DEADLINE)
    assert target[8:12].tobytes() == b"abcd" and target[:4].tobytes() == b"efgh"


@pytest.mark.parametrize("kind", ["i8", "i4", "u2", "list", "range", "strided", "array"])
def test_blocks(tcp_pair, kind):
    blocks, size = 64, 48
    rng = np.random.default_rng(7)
    cache = rng.integers(0, 256, blocks * size, "u1")
    there = np.zeros(blocks * size, "u1")
    local, remote = tcp_pair.a.register(cache), tcp_pair.b.register(there)
    numbers = list(range(3, 60, 4)) if kind == "range" else rng.permutation(blocks)[:20].tolist()
    indices = {
        "list": lambda: numbers,
        "range": lambda: range(3, 60, 4),
        "strided": lambda: np.repeat(np.array(numbers), 2)[::2],
        "array": lambda: array.array("q", numbers),
    }.get(kind, lambda: np.array(numbers, kind))()
    to = rng.permutation(blocks)[: len(numbers)]
    source, target = local.blocks(indices, size), remote.remote.blocks(to, size)
    assert (source.count, target.nbytes) == (len(numbers), len(numbers) * size)
    tcp_pair.ab.write(source, target).wait(DEADLINE)
    expected = np.zeros((blocks, size), "u1")
    expected[to] = cache.reshape(blocks, size)[numbers]
    assert (there.reshape(blocks, size) == expected).all()


def test_indices_of_another_byte_order(tcp_pair):
    region = tcp_pair.a.register(bytearray(range(40)))
    there = tcp_pair.b.register(bytearray(20))
    for indices in np.array([3, 1], ">i8"), np.array([3, 1], "<i8"), np.array([3, 1], ">u2"):
        tcp_pair.ab.write(region.blocks(indices, 10), there.remote).wait(DEADLINE)
        assert bytes(there.view) == bytes((*range(30, 40), *range(10, 20)))
        assert region.remote.blocks(indices, 10).count == 2

    class Swapped(ctypes.BigEndianStructure):
        _fields_ = [("number", ctypes.c_int64)]

    with pytest.raises((TypeError, ValueError)):
        region.blocks((Swapped * 2)(), 10)
    assert region.blocks(memoryview(np.array([3, 1], "i4")), 10).nbytes == 20
    with pytest.raises(TypeError, match="byte order"):
        region.blocks(memoryview(np.array([3, 1], ">i8")), 10)


def test_blocks_outside_are_refused(tcp_pair):
    region = tcp_pair.a.register(bytearray(100))
    for indices in ([10], [-1], [1 << 62]):
        with pytest.raises((IndexError, RuntimeError, ValueError, telpher.Error)):
            region.blocks(indices, 10)
        with pytest.raises((IndexError, RuntimeError, ValueError, telpher.Error)):
            region.remote.blocks(indices, 10)
    for bad in (np.array([1.0]), np.array([[1]]), np.array([True])):
        with pytest.raises((TypeError, ValueError), match="indices"):
            region.blocks(bad, 10)
    assert region.strided(4, 10, 10).nbytes == 40
    with pytest.raises(IndexError):
        region.strided(4, 10, 11, base=9)
    assert region.remote.strided(4, 10, 10).count == 10


def test_read_only_and_shared_elements_are_no_targets(tcp_pair):
    frozen = np.arange(4)
    frozen.flags.writeable = False
    for target in (b"bytes", frozen, memoryview(bytearray(4)).toreadonly()):
        with pytest.raises(BufferError, match="read-only"):
            tcp_pair.ba.receive(target)
        with pytest.raises(BufferError, match="read-only"):
            tcp_pair.b.register(target, access="rw")
        region = tcp_pair.b.register(target)
        assert region.access == "r" and region.remote.access == "r"
        with pytest.raises(BufferError):
            tcp_pair.ba.receive(region)
        with pytest.raises(telpher.AccessDenied):
            tcp_pair.ab.write(bytes(4), region.remote[:4]).wait(DEADLINE)
        region.close()
    expanded = np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,))
    with pytest.raises(BufferError, match="stride is 0"):
        tcp_pair.ba.receive(expanded)


def test_scalars_are_values(tcp_pair):
    """NumPy's: a source as long as it is used, registered too, and no target."""
    kinds = [np.float64(3), np.bool_(True), np.str_("abc"), np.bytes_(b"abcd"), np.datetime64("2020-01-01"), np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])[0]]
    for scalar in kinds:
        with pytest.raises(BufferError, match=type(scalar).__name__ + " is read-only"):
            tcp_pair.ba.receive(scalar)
        with pytest.raises(BufferError, match="read-only"):
            tcp_pair.b.register(scalar, access="rw")
        wanted, size = scalar.tobytes(), scalar.nbytes
        region = tcp_pair.b.register(scalar)
        # What a copy that nobody keeps would be overwritten by.
        others = [np.full(size, 0xEE, "u1") for _ in range(1000)]
        back = bytearray(size)
        tcp_pair.ab.read(back, region.remote).wait(DEADLINE)
        assert back == wanted and all((other == 0xEE).all() for other in others), type(scalar)


def test_what_an_interface_holds_is_kept(tcp_pair):
    """Its dict may be what keeps the memory alive."""
    freed = []

    class Memory(bytearray):
        def __del__(self):
            freed.append(len(self))

    class Lender:
        @property
        def __array_interface__(self):
            memory = Memory(b"lent")
            at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            return {"shape": (4,), "typestr": "|u1", "data": (at, False), "version": 3, "of": memory}

    region = tcp_pair.b.register(Lender())
    gc.collect()
    assert not freed
    back = bytearray(4)
    tcp_pair.ab.read(back, region.remote).wait(DEADLINE)
    region.close()
    assert back == b"lent" and freed == [4]


class Suboffsets(ctypes.Structure):
    """A Py_buffer of pointers to rows, as some image libraries have."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p),
    ]


def rows_by_pointers():
    rows = (ctypes.c_void_p * 2)(*[ctypes.addressof(ctypes.create_string_buffer(4)) for _ in range(2)])
    pair = ctypes.c_ssize_t * 2
    buffer = Suboffsets(ctypes.addressof(rows), None, 8, 1, 0, 2, b"B", pair(2, 4), pair(8, 1), pair(0, -1), None)
    make = ctypes.pythonapi.PyMemoryView_FromBuffer
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(Suboffsets)]
    return make(ctypes.byref(buffer))


def test_what_has_no_memory_is_refused(tcp_pair):
    inside = np.array([(1, object())], [("a", "i4"), ("b", "O")])
    for thing, match in (
        ({"a": b"b"}, r"dict has no memory .* list\(it.values\(\)\)"),
        (object(), "buffer protocol"), ("text", "str"), (7, "int"), (None, "NoneType"), ([b"a"], "list has no memory .* parts"), (rows_by_pointers(), "suboffsets"),
        *((objects, "Python objects") for objects in (np.array([object()]), inside, inside["b"], memoryview(np.array([object()])))),
    ):
        with pytest.raises(TypeError, match=match):
            tcp_pair.a.register(thing)
    with pytest.raises(ValueError, match="without bytes"):
        tcp_pair.a.register(np.zeros((0, 4)))
    with pytest.raises(ValueError, match="access 'x'"):
        tcp_pair.a.register(bytearray(4), access="x")
    with pytest.raises(TypeError, match="remote side"):
        tcp_pair.ab.write(bytearray(4), b"?")


def test_names_of_fields_are_no_types(tcp_pair):
    """The format of a structure has them between its types: T{<i:POS:}."""

    class Atom(ctypes.Structure):
        _fields_ = [("POS", ctypes.c_int), ("O", ctypes.c_int)]

    for thing in Atom(1, 2), (Atom * 2)(), memoryview(np.zeros(1, [("POS", "i4"), ("O", "i4")])):
        assert "O" in memoryview(thing).format
        with tcp_pair.a.register(thing) as region:
            assert region.nbytes == memoryview(thing).nbytes

    class Holder(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.py_object)]

    with pytest.raises(TypeError, match="Python objects"):
        tcp_pair.a.register(Holder())


def test_allocated_memory_as_arrays():
    with telpher.Endpoint() as endpoint:
        region = endpoint.allocate(4096)
        floats = region.numpy("f4", (32, 32))
        floats[3, 5] = 2.5
        out = np.zeros(1024, "f4")
        region.copy_out(out)
        assert out[3 * 32 + 5] == 2.5
        region.copy_in(np.array([1, 2], "f4"), at=8)
        assert floats[0, 2:4].tolist() == [1, 2]
        with pytest.raises(IndexError):
            region.copy_in(bytes(10), at=4090)
        del floats
        assert endpoint.register_pointer(region.address, 100, device=False).nbytes == 100
        with pytest.raises(ValueError, match="not a range"):
            endpoint.register_pointer(0, 1)


def emptied(torch):
    """A tensor of three elements whose storage was freed, as those are that are gathered when they are used."""
    tensor = torch.ones(3)
    getattr(tensor, "untyped_storage", tensor.storage)().resize_(0)
    return tensor


def test_a_dropped_torch_tensor_lives_as_long_as_its_region(tcp_pair):
    torch = pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
    tensor = torch.zeros(1 << 20, dtype=torch.uint8)  # so large that freed memory is unmapped, and not given out again at once
    address = tensor.data_ptr()
    region = tcp_pair.b.register(tensor)
    del tensor
    gc.collect()
    other = [torch.ones(1 << 20, dtype=torch.uint8) for _ in range(4)]
    assert address not in [each.data_ptr() for each in other]
    tcp_pair.ab.write(b"\7" * (1 << 20), region.remote).wait(DEADLINE)
    assert all(int(each.sum()) == 1 << 20 for each in other)
    assert region._owner.data_ptr() == address and int(region._owner.sum()) == 7 << 20


def test_a_torch_that_is_being_imported_by_another_thread_is_none_yet(tcp_pair, monkeypatch):
    half = types.ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", half)
    for _ in "a part", "more":
        moved(tcp_pair, np.ones(3), np.zeros(3))
        half.Tensor = type("Tensor", (), {})
    assert _streams.current({0: [object()]}) == b""


def test_torch(tcp_pair):
    torch = pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
    weights = torch.arange(60, dtype=torch.float32).reshape(5, 12).requires_grad_()
    target = torch.zeros(12, 5)
    moved(tcp_pair, weights.T, target)
    assert torch.equal(target, weights.detach().T)
    for source in (
        torch.tensor(1.5), torch.tensor([True, False]), torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([1 + 2j, 3 - 4j]).imag, torch.nn.Parameter(torch.ones(3)),
        torch.arange(12).reshape(3, 4)[:, 1:3].T, torch.ones(2, 3).expand(4, 2, 3), torch.arange(5, dtype=torch.int16).flip(0), torch.tensor([1 + 2j]).conj().resolve_conj(),
    ):
        target = torch.zeros(source.shape, dtype=source.dtype)
        moved(tcp_pair, source, target)
        assert torch.equal(target, source.detach())
    grown = torch.zeros(4, requires_grad=True)  # as under no_grad
    moved(tcp_pair, torch.ones(4), grown)
    assert grown.requires_grad and grown.sum() == 4
    target = torch.zeros(12, 5)
    half = torch.zeros(10, dtype=torch.bfloat16)
    moved(tcp_pair, torch.ones(10, dtype=torch.bfloat16), half)
    assert half.sum() == 10
    cache = torch.arange(40, dtype=torch.uint8)
    local = tcp_pair.a.register(cache)
    pieces = local.blocks(torch.tensor([3, 1], dtype=torch.int32), 10)
    receive = tcp_pair.ba.receive(target.view(torch.uint8) if hasattr(torch, "uint8") else target)
    tcp_pair.ab.send(pieces).wait(DEADLINE)
    assert receive.wait(DEADLINE) == 20
    assert target.view(torch.uint8).flatten()[:20].tolist() == list(range(30, 40)) + list(range(10, 20))
    with pytest.raises(TypeError, match="sparse"):
        tcp_pair.a.register(torch.eye(3).to_sparse())
    for refused, match in (
        (torch.zeros(3, device="meta"), "meta"), (torch.tensor([1j]).conj(), "resolve_conj"), (torch.eye(3).to_sparse_csr(), "sparse"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "unbind"), (emptied(torch), r"Tensor of \(3,\) without memory"),
    ):
        with pytest.raises(TypeError, match=match):
            tcp_pair.a.register(refused)
    assert tcp_pair.a.allocate(8, device=torch.device("cpu")).device is None
    region = tcp_pair.a.allocate(16)
    tensor = region.torch(torch.float32)
    tensor.fill_(1)
    assert bytes(region.view[:4]) == b"\0\0\x80?"
    region.close()
    assert tensor.sum() == 4


class OnlyDlpack:
    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **keywords):
        return self.of.__dlpack__(**keywords)


def test_dlpack(tcp_pair):
    values = np.arange(20, dtype="i2").reshape(4, 5)
    target = np.zeros((5, 4), "i2")
    moved(tcp_pair, OnlyDlpack(values.T), target)
    assert (target == values.T).all()


def test_a_large_transposed_tensor(tcp_pair):
    """4.2 million pieces of a byte: a few numbers."""
    side = 2050
    source = np.random.default_rng(3).integers(0, 256, (side, side), "u1")
    target = np.zeros((side, side), "u1")
    moved(tcp_pair, source.T, target)
    assert (target == source.T).all()


def test_one_block_of_a_range(tcp_pair):
    """One piece is one range, wherever it lies within the memory that the blocks were made of."""
    cache, there = np.arange(64, dtype="u1"), np.zeros(64, "u1")
    local, region = tcp_pair.a.register(cache), tcp_pair.b.register(there)
    remote = region.remote[16:]
    tcp_pair.ab.write(local.blocks([3], 8), remote.blocks([2], 8)).wait(DEADLINE)
    expected = np.zeros(64, "u1")
    expected[32:40] = range(24, 32)
    assert (there == expected).all()
    tcp_pair.ab.read(local.blocks([7], 8), remote.blocks([2], 8)).wait(DEADLINE)
    assert cache[56:].tolist() == list(range(24, 32))


def test_too_many_pieces_are_refused(tcp_pair):
    """Those of index arrays are listed, piece by piece, on a heap that is not large."""
    transposed = np.zeros((2050, 2050), "u1").T
    with pytest.raises(ValueError, match="65536 x 65537 pieces .* at most 2147483647"):
        tcp_pair.ab.send(np.lib.stride_tricks.as_strided(transposed, (65536, 65537), (1, 2)))
    region = tcp_pair.a.register(transposed)
    for memory in (region, region.remote):
        assert memory.strided(1, 2, 2_000_000).count == 2_000_000
    with pytest.raises(ValueError, match="at most"):
        region.blocks(np.zeros((1 << 22) + 1, "i8"), 1)
    assert tcp_pair.a.metrics()["regions"] == 1


def test_a_read_only_registration_does_not_hide_a_writable_one(tcp_pair):
    memory = np.zeros(100, "u1")
    frozen = memory[:50]
    frozen.flags.writeable = False
    writable = tcp_pair.b.register(memory)
    for first in (frozen, memory[:50], memory[50:]):  # the whole, a part of it, one within
        other = tcp_pair.b.register(first, access="none")
        regions = tcp_pair.b.metrics()["regions"]
        receive = tcp_pair.ba.receive(memory)
        assert tcp_pair.b.metrics()["regions"] == regions == 2
        tcp_pair.ab.send(bytes([7]) * 100).wait(DEADLINE)
        assert receive.wait(DEADLINE) == 100 and (memory == 7).all()
        other.close()
        receive = tcp_pair.ba.receive(memory)
        assert tcp_pair.b.metrics()["regions"] == 1
        tcp_pair.ab.send(bytes(100)).wait(DEADLINE)
        receive.wait(DEADLINE)
    writable.close()
    only = tcp_pair.b.register(frozen, access="none")
    receive = tcp_pair.ba.receive(memory)
    tcp_pair.ab.send(b"registered anew").wait(DEADLINE)
    assert receive.wait(DEADLINE) == 15 and bytes(memory[:10]) == b"registered"
    only.close()
