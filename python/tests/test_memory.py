"""What can be registered and sent: arrays, tensors, buffers, strides, blocks; and what cannot."""

import array
import ctypes
import gc
import mmap
import os
import weakref

import pytest
import telpher
from conftest import DEADLINE, PACKAGE
from telpher import _memory

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


def test_lists_of_arrays(tcp_pair):
    parts = [np.full(5, i, "i2") for i in range(10)] + [b"tail", np.arange(12, dtype="u1").reshape(3, 4).T]
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


def test_what_has_no_memory_is_refused(tcp_pair):
    for thing, match in ((object(), "buffer protocol"), ("text", "str"), (np.array([object()]), "Python objects"), (7, "int")):
        with pytest.raises(TypeError, match=match):
            tcp_pair.a.register(thing)
    with pytest.raises(ValueError, match="without bytes"):
        tcp_pair.a.register(np.zeros((0, 4)))
    with pytest.raises(ValueError, match="access 'x'"):
        tcp_pair.a.register(bytearray(4), access="x")
    with pytest.raises(TypeError, match="remote side"):
        tcp_pair.ab.write(bytearray(4), b"?")


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


def test_torch(tcp_pair):
    torch = pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
    weights = torch.arange(60, dtype=torch.float32).reshape(5, 12).requires_grad_()
    target = torch.zeros(12, 5)
    moved(tcp_pair, weights.T, target)
    assert torch.equal(target, weights.detach().T)
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
    with pytest.raises(TypeError, match="meta"):
        tcp_pair.a.register(torch.zeros(3, device="meta"))
    region = tcp_pair.a.allocate(16)
    tensor = region.torch(torch.float32)
    tensor.fill_(1)
    assert bytes(region.view[:4]) == b"\0\0\x80?"
    with pytest.raises(BufferError):
        region.close()


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


def test_cuda_array_interface_without_a_gpu(tcp_pair):
    """A pointer of a GPU goes to the driver: here there is none, and that is said."""

    class Device:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (1 << 40, False), "version": 3, "stream": 7}

    of = _memory.layout(Device())
    assert of.device and of.address == 1 << 40 and of.nbytes == 16 and of.stream == 7
    if telpher.devices():
        pytest.skip("there is a GPU")
    with pytest.raises(telpher.Unsupported, match="0x10000000000"):
        tcp_pair.a.register(Device())
    with pytest.raises(telpher.Unsupported):
        tcp_pair.a.allocate(100, device="cuda:0")


def test_streams_are_waited_for():
    waited = []

    class Stream:
        def synchronize(self):
            waited.append(self)

    _memory.synchronise(Stream(), 7)
    _memory.synchronise(None, 7)
    _memory.synchronise("current", None)
    assert len(waited) == 1
    with pytest.raises(TypeError, match="stream="):
        _memory.synchronise("mine", None)


def test_memory_of_gpus_on_a_fake_driver(script):
    """Pointers, streams and copies of device memory, with the driver that the engine's tests build."""
    folder = os.environ.get("FAKE_GPU_FOLDER") or os.path.join(PACKAGE, "..", "engine", "target", "fake-gpu")
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        pytest.skip("no fake GPU: the engine's tests build it (./telpher test -pl engine -Dtest=CudaAbiTest)")
    libraries = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1", "nvrtc": "libnvrtc.so"}
    options = ["-Dtelpher.%s.library=%s" % (name, os.path.abspath(os.path.join(folder, file))) for name, file in libraries.items()]
    done = script(
        """
        import telpher
        print(len(telpher.devices()), telpher.devices()[0]["runtime"])
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        source, target = a.allocate(4096, device="cuda:0"), b.allocate(4096, device="cuda:1")
        source.copy_in(bytes(range(256)) * 16)
        waited = []

        class Tensor:  # what a framework shows of its memory: here, the second half of the region's
            shape, stream = (16, 64), 5
            __cuda_array_interface__ = {
                "shape": (16, 64), "typestr": "|u1", "data": (source.address + 2048, False), "strides": (128, 1), "version": 3, "stream": None}

        class Stream:
            def synchronize(self): waited.append(1)

        transfer = ab.write(source, target.remote, notification=b"there")
        transfer.wait(30)
        print(ba.wait_notification(30), transfer.path)
        back = bytearray(4096)
        target.copy_out(back)
        print(back == bytes(range(256)) * 16)
        # A foreign pointer, strided, into host memory; ordered behind a stream.
        host = bytearray(1024)
        receive = ba.receive(host)
        ab.send(Tensor(), stream=Stream()).wait(30)
        print(receive.wait(30), host == b"".join(bytes(range(128 * (i % 2), 128 * (i % 2) + 64)) for i in range(16)), waited)
        print(source.device == "cuda " + telpher.devices()[0]["uuid"], source.__cuda_array_interface__["data"] == (source.address, False))
        try: source.view
        except BufferError as e: print("no host bytes" in str(e) or "copy_out" in str(e))
        region = a.register_pointer(source.address, 100)  # the driver is asked
        print(region.device == source.device)
        region.close(); source.close(); target.close(); a.close(); b.close()
        """,
        env={"TELPHER_JAVA_OPTS": " ".join([*options, "-Dtelpher.cuda.probe=0"])},
    )
    lines = done.end()[0].splitlines()
    assert lines[0] == "2 cuda" and lines[1].startswith("b'there' cuda"), lines
    assert lines[2:] == ["True", "1024 True [1]", "True True", "True", "True"], lines
