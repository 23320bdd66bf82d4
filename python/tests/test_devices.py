"""Memory of GPUs: on the fake driver that the engine's tests build, with objects that stand in for a framework's."""

import os

import pytest
import telpher
from conftest import PACKAGE
from telpher import _memory, _streams


def test_a_pointer_without_a_gpu(tcp_pair):
    """A pointer of a GPU goes to the driver: here there is none, and that is said."""

    class Device:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (1 << 40, False), "version": 3, "stream": 7}

    of = _memory.layout(Device())
    assert of.device and of.address == 1 << 40 and of.nbytes == 16
    if telpher.devices():
        pytest.skip("there is a GPU")
    with pytest.raises(telpher.Unsupported, match="0x10000000000"):
        tcp_pair.a.register(Device())
    with pytest.raises(telpher.Unsupported):
        tcp_pair.a.allocate(100, device="cuda:0")


def test_what_a_stream_may_be():
    """Its handle and its device, as frameworks show them."""
    class Of:
        def __init__(self, **attributes):
            self.__dict__.update(attributes)

    one = {1: []}
    for stream, placed in (
        (77, (1, 77)), (0, (1, 0)),
        (Of(cuda_stream=5, device=Of(index=0, type="cuda")), (0, 5)),  # torch
        (Of(ptr=6, device_id=3), (3, 6)), (Of(ptr=0, device_id=-1), (1, 0)),  # CuPy
        (Of(__cuda_stream__=lambda: (0, 7), device=Of(device_id=2)), (2, 7)), (Of(__cuda_stream__=(0, 8)), (1, 8)),  # CUDA's protocol
        ("current", _streams.NONE), (None, _streams.NONE),
    ):
        assert _streams.place(stream, one) == placed
    for wrong in ("mine", 1.5, True, object()):
        with pytest.raises(TypeError, match="stream=.*torch.cuda.Stream"):
            _streams.place(wrong, one)
    for holders, said in (({}, "no device"), ({0: [], 1: []}, "devices 0, 1")):
        with pytest.raises(ValueError, match=said):
            _streams.place(77, holders)


@pytest.fixture
def on_fake_gpus(script):
    """Starts a script in a process with two fake GPUs."""
    folder = os.environ.get("FAKE_GPU_FOLDER") or os.path.join(PACKAGE, "..", "engine", "target", "fake-gpu")
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        pytest.skip("no fake GPU: the engine's tests build it (./telpher test -pl engine -Dtest=GpuStreamTest)")
    libraries = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1", "nvrtc": "libnvrtc.so"}
    options = ["-Dtelpher.%s.library=%s" % (name, os.path.abspath(os.path.join(folder, file))) for name, file in libraries.items()]
    environment = {"TELPHER_JAVA_OPTS": " ".join([*options, "-Dtelpher.cuda.probe=0"])}
    return lambda text: script(text, env=environment)


def test_copies(on_fake_gpus):
    """Pointers, streams and copies of device memory."""
    done = on_fake_gpus(
        """
        import telpher
        print(len(telpher.devices()), telpher.devices()[0]["runtime"])
        from telpher.compat.uccl import p2p
        told = p2p.Endpoint(1)
        print(p2p.Endpoint.parse_metadata(told.get_metadata())[2] == telpher.devices()[1]["pci_address"])
        told.close()
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        source, target = a.allocate(4096, device="cuda:0"), b.allocate(4096, device="cuda:1")
        source.copy_in(bytes(range(256)) * 16)

        class Tensor:  # what a framework shows of its memory: here, the second half of the region's
            __cuda_array_interface__ = {
                "shape": (16, 64), "typestr": "|u1", "data": (source.address + 2048, False), "strides": (128, 1), "version": 3, "stream": None}

        transfer = ab.write(source, target.remote, notification=b"there")
        transfer.wait(30)
        print(ba.wait_notification(30), transfer.path)
        back = bytearray(4096)
        target.copy_out(back)
        print(back == bytes(range(256)) * 16)
        # A foreign pointer, strided, into host memory.
        host = bytearray(1024)
        receive = ba.receive(host)
        ab.send(Tensor(), stream=None).wait(30)
        print(receive.wait(30), host == b"".join(bytes(range(128 * (i % 2), 128 * (i % 2) + 64)) for i in range(16)))
        print(source.device == "cuda " + telpher.devices()[0]["uuid"])
        try: source.view
        except BufferError as e: print("no host bytes" in str(e) or "copy_out" in str(e))
        region = a.register_pointer(source.address, 100)  # the driver is asked
        print(region.device == source.device)
        # Arrays over device memory keep it, as those over the host's.
        array = source.device_view
        print(array.__cuda_array_interface__["data"] == (source.address, False), array is source.device_view)
        from telpher import _table
        def known(address): return _table.calls.deviceAllocation(_table.PAIR.pack(address, 1)) != 0
        at = source.address
        source.close(); a.close()
        print(known(at))
        del array, source
        print(known(at))
        region.close(); target.close(); b.close()
        """
    )
    lines = done.end()[0].splitlines()
    assert lines[:2] == ["2 cuda", "True"] and lines[2].startswith("b'there' cuda"), lines
    assert lines[3:] == ["True", "1024 True", "True", "True", "True", "True True", "True", "False"], lines


def test_devices_have_torch_s_names(on_fake_gpus):
    named = on_fake_gpus(
        """
        import sys, types, telpher
        from telpher import _endpoint
        endpoint = telpher.Endpoint(transports=["shm"])
        found = [each["uuid"] for each in telpher.devices()]

        class Device:  # of torch, whose text is its name
            def __init__(self, text): self.text = text
            def __str__(self): return self.text

        def numbers(): return [found.index(endpoint.allocate(64, device=each).device.split()[1]) for each in ("cuda", 0, 1, Device("cuda:1"), Device("cuda"), found[1])]

        print(numbers())
        torch = sys.modules["torch"] = types.ModuleType("torch")
        torch.Tensor = type("Tensor", (), {})
        torch.cuda = types.SimpleNamespace(is_initialized=lambda: False, current_device=lambda: 1, current_stream=None)
        print(numbers())
        torch.cuda.is_initialized = lambda: True
        print(numbers())
        print(endpoint.allocate(64, device=Device("cpu")).device, endpoint.allocate(64, device="cpu:0").device)
        try: endpoint.allocate(64, device=7)
        except telpher.Unsupported as e: print("cuda:7" in str(e))
        torch.version = types.SimpleNamespace(hip="6.0")
        print(_endpoint._device("cuda:1"), _endpoint._device("cuda"), _endpoint._device("0000:65:00.0"))
        """
    )
    assert named.end() == ("[0, 0, 1, 1, 0, 1]\n[0, 0, 1, 1, 0, 1]\n[1, 0, 1, 1, 1, 1]\nNone None\nTrue\nhip:1 hip:1 0000:65:00.0\n", "")


def test_capsules_of_device_memory(on_fake_gpus):
    """DLPack in both of its forms, as it is defined: where the elements are, which may be written to, what keeps them."""
    lent = on_fake_gpus(
        """
        import ctypes, gc, telpher

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]

        class Old(ctypes.Structure):
            _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

        class Versioned(ctypes.Structure):
            _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]

        Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, Destructor]
        kept, out = [], [0]  # what capsules point to, and how many there are

        def back(_): out[0] -= 1

        destructor = Destructor(back)

        class Lender:  # a library's tensor
            def __init__(self, address, shape, strides=None, kind=2, bits=8, flags=0, offset=0, versioned=True):
                self.of, self.shape, self.strides = (address, kind, bits, offset), shape, strides
                self.flags, self.versioned = flags, versioned
            def __dlpack__(self, **keywords):
                if keywords and not self.versioned: raise TypeError("max_version")
                numbers = ctypes.c_int64 * len(self.shape)
                shape, strides = numbers(*self.shape), numbers(*self.strides) if self.strides else None
                address, kind, bits, offset = self.of
                tensor = Tensor(address, kind, 0, len(shape), 1, bits, 1, ctypes.addressof(shape), ctypes.addressof(strides) if strides else None, offset)
                made = Versioned((ctypes.c_uint32 * 2)(1, 0), None, None, self.flags, tensor) if keywords else Old(tensor, None, None)
                name = b"dltensor_versioned" if keywords else b"dltensor"
                kept.append((shape, strides, made, name))
                out[0] += 1
                return new(ctypes.addressof(made), name, destructor)

        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        memory = a.allocate(1024, device="cuda:0")
        memory.copy_in(bytes(range(256)) * 4)
        into, back_ = bytearray(64), bytearray(64)
        for versioned in True, False:
            # 4 x 8 elements of two bytes, every second one of a row, beginning at byte 16.
            lender = Lender(memory.address, (4, 8), (32, 2), bits=16, offset=16, versioned=versioned)
            for stream in None, "current":
                receive = ba.receive(into)
                ab.send(lender, stream=stream).wait(30)
                print(receive.wait(30), into == b"".join(bytes((16 + 64 * row + 4 * i + k) % 256 for i in range(8) for k in range(2)) for row in range(4)))
            del lender
            gc.collect()
            print("capsules", out[0])
        # A target, and one that may not be written to.
        target = Lender(memory.address, (64,))
        receive = ab.receive(target)
        ba.send(b"7" * 64).wait(30)
        receive.wait(30)
        memory.copy_out(back_)
        print(back_ == b"7" * 64)
        for refused in (Lender(memory.address, (64,), flags=1), Lender(memory.address, (64,), kind=7), Lender(memory.address, (64,), bits=4)):
            try: ab.receive(refused)
            except (BufferError, TypeError) as e: print(type(e).__name__, e)
        region = b.register(Lender(memory.address, (64,)))
        gc.collect()
        print(out[0], region.device == memory.device)
        """
    )
    out, err = lent.end()
    lines = out.splitlines()
    assert lines[:6] == ["64 True", "64 True", "capsules 0"] * 2, (out, err)
    assert lines[6] == "True" and lines[7].startswith("BufferError this Lender is read-only") and "device type 7" in lines[8] and "4 bits" in lines[9]
    assert lines[10:] == ["1 True"] and err == "", (out, err)


def test_many_are_posted_in_one_call(on_fake_gpus):
    """Small independent writes between GPUs, waited for and called back one by one."""
    done = on_fake_gpus(
        """
        import telpher
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        count = 100
        source, target = a.allocate(8 * count, device="cuda:0"), b.allocate(8 * count, device="cuda:1")
        order = [i * 37 % count for i in range(count)]
        writes = [ab.prepare_write(source[8 * i : 8 * i + 8], target.remote[8 * to : 8 * to + 8], stream=None) for i, to in enumerate(order)]
        back = bytearray(8 * count)
        for turn in range(3):
            source.copy_in(bytes((turn + i) % 256 for i in range(count) for _ in range(8)))
            telpher.post_all(writes)
            moved = [write.wait(30) for write in reversed(writes)]
            target.copy_out(back)
            print(moved == [8] * count, all(back[8 * to : 8 * to + 8] == bytes([(turn + i) % 256] * 8) for i, to in enumerate(order)))
        print(writes[0].path)
        a.close(); b.close()
        """
    )
    lines = done.end()[0].splitlines()
    assert lines[:3] == ["True True"] * 3 and lines[3].startswith("cuda"), lines


STREAMS = """
import ctypes, sys, types, telpher
a, b = telpher.Endpoint(), telpher.Endpoint()
ab, ba = a.connect(b.address), b.accept(30)
on = [a.allocate(1024, device="cuda:%d" % i) for i in range(2)]
driver = ctypes.CDLL("libcuda.so.1")  # the engine's
driver.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
driver.cuStreamWaitValue64_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint]

def check(code): assert code == 0, code

class Stream:  # of a device, in its primary context; as torch shows one
    def __init__(self, device):
        of, self._context, handle, self._word, self._stops = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), 0
        check(driver.cuDeviceGet(ctypes.byref(of), device))
        check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), of))
        self.call(driver.cuStreamCreateWithPriority, ctypes.byref(handle), 1, 0)
        self.call(driver.cuMemHostAlloc, ctypes.byref(self._word), 4096, 0)
        self.cuda_stream, self._memory = handle.value, on[device].address
    def call(self, call, *arguments):
        check(driver.cuCtxPushCurrent_v2(self._context))
        check(call(*arguments))
        check(driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())))
    def fill(self, value): self.call(driver.cuMemsetD8Async, self._memory, value, 512, self.cuda_stream)
    def stop(self):  # until it is let go
        self._stops += 1
        self.call(driver.cuStreamWaitValue64_v2, self.cuda_stream, self._word.value, self._stops, 0)
    def go(self): ctypes.c_int64.from_address(self._word.value).value = self._stops
    def synchronize(self): self.call(driver.cuStreamSynchronize, ctypes.c_void_p(self.cuda_stream))

streams = [Stream(0), Stream(1)]
asked = []  # of which devices torch was asked for its stream

def launch():  # from here on torch is there, and its current streams are these
    def current_stream(device):
        asked.append(device)
        return streams[device]
    torch = sys.modules["torch"] = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=current_stream)
"""
"""A script's first part: two endpoints, memory on two GPUs, and a stream of each, which can be stopped."""


def test_what_is_under_way_on_a_stream_comes_first(on_fake_gpus):
    """A transfer begins when the streams have got there that are current when it is posted, on the devices whose memory it uses. The call waits for none."""
    done = on_fake_gpus(
        STREAMS
        + """
class Array:  # of device 1: names no stream when it is registered
    stream = None
    @property
    def __cuda_array_interface__(self):
        return {"shape": (512,), "typestr": "|u1", "data": (on[1].address, False), "version": 3, "stream": self.stream}

array = Array()
region = a.register(array)
prepared = ab.prepare_send(region)
into = bytearray(512)

def arrives(value, send):
    receive = ba.receive(into)
    streams[1].stop()
    streams[1].fill(value)
    sent = send()
    pending = not sent.done()
    streams[1].go()
    sent.wait(30)
    receive.wait(30)
    return pending and into == bytes([value]) * 512

array.stream = streams[1].cuda_stream
print(arrives(1, lambda: ab.send(array)), arrives(2, lambda: ab.send(region)), arrives(3, prepared.post))
print(arrives(4, lambda: ab.send(region, priority="high")), arrives(5, lambda: (telpher.post_all([prepared]), prepared)[1]))
array.stream = None

# torch's current stream of each device that is used, in whichever is torch's current device
launch()
print(arrives(6, lambda: ab.send(region)), arrives(7, prepared.post), asked)
asked.clear()
both = bytearray(1024)
receive = ba.receive(both)
for stream, value in zip(streams, (8, 9)):
    stream.stop()
    stream.fill(value)
sent = ab.send([on[0][:512], on[1][:512]])
streams[1].go(); streams[1].synchronize()
pending = not sent.done()
streams[0].go()
print(pending, sent.wait(30), receive.wait(30), both == bytes([8]) * 512 + bytes([9]) * 512, sorted(asked))

# Each way of posting, one range and one call.
there = b.allocate(512, device="cuda:0")
back = bytearray(512)
prepared = ab.prepare_write(region, there.remote)
for value, post in enumerate((
    lambda: ab.write(region, there.remote), lambda: ab.write(region, there.remote, notification=b"there"), prepared.post,
)):
    streams[1].stop()
    streams[1].fill(value)
    write = post()
    print(write.done(), end=" ")
    streams[1].go()
    write.wait(30)
    there.copy_out(back)
    print(back == bytes([value]) * 512)
streams[1].stop()
read = ab.read(region, there.remote)
print(read.done(), end=" ")
streams[1].fill(11)
streams[1].go()
streams[1].synchronize()
print(read.wait(30))
print(prepared.run(30))  # the stream is idle
"""
    )
    assert done.end()[0].splitlines() == [
        "True True True", "True True", "True True [1, 1]", "True 1024 1024 True [0, 1]", *["False True"] * 3, "False 512", "512",
    ]


def test_no_stream_waits_for_a_peer_by_default(on_fake_gpus):
    """A receive that nobody sends to keeps nobody; messages keep their order; a list is posted in parts that wait, and do not wait."""
    done = on_fake_gpus(
        STREAMS
        + """
launch()
mine = streams[1]
mine.stop()
receive = ab.receive(on[1][:512])
mine.fill(3)
mine.go()
mine.synchronize()
print(receive.done())
ba.send(bytes([5]) * 512).wait(30)
print(receive.wait(30))

# What is posted later with the same tag comes later, of the host's memory too; other tags do not wait.
first, second, other = bytearray(512), bytearray(3), bytearray(5)
receives = [ba.receive(first), ba.receive(second), ba.receive(other, tag=1)]
mine.stop()
mine.fill(7)
sends = [ab.send(on[1][:512]), ab.send(b"two"), ab.send(b"other", tag=1)]
print(receives[2].wait(30), sends[0].done(), receives[1].done())
mine.go()
print([receive.wait(30) for receive in receives], first == bytes([7]) * 512, second, other)

there = b.allocate(1024, device="cuda:0")
waiting = [ab.prepare_write(on[1][:8], there.remote[8 * i : 8 * i + 8]) for i in range(2)]
ready = [ab.prepare_write(on[1][:8], there.remote[512 + 8 * i : 512 + 8 * i + 8], stream=None) for i in range(2)]
mine.stop()
telpher.post_all([waiting[0], ready[0], ready[1], waiting[1]])
print([write.wait(30) for write in ready], [write.done() for write in waiting])
mine.go()
print([write.wait(30) for write in waiting])

# Ends before the stream gets there.
mine.stop()
write = ab.write(on[1], there.remote, deadline=0.05)
try: write.wait(30)
except telpher.TimedOut as e: print(write.state)
cancelled = ab.write(on[1], there.remote)
print(cancelled.cancel(), cancelled.done(), cancelled.state)
mine.go()
print(ab.write(on[1], there.remote).wait(30))

# One that records a graph fails its transfer, and goes on recording.
streams[0].call(driver.cuStreamBeginCapture_v2, ctypes.c_void_p(streams[0].cuda_stream), 0)
try: ab.write(on[0], there.remote).wait(30)
except telpher.Unsupported as e: print("records a graph" in str(e))
print(ab.write(on[0], there.remote, stream=None).wait(30))
mine.stop()
last = ab.write(on[1], there.remote)  # the end of its connection ends it
ab.close()
print(last.state if last.done() else "pending")
mine.go()
mine.synchronize()
a.close(); b.close()
"""
    )
    assert done.end()[0].splitlines() == [
        "False", "512", "5 False False", "[512, 3, 5] True bytearray(b'two') bytearray(b'other')",
        "[8, 8] [False, False]", "[8, 8]", "timed_out", "True True cancelled", "1024", "True", "1024", "failed",
    ]


def test_transfers_in_the_order_of_a_stream(on_fake_gpus):
    """No host waits: a transfer begins when its stream gets there, and what is put into the stream afterwards waits for its end."""
    done = on_fake_gpus(
        """
        import ctypes, telpher
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        here, there = a.allocate(4096, device="cuda:1"), b.allocate(4096, device="cuda:0")
        driver = ctypes.CDLL("libcuda.so.1")  # the engine's
        driver.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]

        def check(code): assert code == 0, code

        class Stream:  # as torch shows one
            def __init__(self, device):
                of, self._context, handle = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
                check(driver.cuDeviceGet(ctypes.byref(of), device))
                check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), of))
                self._call(driver.cuStreamCreateWithPriority, ctypes.byref(handle), 1, 0)
                self.cuda_stream, self.device = handle.value, type("device", (), {"index": device})
            def _call(self, call, *arguments):
                check(driver.cuCtxPushCurrent_v2(self._context))
                check(call(*arguments))
                check(driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())))
            def fill(self, region, value): self._call(driver.cuMemsetD8Async, region.address, value, 4096, self.cuda_stream)
            def late(self, microseconds, *fill):  # takes so long for it
                driver.fakeCudaSetDelay(microseconds)
                self.fill(*fill)
                driver.fakeCudaSetDelay(0)

        def holds(region, value):
            back = bytearray(4096)
            region.copy_out(back)
            return back == bytes([value]) * 4096

        mine, theirs = Stream(1), Stream(0)
        ab.write(here, there.remote, stream=None).wait(30)  # what opens memory may wait for whole devices
        mine.late(300_000, here, 1)
        write = ab.write(here, there.remote, notification=b"there", stream=mine)
        mine.fill(here, 2)
        print(write.done(), write.wait(30), ba.wait_notification(30), holds(there, 1))

        # By number, and prepared; host memory and notifications too, where the stream says its device.
        mine.late(100_000, here, 3)
        prepared = ab.prepare_write(here, there.remote, stream=mine.cuda_stream)
        prepared.post()
        note = ab.notify(b"after", stream=mine)
        mine.late(100_000, here, 4)
        print(prepared.wait(30), note.wait(30), ba.wait_notification(30), holds(there, 3))
        print(prepared.run(30), holds(there, 4))
        host = a.register(bytearray(b"x" * 4096))
        mine.late(200_000, here, 5)
        write = ab.write(host, there.remote, stream=mine)
        print(write.done(), write.wait(30), holds(there, ord("x")))

        # What a stream does behind a receive finds the message.
        into = a.allocate(4096, device="cuda:1")
        receive = ab.receive(into, stream=mine)
        onward = ab.write(into, there.remote, notification=b"onward", stream=mine)
        print(receive.done(), onward.done())
        ba.send(bytes([6]) * 4096).wait(30)
        print(ba.wait_notification(30), holds(there, 6))

        # One that is none fails its transfer alone.
        try: print(ab.write(here, there.remote, stream=12345).wait(30))
        except telpher.NativeFailure as e: print(e.call, e.arguments, e.errno)
        try: ab.write(here, there.remote, stream=type("S", (), {"ptr": 5, "device_id": 7})())
        except ValueError as e: print(e)
        print(ab.write(here, there.remote, stream=mine).wait(30))
        receive = ab.receive(into, stream=mine)  # nobody sends: the end of its endpoint lets the stream go on
        a.close(); b.close()
        print(receive.done(), receive.state)
        mine._call(driver.cuStreamSynchronize, ctypes.c_void_p(mine.cuda_stream))
        """
    )
    assert done.end()[0].splitlines() == [
        "False 4096 b'there' True", "4096 0 b'after' True", "4096 True", "False 4096 True", "False False", "b'onward' True",
        "cuStreamIsCapturing ['12345'] 400", "the stream is of device 7, and this process sees 2", "4096", "True failed",
    ]


def test_one_range_of_a_gpu_is_one_foreign_call(on_fake_gpus):
    """By default too, where it begins after what is current."""
    done = on_fake_gpus(
        """
        import telpher
        from telpher._table import calls
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        source, target = a.allocate(64, device="cuda:0"), b.allocate(64, device="cuda:1")
        source.copy_in(bytes(range(64)))
        made = []

        def counting(name, call):
            return lambda argument: (made.append(name), call(argument))[1]

        for name in list(vars(calls)):
            setattr(calls, name, counting(name, getattr(calls, name)))
        for launching in False, True:  # there are no streams; there are, which have nothing left to do
            if launching:
                import sys, types
                torch = sys.modules["torch"] = types.ModuleType("torch")
                torch.Tensor = type("Tensor", (), {})
                torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device: types.SimpleNamespace(cuda_stream=0))
            for of in source, source[8:16]:
                for do in lambda: ab.write(of, target.remote[: of.nbytes]), lambda: ab.read(of, target.remote[: of.nbytes]):
                    made.clear()
                    transfer = do()
                    print(*[name for name in made if name != "release"])
                    transfer.wait(30)
            receive, send = ba.receive(target), ab.send(source)
            print(send.wait(30), receive.wait(30), {"send", "receive"} <= set(made) and "transfer" not in made)
        """
    )
    assert done.end()[0].splitlines() == (["write", "read"] * 2 + ["64 64 True"]) * 2


def test_the_stand_in_for_uccl_follows_the_memory(on_fake_gpus):
    """Endpoint() is of the GPU whose memory is registered first; memory that a GPU gave out again at the same address is registered anew."""
    done = on_fake_gpus(
        """
        import ctypes, telpher
        from telpher.compat.uccl import _addresses, p2p
        found = [each["pci_address"] for each in telpher.devices()]
        driver = ctypes.CDLL("libcuda.so.1")  # the engine's

        def on(device, call, *arguments):
            of, context = ctypes.c_int(), ctypes.c_void_p()
            for code in (driver.cuDeviceGet(ctypes.byref(of), device), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), of),
                         driver.cuCtxPushCurrent_v2(context), call(*arguments), driver.cuCtxPopCurrent_v2(ctypes.byref(context))):
                assert code == 0, code

        def allocate():
            at = ctypes.c_uint64()
            on(1, driver.cuMemAlloc_v2, ctypes.byref(at), ctypes.c_size_t(1 << 21))
            return at.value

        def told(endpoint): return found.index(p2p.Endpoint.parse_metadata(endpoint.get_metadata())[2])

        telpher.Endpoint().allocate(64, device="cuda:1")  # the driver is there
        first = allocate()
        lazy, fixed = p2p.Endpoint(), p2p.Endpoint(0)
        before = told(lazy)
        for endpoint in lazy, fixed:
            ok, _ = endpoint.reg(first, 4096)
        print(before, told(lazy), told(fixed), [each["gpu"] for each in _addresses.Records.all()])
        number = lazy.connect_local(0)[1]  # to the other one, which is told who this is
        print(number > 0, fixed.accept_local()[1] == found[1])
        host = p2p.Endpoint()
        host.reg(ctypes.addressof(ctypes.create_string_buffer(64)), 64)
        host.reg(first, 4096)
        print(told(host))

        lent = lambda: [region.discard() for region in fixed._memory.by_pointer(first, 64)[1]]
        shared, (_, blob) = fixed.reg(first, 64)[0], fixed.advertise_ipc(1, first + 8192, 4096)
        print(shared, fixed.advertise_ipc(1, first + 8192, 4096)[1] == blob, lent())
        on(1, driver.cuMemFree_v2, ctypes.c_uint64(first))
        print(fixed.reg(first, 64), fixed.advertise_ipc(1, first + 8192, 4096))
        again = allocate()
        print(again == first, lent(), fixed.advertise_ipc(1, again + 8192, 4096)[1] not in (blob, b""), fixed.reg(again, 64)[0], lent())
        """
    )
    out, err = done.end()
    assert out.splitlines() == [
        "0 1 0 [1, 0]", "True True", "0", "True True []", "(False, 0) (False, b'')", "True [None] True True []",
    ], out + err
    assert err.count("has been freed since") == 2, err
