"""NCCL, by torch.distributed: send and recv between two GPUs, each timed until the stream is done."""

import os
import socket
import time

import pair

SOCKETS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
BACKENDS = {
    "": {},
    "sockets": SOCKETS,
    "sockets 4x4": SOCKETS | {"NCCL_NSOCKS_PERTHREAD": "4", "NCCL_SOCKET_NTHREADS": "4"},
}


class Nccl(pair.Adapter):
    two_sided = True

    def __init__(self, options, role):
        if options.op == "send" and options.pieces > 1 and options.depth == 1:
            raise pair.Skip("many pieces are compared one way only, as a write")
        if options.op == "notify":
            raise pair.Skip("NCCL has no notifications")
        if not options.probe and not all(map(pair.on_gpu, pair.kinds(options))):
            raise pair.Skip("NCCL moves memory of GPUs only")
        settings = BACKENDS[options.backend]
        os.environ.update(settings)
        try:
            import torch
            import torch.distributed
        except ImportError as error:
            raise pair.Skip(f"the python3 on the PATH has no torch: {error}") from error
        if not torch.cuda.is_available():
            raise pair.Skip(f"torch {torch.__version__} finds no GPU")
        if torch.cuda.device_count() < 2:
            raise pair.Skip("NCCL needs two GPUs, and there is one")
        if not torch.distributed.is_nccl_available():
            raise pair.Skip(f"torch {torch.__version__} was built without NCCL")
        self.torch, self.dist = torch, torch.distributed
        self.version = ".".join(map(str, torch.cuda.nccl.version()))
        self.path = "sockets" if settings else "as it chooses"
        self.words = [f"torch {torch.__version__}", *(f"{k}={v}" for k, v in settings.items())]
        self.rank = 0 if role == "initiator" else 1
        self.sends = (options.op == "read") == (self.rank == 1)
        self.pieces = options.pieces

    def register(self, address, size):
        self.device = self.torch.device("cuda", self.memory.gpu)
        self.torch.cuda.set_device(self.device)
        self.tensor = self.torch.as_tensor(Raw(address, size), device=self.device)
        if self.tensor.data_ptr() != address:
            raise pair.Failed("torch copied the memory that it was to use")

    def meta(self):
        """Where the initiator's store will be."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        return self.port

    def connect(self, meta):
        port = self.port if self.rank == 0 else meta
        self.dist.init_process_group(
            "nccl",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=self.rank,
            world_size=2,
            device_id=self.device,
        )
        self.many = self.operations() if self.pieces > 1 else []

    def operations(self):
        """One for each piece."""
        length = self.tensor.numel() // self.pieces
        order = range(self.pieces) if self.sends else (pair.place(i, self.pieces) for i in range(self.pieces))
        call = self.dist.isend if self.sends else self.dist.irecv
        parts = (self.tensor[i * length : (i + 1) * length] for i in order)
        return [self.dist.P2POp(call, part, 1 - self.rank) for part in parts]

    def flow(self, rounds, depth, pong):
        clock, synchronize, one = time.perf_counter_ns, self.torch.cuda.synchronize, self.one
        synchronize()
        times = []
        for _ in range(rounds):
            start = clock()
            for _ in range(depth):
                one(self.sends)
            if pong:
                one(not self.sends)
            synchronize()
            times.append(clock() - start)
        return times

    def one(self, sends):
        other = 1 - self.rank
        if self.pieces == 1:
            if sends:
                self.dist.send(self.tensor, other)
            else:
                self.dist.recv(self.tensor, other)
            return
        for work in self.dist.batch_isend_irecv(self.many):
            work.wait()


class Raw:
    """Memory that torch is to use as it is."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


if __name__ == "__main__":
    pair.main("nccl", Nccl)
