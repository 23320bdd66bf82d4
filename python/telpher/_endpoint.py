"""One participant."""

from __future__ import annotations

import atexit
import bisect
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, TypedDict, Union, cast

from . import _ends, _memory, _region, _table
from ._connection import Connection, wait_for_task
from ._arguments import as_secret, as_text, nanoseconds
from ._errors import Closed, TimedOut
from ._region import MemoryRegion
from ._table import calls
from ._values import EndpointAddress, RemoteMemory, access_code, address_of_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack


class EndpointOptions(TypedDict, total=False):
    """What ``Endpoint`` takes besides a secret; each is what EndpointOptions in Java, and ``telpher config``, say of it. Times are seconds."""

    transports: Sequence[str]
    paths: Sequence[str]
    interfaces: Sequence[str]
    port: int
    lanes: int
    max_sockets: int
    deadline: float
    connect_deadline: float
    liveness: float
    drain_limit: float
    spin: float
    max_notification: int
    socket_directory: str
    huge_pages: bool
    slow_transfer: float
    metrics: bool
    checksums: bool


_OPTIONS = tuple(EndpointOptions.__annotations__)

_NEAR = 8
"""How many starts of regions are looked at for one that holds a range."""

_endpoints: "weakref.WeakSet[Endpoint]" = weakref.WeakSet()


class Endpoint:
    """One participant: owns listeners, memory and connections. Usually one per process or per GPU; several may live in one process.

    Thread-safe. A context manager that closes it. The first one of a process starts the JVM (JvmError where there is none; ForkedError in a
    child that was forked after that).

    ``secret`` is what peers must hold to connect (16 to 64 bytes), made anew unless given here or by ``TELPHER_SECRET``. The options are those of
    the Java class EndpointOptions (docs/python.md); times are seconds, lists are lists of names; what is not given comes from the ``TELPHER_*``
    variables as ``os.environ`` has them, else the default.
    """

    def __init__(self, *, secret: Union[bytes, str, None] = None, **options: Unpack[EndpointOptions]):
        self._handle = 0
        self._regions: "weakref.WeakSet[MemoryRegion]" = weakref.WeakSet()
        self._starts: List[int] = []
        self._by_start: Dict[int, List[weakref.ref[MemoryRegion]]] = {}
        # Reentrant: the garbage collector may run a region's finaliser while this thread holds it.
        self._lock = threading.RLock()
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise TypeError("Endpoint has no option %s; it has secret, %s" % (", ".join(unknown), ", ".join(_OPTIONS)))
        variables = {k: v for k, v in os.environ.items() if k.startswith("TELPHER_") or k == "NCCL_SOCKET_IFNAME"}
        for name, value in options.items():
            variables["TELPHER_" + name.upper()] = _text(value)
        _table.start()
        text = "\0".join("%s=%s" % each for each in variables.items()).encode("utf-8", "surrogateescape")
        key = b"" if secret is None else as_secret(secret)
        length = -1 if secret is None else len(key)
        request = _table.QUADRUPLE.pack(address_of_bytes(text), len(text), address_of_bytes(key), length)
        self._handle = _table.checked(calls.endpointOpen(request))
        _endpoints.add(self)

    # --- who it is -------------------------------------------------------------------------------------

    @property
    def address(self) -> EndpointAddress:
        """Every way to reach this endpoint, and its secret: whoever holds it may connect."""
        return EndpointAddress(_table.text(_table.ENDPOINT_ADDRESS, self.handle()))

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._handle == 0

    @property
    def port(self) -> int:
        """The TCP port that it listens on, the first one where there are several; 0 when it does not listen by TCP."""
        return _table.checked(calls.endpointPort(self.handle()))

    # --- memory ----------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, device: Any = None, access: str = "rw") -> MemoryRegion:
        """Allocates memory that peers on this host can map: a write into it is one copy.

        ``device``: whose memory, as torch says it (``"cuda:1"``, 1, a ``torch.device``; ``"cuda"`` is torch's current device, 0 where torch has not
        used one), or by UUID or PCI address; None and ``"cpu"``: the host's. The bytes of devices are not cleared. ``access``: what peers may do:
        ``"rw"``, ``"r"``, ``"w"``, ``"none"``.
        """
        name = _device(device).encode()
        request = _table.QUINTUPLE.pack(self.handle(), nbytes, access_code(access), address_of_bytes(name), len(name))
        region = MemoryRegion(self, _table.checked(calls.allocate(request)), access, None, False)
        self.remember(region, True)
        return region

    def register(self, memory: Any, *, access: Optional[str] = None) -> MemoryRegion:
        """Registers the memory of a tensor, array or buffer (docs/python.md, "Memory"), and keeps the object alive.

        The memory must stay where it is: a tensor's storage must not be resized. Of a non-contiguous object the region spans all of its
        elements and what lies between them. ``access``: what peers may do; None: ``"rw"``, or ``"r"`` for what is read-only.
        """
        return _region.register(self, _memory.layout(memory), access)

    def register_pointer(
        self, address: int, nbytes: int, *, device: Optional[bool] = None, owner: Any = None, access: str = "rw"
    ) -> MemoryRegion:
        """Registers memory by its address. It must stay valid until the region is closed; ``owner`` is kept until then.

        ``device``: whether it is a GPU's; None: the driver is asked, if there is one. A wrong address ends the process when it is used.
        """
        kind = _region._ASK if device is None else _region._DEVICE if device else _region._HOST
        return _region.register_pointer(self, address, nbytes, kind, owner, access, False)

    def publish(self, name: str, memory: Union[MemoryRegion, RemoteMemory]) -> None:
        """Makes memory known to all peers by name; they find it by ``Connection.lookup``. Publishing a name again replaces it."""
        remote = memory.remote if isinstance(memory, MemoryRegion) else memory
        if not isinstance(remote, RemoteMemory):
            raise TypeError("a MemoryRegion or RemoteMemory is published, not %s" % type(memory).__name__)
        text = as_text(name, "name")
        _table.checked(calls.publish(_table.TRIPLE.pack(self.handle(), address_of_bytes(text), len(text)) + remote._data))

    # --- connections -----------------------------------------------------------------------------------

    def connect(self, peer: Union[EndpointAddress, bytes, str], timeout: Optional[float] = None) -> Connection:
        """Connects: tries the ways that both sides have. When the peer connects at the same time both get the same connection.

        ``peer``: its address, or the bytes or the text of that. ``timeout``: seconds; None: the endpoint's ``connect_deadline``. Raises
        ConnectFailed (with every way that was tried), TimedOut or AccessDenied.
        """
        data = bytes(peer if isinstance(peer, EndpointAddress) else EndpointAddress(peer))
        nanos = -1 if timeout is None else nanoseconds(timeout, "timeout")
        request = _table.QUADRUPLE.pack(self.handle(), address_of_bytes(data), len(data), nanos)
        return Connection(self, wait_for_task(calls.connect(request))[0])

    def accept(self, timeout: Optional[float] = None) -> Connection:
        """Waits for the next connection that a peer made; None: for ever. Raises TimedOut when none came."""
        handle = self.handle()
        word = _table.in_slices(timeout, lambda nanos: int(calls.accept(_table.PAIR.pack(handle, nanos))))
        if not _table.checked(word):
            raise TimedOut("nobody has connected within %g s" % (timeout or 0))
        return Connection(self, word)

    # --- the rest --------------------------------------------------------------------------------------

    def explain(self) -> str:
        """Which transports it uses and where they listen, and why not the others; one line for each, for people."""
        return _table.text(_table.ENDPOINT_EXPLAIN, self.handle()).decode()

    def metrics(self) -> Dict[str, Any]:
        """Counters since it was opened, of its connections, paths and lanes too; sums under ``totals``."""
        return _table.document(_table.ENDPOINT_METRICS, self.handle())

    def options(self) -> Dict[str, Any]:
        """What it was opened with, without the secret."""
        return _table.document(_table.ENDPOINT_OPTIONS, self.handle())

    def close(self) -> None:
        """Closes connections, regions and listeners. Closing again does nothing.

        Memory from ``allocate`` goes with the last array over it. Raises RegionBusy when a region could not be closed: everything else is closed then.
        """
        if self._handle and _table.usable():
            self._close()

    def _close(self) -> None:
        word = calls.endpointClose(self._handle)
        error = _table.take_failure(word)[0] if word < 0 else None
        if error is None or isinstance(error, Closed):
            handle, self._handle = self._handle, 0
            _table.give_back(handle)
            for region in self._all_regions():
                region.ended()
            _table.collect(1)
        else:
            raise error

    def _all_regions(self) -> List[MemoryRegion]:
        with self._lock:
            return list(self._regions)

    def handle(self) -> int:
        """For the other modules. Raises Closed."""
        if not self._handle:
            _table.start()
            raise Closed("this endpoint is closed")
        return self._handle

    def remember(self, region: MemoryRegion, shared: bool) -> None:
        """A region has been made; a shared one is found by its addresses. Regions of one transfer are not: they close with it."""
        with self._lock:
            self._regions.add(region)
            if not shared:
                return
            if region.address not in self._by_start:
                bisect.insort(self._starts, region.address)
                self._by_start[region.address] = []
            self._by_start[region.address].append(weakref.ref(region))

    def forget(self, region: MemoryRegion) -> None:
        """A region has ended."""
        with self._lock:
            self._regions.discard(region)
            known = self._by_start.get(region.address)
            if known is None:
                return
            known[:] = [reference for reference in known if reference() not in (None, region)]
            if not known:
                del self._by_start[region.address]
                del self._starts[bisect.bisect_left(self._starts, region.address)]

    def covering(self, address: int, nbytes: int, writable: bool = False) -> Optional[MemoryRegion]:
        """A registered region that holds a range of memory, and may be written to where that is asked for. None where there is none, or where more
        than a few regions start between its start and the range: such memory is registered once more."""
        with self._lock:
            at = bisect.bisect_right(self._starts, address)
            for start in reversed(self._starts[max(0, at - _NEAR) : at]):
                for reference in reversed(self._by_start.get(start, ())):
                    region = reference()
                    if region is None or region.closed or writable and region._readonly:
                        continue
                    if address + nbytes <= region.address + region.nbytes:
                        return region
        return None

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Endpoint(%s)" % ("open" if self._handle else "closed")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and _table.usable():
            try:
                self._close()
            except Exception:
                pass  # the engine's own end of process takes over


def _device(device: Any) -> str:
    """What the engine calls a device; empty for the host."""
    text = "cpu" if device is None else "cuda:%d" % device if isinstance(device, int) else str(device)
    kind, _, index = text.partition(":")
    if kind == "cpu":
        return ""
    if kind != "cuda":
        return text
    torch = _memory.loaded_torch()
    if not index:
        index = str(torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else 0)
    # torch calls AMD's GPUs so as well.
    return "%s:%s" % ("hip" if getattr(getattr(torch, "version", None), "hip", None) else "cuda", index)


def _text(value: Any) -> str:
    """A value of an option as its environment variable would say it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return "%.9f" % value
    return str(value)


def devices() -> List[Dict[str, str]]:
    """The GPUs that this process sees, in the driver's order; empty where there is none."""
    _table.start()
    return cast(List[Dict[str, str]], _table.document(_table.DEVICES))


@atexit.register
def _at_exit() -> None:
    """The callback thread ends first; then endpoints close."""
    if _table.usable():
        _ends.stop()
        for endpoint in list(_endpoints):
            try:
                endpoint.close()
            except Exception:
                pass
    _ends.let_go()
