"""Memory of GPUs: on the fake driver that the engine's tests build, with objects that stand in for a framework's."""

import os

import pytest
import telpher
from conftest import PACKAGE
from telpher import _memory


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


def test_a_stream_that_is_given_is_waited_for():
    waited = []

    class Stream:
        def synchronize(self):
            waited.append(self)

    _memory.order(Stream(), {0: []})
    _memory.order(None, {0: []})
    _memory.order("current", {0: [object()]})
    assert len(waited) == 1
    for wrong in ("mine", 1.5, True):
        with pytest.raises(TypeError, match="stream="):
            _memory.order(wrong, {0: []})


@pytest.fixture
def on_fake_gpus(script):
    """Starts a script in a process with two fake GPUs."""
    folder = os.environ.get("FAKE_GPU_FOLDER") or os.path.join(PACKAGE, "..", "engine", "target", "fake-gpu")
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        pytest.skip("no fake GPU: the engine's tests build it (./telpher test -pl engine -Dtest=CudaAbiTest)")
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
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        source, target = a.allocate(4096, device="cuda:0"), b.allocate(4096, device="cuda:1")
        source.copy_in(bytes(range(256)) * 16)
        waited = []

        class Tensor:  # what a framework shows of its memory: here, the second half of the region's
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
        print(source.device == "cuda " + telpher.devices()[0]["uuid"])
        try: source.view
        except BufferError as e: print("no host bytes" in str(e) or "copy_out" in str(e))
        region = a.register_pointer(source.address, 100)  # the driver is asked
        print(region.device == source.device)
        # Arrays over device memory are tracked as those over the host's.
        array = source.device_view
        print(array.__cuda_array_interface__["data"] == (source.address, False), array is source.device_view)
        for close in (source.close, a.close):
            try: close(); print("closed")
            except BufferError as e: print("alive" in str(e))
        del array
        region.close(); source.close(); target.close(); a.close(); b.close()
        """
    )
    lines = done.end()[0].splitlines()
    assert lines[0] == "2 cuda" and lines[1].startswith("b'there' cuda"), lines
    assert lines[2:] == ["True", "1024 True [1]", "True", "True", "True", "True True", "True", "True"], lines


def test_what_is_under_way_on_a_stream_comes_first(on_fake_gpus):
    """The streams that are current when a transfer is posted are waited for, on the devices whose memory it uses."""
    done = on_fake_gpus(
        """
        import ctypes, sys, types, telpher
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address), b.accept(30)
        on = [a.allocate(1024, device="cuda:%d" % i) for i in range(2)]
        driver = ctypes.CDLL("libcuda.so.1")  # the engine's
        driver.cuMemsetD8Async.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]

        def check(code): assert code == 0, code

        def in_context(device, call, *arguments):
            of, context = ctypes.c_int(), ctypes.c_void_p()
            check(driver.cuDeviceGet(ctypes.byref(of), device))
            check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), of))
            check(driver.cuCtxPushCurrent_v2(context))
            check(call(*arguments))
            check(driver.cuCtxPopCurrent_v2(ctypes.byref(context)))

        streams = [ctypes.c_void_p() for _ in range(2)]
        for i in range(2): in_context(i, driver.cuStreamCreateWithPriority, ctypes.byref(streams[i]), 1, 0)

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
            driver.fakeCudaSetDelay(300_000)  # microseconds from here on, for each piece of work
            in_context(1, driver.cuMemsetD8Async, on[1].address, value, 512, streams[1])
            send()
            driver.fakeCudaSetDelay(0)
            receive.wait(30)
            return into == bytes([value]) * 512

        array.stream = streams[1].value
        print(arrives(1, lambda: ab.send(array)), arrives(2, lambda: ab.send(region)), arrives(3, prepared.post),
              arrives(4, lambda: ab.send(on[1][:512], stream=streams[1].value)))
        array.stream = None

        # torch's current stream of each device that is used, in whichever is torch's current device
        asked = []
        class Current:
            def __init__(self, device): asked.append(device); self.device = device
            def synchronize(self): in_context(self.device, driver.cuStreamSynchronize, streams[self.device])
        torch = sys.modules["torch"] = types.ModuleType("torch")
        torch.Tensor = type("Tensor", (), {})
        torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device=0: Current(device))
        print(arrives(5, lambda: ab.send(region)), asked)
        asked.clear()
        host = ba.receive(bytearray(1024))
        ab.send([on[0][:512], on[1][:512]]).wait(30); host.wait(30)
        print(sorted(asked))
        try: ab.send(region, stream=12345)
        except RuntimeError as e: print("stream 12345 of device 1" in str(e))
        """
    )
    assert done.end()[0].splitlines() == ["True True True True", "True [1]", "[0, 1]", "True"]
