"""NIXL, by its Python package: writes, reads, notifications, and writes that notify (its way to send)."""

import base64
import importlib
import importlib.metadata
import os

import pair

FREE = {"shm": "", "tcp": "tcp,self"}
GPU = {"shm": "", "tcp": "tcp,cuda_copy,self"}
TUNED = {"shm": "posix,cma,self", "tcp": "tcp,self"}
END = b"end"
PACKAGES = ("nixl-cu13", "nixl-cu12")  # for the two versions of CUDA; without a GPU either


def package():
    """The classes of whichever package is there, and its version."""
    failures = []
    for name in PACKAGES:
        try:
            api = importlib.import_module(name.replace("-", "_") + "._api")
            return api.nixl_agent, api.nixl_agent_config, importlib.metadata.version(name)
        except ImportError as error:
            failures.append(f"{name}: {error}")
    raise pair.Skip("the package cannot be loaded: " + "; ".join(failures))


class Nixl(pair.Adapter):
    def __init__(self, options, role):
        backend = options.backend or "UCX"
        tuned = options.settings == "tuned"
        near, far = pair.kinds(options)
        self.types = tuple("VRAM" if pair.on_gpu(kind) else "DRAM" for kind in (near, far))
        gpu = "VRAM" in self.types
        layers = (GPU if gpu else TUNED if tuned else FREE)[options.transport]
        if options.probe:
            layers = ""  # a build for CUDA on a machine with GPUs refuses to start without their transports
        elif options.transport == "tcp":
            os.environ["UCX_NET_DEVICES"] = "lo"
        if layers:
            os.environ["UCX_TLS"] = layers
        os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
        if gpu and tuned:
            os.environ["NIXL_UCX_SGL_ENABLE"] = "y"  # many pieces as one list
        nixl_agent, nixl_agent_config, self.version = package()
        self.path = "ucx " + (layers or "as it chooses") if backend == "UCX" else backend.lower()
        self.words = ["UCX_TLS=" + layers if layers else "UCX_TLS unset"]
        # Without a thread of its own the initiator makes progress when it asks for the state. The target needs
        # one: nobody asks there.
        thread = not tuned or role == "target"
        if tuned:
            self.words += ["no progress thread at the initiator", "cores " + (options.cores or "free")]
        self.agent = nixl_agent(
            f"{role}-{os.getpid()}", nixl_agent_config(backends=[], enable_prog_thread=thread)
        )
        if backend not in self.agent.get_plugin_list():
            raise pair.Skip(f"NIXL {self.version} from PyPI brings no {backend} back end")
        settings = {}
        if tuned and options.transport == "shm" and not gpu:
            # With its error handling UCX does not use mapped memory between processes.
            settings["ucx_error_handling_mode"] = "none"
            self.words.append("ucx_error_handling_mode=none")
        self.agent.create_backend(backend, settings)
        self.inbox = []

    def register(self, address, size):
        self.gpu = getattr(self.memory, "gpu", 0)
        self.agent.register_memory([(address, size, self.gpu if self.types[0] == "VRAM" else 0, "")], self.types[0])

    def meta(self):
        return f"{self.gpu} {base64.b64encode(self.agent.get_agent_metadata()).decode()}"

    def connect(self, meta):
        gpu, agent = meta.split()
        self.far_gpu = int(gpu)
        remote = self.agent.add_remote_agent(base64.b64decode(agent))
        self.remote = remote.decode() if isinstance(remote, bytes) else remote

    def operation(self, op, near, far, size):
        return Transfer(self, op, [near], [far], size)

    def batch(self, op, near, far, size, depth):
        return Transfer(self, op, [near] * depth, [far] * depth, size)

    def vector(self, op, near, far, size):
        return Transfer(self, op, near, far, size)

    # ---- messages

    def message(self, op, near, far, size):
        return Transfer(self, "write", [near], [far], size, b"m") if op == "send" else Notify(self, size)

    def take(self):
        """Waits for the next notification."""
        while not self.inbox:
            for messages in self.agent.get_new_notifs().values():
                self.inbox += messages
        return self.inbox.pop()

    def ping(self, op, near, far, size):
        self.pong(op, near, far, size)
        if len(self.take()) != (size if op == "notify" else 1):
            raise pair.Failed("a notification came back with another length")

    def pong(self, op, near, far, size):
        if not hasattr(self, "sender"):
            self.sender = self.message(op, near, far, size)
        self.sender.run()

    def echo(self, op, near, far, size):
        # What came back must be what was sent: the target writes from where the initiator wrote to.
        while self.take() != END:
            self.pong(op, near, far, size)

    def send_end(self):
        self.agent.send_notif(self.remote, END)

    def progress(self):
        self.agent.get_new_notifs()

    def drain(self):
        count = 0
        while True:
            for messages in self.agent.get_new_notifs().values():
                for message in messages:
                    if message == END:
                        return count
                    count += 1


class Transfer(pair.Operation):
    """A prepared one, of one or many pieces."""

    def __init__(self, nixl, op, near, far, size, tell=b""):
        agent = nixl.agent
        here, there = nixl.types
        gpu, far_gpu = nixl.gpu if here == "VRAM" else 0, nixl.far_gpu if there == "VRAM" else 0
        local = agent.get_xfer_descs([(address, size, gpu) for address in near], here)
        remote = agent.get_xfer_descs([(address, size, far_gpu) for address in far], there)
        self.handle = agent.initialize_xfer(op.upper(), local, remote, nixl.remote, tell)
        self.transfer, self.check, self.tell = agent.transfer, agent.check_xfer_state, tell
        self.state = "DONE"

    def start(self):
        self.state = self.transfer(self.handle, self.tell)

    def finish(self):
        state, check, handle = self.state, self.check, self.handle
        while state != "DONE":
            if state == "ERR":
                raise pair.Failed("NIXL says ERR for a transfer")
            state = check(handle)


class Notify(pair.Operation):
    """A notification of its own; NIXL does not say when it has arrived."""

    def __init__(self, nixl, size):
        self.send, self.remote, self.text = nixl.agent.send_notif, nixl.remote, b"n" * size

    def start(self):
        self.send(self.remote, self.text)

    def finish(self):
        pass


if __name__ == "__main__":
    pair.main("nixl", Nixl)
