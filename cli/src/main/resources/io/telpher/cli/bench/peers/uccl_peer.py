"""UCCL's P2P engine, by its Python package: host memory over RDMA, memory of GPUs of one host by CUDA IPC.

Its tcp says that bytes have arrived before they have, so nothing is timed over it.
"""

import base64
import ctypes
import importlib.metadata
import os
import pathlib
import sys
import time

import pair

GPUS = ("/dev/nvidiactl", "/dev/kfd")
RDMA = pathlib.Path("/sys/class/infiniband")
CUDA = "libcudart.so.12"


def packaged(folder, name):
    """A library of one of NVIDIA's packages, wherever packages are looked for; else its bare name, which is the system's."""
    found = (pathlib.Path(path) / "nvidia" / folder / "lib" / name for path in sys.path)
    return next((str(file) for file in found if file.exists()), name)


class Uccl(pair.Adapter):
    def __init__(self, options, role):
        if options.op not in pair.ONE_SIDED:
            raise pair.Skip(f"UCCL's Python package has no {options.op}")
        self.gpu = any(map(pair.on_gpu, pair.kinds(options)))
        # Each of these would end the process from within the library, without a word that a caller can catch.
        if not any(map(os.path.exists, GPUS)):
            raise pair.Skip("UCCL 0.1.1 aborts without a GPU, and there is none")
        if self.gpu:
            os.environ["UCCL_P2P_TRANSPORT"] = "tcp"  # the other one aborts without an RDMA device; CUDA IPC needs neither
            os.environ.setdefault("UCCL_NCCL_SO", packaged("nccl", "libnccl.so.2"))
        try:
            ctypes.CDLL(packaged("cuda_runtime", CUDA), mode=ctypes.RTLD_GLOBAL)  # uccl finds it when it is loaded already
            from uccl import p2p
        except (ImportError, OSError) as error:
            raise pair.Skip(f"the package uccl cannot be loaded: {error} (package nvidia-cuda-runtime-cu12)") from error
        self.version = importlib.metadata.version("uccl")
        if options.probe:
            return
        if options.transport == "tcp":
            raise pair.Skip("UCCL's tcp says done before the bytes are there; compare it on one of the shm paths")
        far = options.source if options.op == "read" else options.into
        if self.gpu and not pair.on_gpu(far):
            raise pair.Skip("UCCL's CUDA IPC reaches memory of GPUs only, not the host's of another process")
        if not self.gpu and (not RDMA.is_dir() or not any(RDMA.iterdir())):
            raise pair.Skip("UCCL moves host memory by RDMA only, and there is no RDMA device")
        self.path = "ipc" if self.gpu else "rdma"
        self.words = ["CUDA IPC" if self.gpu else "RDMA within the host"]
        if options.settings == "tuned":
            self.words.append("cores " + (options.cores or "free"))
        self.target = role == "target"
        self.pieces = options.pieces
        self.p2p = p2p

    def register(self, address, size):
        self.endpoint = self.p2p.Endpoint(self.memory.gpu if self.gpu else 0)
        self.region = None if self.gpu else good(self.endpoint.reg(address, size), "reg")

    def meta(self):
        return base64.b64encode(bytes(self.endpoint.get_metadata())).decode()

    def connect(self, meta):
        endpoint = self.endpoint
        if self.target:
            self.connection = good(endpoint.accept_local() if self.gpu else endpoint.accept(), "accept")
            return
        host, port, gpu = type(endpoint).parse_metadata(base64.b64decode(meta))
        if self.gpu:
            time.sleep(0.5)  # connect_local finds only who has begun to accept
            self.connection = good(endpoint.connect_local(gpu), "connect_local")
        else:
            self.connection = good(endpoint.connect(host, gpu, remote_port=port), "connect")

    def invitation(self, address, size):
        """The descriptor of each piece."""
        piece = size // self.pieces
        return [self.advertise(address + at * piece, piece) for at in range(self.pieces)]

    def advertise(self, address, size):
        if self.gpu:
            blob = good(self.endpoint.advertise_ipc(self.connection, address, size), "advertise_ipc")
        else:
            blob = good(self.endpoint.advertise(self.connection, self.region, address, size), "advertise")
        return base64.b64encode(bytes(blob)).decode()

    def operation(self, op, near, far, size):
        blob = base64.b64decode(self.invite[0])
        if self.gpu:
            return Transfer(self, op + "_ipc_async", (self.connection, near, size, blob))
        return Transfer(self, op + "_async", (self.connection, self.region, near, size, blob))

    def vector(self, op, near, far, size):
        blobs = [base64.b64decode(self.invite[(address - min(far)) // size]) for address in far]
        count = len(near)
        if self.gpu:
            return Transfer(self, op + "v_ipc_async", (self.connection, near, [size] * count, blobs))
        return Transfer(self, op + "v_async", (self.connection, [self.region] * count, near, [size] * count, blobs, count))


class Transfer(pair.Operation):
    def __init__(self, uccl, call, arguments):
        self.call = getattr(uccl.endpoint, call)
        self.poll = uccl.endpoint.poll_async
        self.arguments = arguments

    def start(self):
        self.token = good(self.call(*self.arguments), "a transfer")

    def finish(self):
        poll, token = self.poll, self.token
        while not good(poll(token), "poll"):
            pass


def good(answer, what):
    """Its functions give success first, and the value last."""
    if not answer[0]:
        raise pair.Failed(f"UCCL says no to {what}")
    return answer[-1]


if __name__ == "__main__":
    pair.main("uccl", Uccl)
