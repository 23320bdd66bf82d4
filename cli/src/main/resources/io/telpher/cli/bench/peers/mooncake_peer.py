"""Mooncake's transfer engine, by its Python package, over TCP, and between GPUs of one host."""

import importlib.metadata
import os

import pair

# The first moves host memory only, the others memory of GPUs too, each for one version of CUDA.
PACKAGES = ("mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine-cuda13", "mooncake-transfer-engine")
TUNED = {
    "MC_TCP_ENABLE_CONNECTION_POOL": "1",
    "MC_TCP_SLICE_SIZE": str(1 << 20),
    "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER": "65535",
    "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER": "65535",
}
LIBRARIES = "Debian: libcurl4 libjsoncpp25 libibverbs1 liburing2 libnuma1"


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Mooncake(pair.Adapter):
    def __init__(self, options, role):
        gpu = any(pair.on_gpu(kind) for kind in pair.kinds(options))
        if options.transport != "tcp" and not gpu:
            raise pair.Skip("Mooncake has no shared memory for host memory; compare it over tcp")
        protocol = "tcp" if options.transport == "tcp" else "nvlink_intra"
        if protocol == "nvlink_intra":
            os.environ["MC_INTRANODE_NVLINK"] = "1"  # without it tcp is what it takes, silently
        if options.op not in pair.ONE_SIDED:
            raise pair.Skip(f"Mooncake has no {options.op} without a transfer")
        os.environ.setdefault("MC_LOG_LEVEL", "WARNING")
        self.words = []
        if options.settings == "tuned":
            os.environ.update(TUNED)
            self.words = [f"{k}={v}" for k, v in TUNED.items()] + ["cores " + (options.cores or "free")]
        try:
            from mooncake.engine import TransferEngine
        except ImportError as error:
            raise pair.Skip(f"the package {PACKAGES[0]} cannot be loaded: {error} ({LIBRARIES})") from error
        self.version = next(filter(None, map(version, PACKAGES)), "unknown")
        self.path = protocol
        self.engine = TransferEngine()
        if options.probe:
            return
        # The last argument would name RDMA devices.
        if self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", protocol, "") != 0:
            raise pair.Failed(f"Mooncake cannot be initialized for {protocol} on 127.0.0.1")

    def register(self, address, size):
        code = self.engine.register_memory(address, size)
        if code != 0:
            raise pair.Failed(f"Mooncake cannot register {size} bytes: {code}")

    def meta(self):
        return f"127.0.0.1:{self.engine.get_rpc_port()}"

    def connect(self, meta):
        self.remote = meta

    def operation(self, op, near, far, size):
        return Transfer(self.engine, self.remote, op, [near], [far], [size])

    def batch(self, op, near, far, size, depth):
        return Transfer(self.engine, self.remote, op, [near] * depth, [far] * depth, [size] * depth)


    def vector(self, op, near, far, size):
        return Transfer(self.engine, self.remote, op, near, far, [size] * len(near))


class Transfer(pair.Operation):
    def __init__(self, engine, remote, op, near, far, sizes):
        self.submit = engine.batch_transfer_async_write if op == "write" else engine.batch_transfer_async_read
        self.check = engine.transfer_check_status
        self.many = (remote, near, far, sizes)
        if len(near) == 1:
            self.call = engine.transfer_sync_write if op == "write" else engine.transfer_sync_read
            self.one = (remote, near[0], far[0], sizes[0])
        else:
            self.call = engine.batch_transfer_sync_write if op == "write" else engine.batch_transfer_sync_read
            self.one = self.many

    def run(self):
        code = self.call(*self.one)
        if code != 0:
            raise pair.Failed(f"Mooncake's transfer ended with {code}")

    def start(self):
        self.token = self.submit(*self.many)
        if self.token == 0:
            raise pair.Failed("Mooncake took no transfer")

    def finish(self):
        check, token = self.check, self.token
        while (state := check(token)) != 1:
            if state < 0:
                raise pair.Failed(f"Mooncake's transfer ended with status {state}")


if __name__ == "__main__":
    pair.main("mooncake", Mooncake)
