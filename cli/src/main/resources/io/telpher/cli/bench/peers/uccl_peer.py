"""UCCL's P2P engine, by its Python package, over RDMA: its other transports move GPU memory only."""

import base64
import ctypes
import importlib.metadata
import os
import pathlib
import sys

import pair

GPUS = ("/dev/nvidiactl", "/dev/kfd")
RDMA = pathlib.Path("/sys/class/infiniband")
CUDA = "libcudart.so.12"


class Uccl(pair.Adapter):
    def __init__(self, options, role):
        if options.op not in pair.ONE_SIDED:
            raise pair.Skip(f"UCCL's Python package has no {options.op}")
        # Each of these would end the process from within the library, without a word that a caller can catch.
        if not any(map(os.path.exists, GPUS)):
            raise pair.Skip("UCCL 0.1.1 aborts without a GPU, and there is none")
        if not RDMA.is_dir() or not any(RDMA.iterdir()):
            raise pair.Skip("UCCL moves host memory by RDMA only, and there is no RDMA device")
        if options.transport == "tcp" and not options.probe:
            raise pair.Skip("UCCL's tcp moves GPU memory only; with host memory compare it on one of the shm paths")
        try:
            # The package's own, else the system's; uccl finds it when it is loaded already.
            runtime = pathlib.Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/cuda_runtime/lib/{CUDA}")
            ctypes.CDLL(next(map(str, runtime), CUDA), mode=ctypes.RTLD_GLOBAL)
            from uccl import p2p
        except (ImportError, OSError) as error:
            raise pair.Skip(f"the package uccl cannot be loaded: {error}") from error
        self.version = importlib.metadata.version("uccl")
        self.path = "rdma"
        self.words = ["RDMA within the host"]
        if options.settings == "tuned":
            self.words.append("cores " + (options.cores or "free"))
        if options.probe:
            return
        self.target = role == "target"
        self.endpoint = p2p.Endpoint(0)

    def register(self, address, size):
        self.region = good(self.endpoint.reg(address, size), "reg")

    def meta(self):
        return base64.b64encode(bytes(self.endpoint.get_metadata())).decode()

    def connect(self, meta):
        if self.target:
            self.connection = good(self.endpoint.accept(), "accept")
        else:
            host, port, gpu = type(self.endpoint).parse_metadata(base64.b64decode(meta))
            self.connection = good(self.endpoint.connect(host, gpu, remote_port=port), "connect")

    def invitation(self, address, size):
        blob = good(self.endpoint.advertise(self.connection, self.region, address, size), "advertise")
        return base64.b64encode(bytes(blob)).decode()

    def operation(self, op, near, far, size):
        return Transfer(self, op, near, size)


class Transfer(pair.Operation):
    def __init__(self, uccl, op, near, size):
        endpoint = uccl.endpoint
        self.call = endpoint.write_async if op == "write" else endpoint.read_async
        self.poll = endpoint.poll_async
        self.arguments = (uccl.connection, uccl.region, near, size, base64.b64decode(uccl.invite))

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
