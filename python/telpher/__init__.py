"""Moves tensors and buffers between processes, hosts and GPUs: docs/python.md has the whole story.

    with telpher.Endpoint() as endpoint:
        peer = endpoint.connect(address)
        peer.write(tensor, peer.lookup("weights", timeout=10), notification=b"there").wait()

Everything is thread-safe. Times are seconds, sizes are bytes. Importing this starts no JVM; the first ``Endpoint`` does.
"""

from typing import TYPE_CHECKING, Any

from ._connection import Connection
from ._endpoint import Endpoint, devices
from ._errors import (
    AccessDenied,
    Cancelled,
    Closed,
    ConnectFailed,
    Error,
    ForkedError,
    InternalError,
    JavaError,
    JvmError,
    NativeFailure,
    PeerLost,
    ProtocolViolation,
    RegionBusy,
    StaleRegion,
    TimedOut,
    Truncated,
    Unsupported,
)
from ._pieces import MemoryPieces, RemotePieces
from ._region import DeviceView, MemoryRegion, MemorySlice
from ._transfer import PreparedTransfer, Transfer, post_all, wait_all
from ._values import CounterUpdate, EndpointAddress, RemoteMemory

if TYPE_CHECKING:
    from . import compat as compat
    from . import rendezvous as rendezvous
else:

    def __getattr__(name: str) -> Any:
        """The modules that are imported when they are used first."""
        if name in ("compat", "rendezvous"):
            import importlib

            return importlib.import_module("." + name, __name__)
        raise AttributeError("module %r has no attribute %r" % (__name__, name))


__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "Cancelled",
    "Closed",
    "ConnectFailed",
    "Connection",
    "CounterUpdate",
    "DeviceView",
    "Endpoint",
    "EndpointAddress",
    "Error",
    "ForkedError",
    "InternalError",
    "JavaError",
    "JvmError",
    "MemoryPieces",
    "MemoryRegion",
    "MemorySlice",
    "NativeFailure",
    "PeerLost",
    "PreparedTransfer",
    "ProtocolViolation",
    "RegionBusy",
    "RemoteMemory",
    "RemotePieces",
    "StaleRegion",
    "TimedOut",
    "Transfer",
    "Truncated",
    "Unsupported",
    "devices",
    "post_all",
    "wait_all",
]
