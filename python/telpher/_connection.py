"""An association with a peer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from . import _memory, _pieces, _table
from ._errors import Closed, Error, TimedOut
from ._region import MemoryRegion, MemorySlice, register
from ._table import calls
from ._transfer import Transfer
from ._values import CounterUpdate, EndpointAddress, RemoteMemory, address_of_bytes

if TYPE_CHECKING:
    from ._endpoint import Endpoint

_WRITE, _READ, _SEND, _RECEIVE, _NOTIFY = range(5)
_PREPARE = 8
_PRIORITIES = {"normal": 0, "high": 1}

Remote = Union[RemoteMemory, _pieces.RemotePieces, List[RemoteMemory]]


class Connection:
    """A bidirectional association of two endpoints, made by ``connect`` or ``accept``; a context manager that closes it. Thread-safe.

    The *local* side of a transfer is a region, a slice (``region[a:b]``), pieces (``region.blocks``), any object with memory (tensor, array,
    buffer), or a list of these. An object that lies in a registered region of the endpoint is found there; any other is registered for this one
    transfer, which costs more: register what is used again. Non-contiguous tensors move in C order. The *remote* side is a ``RemoteMemory`` (at
    least as long), ``RemotePieces``, or a list of ``RemoteMemory``.

    ``deadline``: seconds until the transfer is revoked; None: the endpoint's. ``stream``: what a transfer of GPU memory waits for on the host
    before it is posted: ``"current"`` (torch's current stream; else the object's own), None (the bytes are there), or a stream.
    """

    __slots__ = ("_handle", "_temporary", "endpoint", "__weakref__")

    def __init__(self, endpoint: Endpoint, handle: int):
        self.endpoint = endpoint
        self._handle = handle
        # Transfers of memory that was registered for them alone: they are kept until they have ended.
        self._temporary: Dict[int, Tuple[Transfer, List[MemoryRegion]]] = {}

    # --- transfers -----------------------------------------------------------------------------------

    def write(
        self, local: Any, remote: Remote, *, notification: Optional[bytes] = None, counter: Optional[CounterUpdate] = None,
        deadline: Optional[float] = None, priority: str = "normal", stream: Any = _memory.CURRENT,
    ) -> Transfer:
        """Writes local bytes into the peer's memory. Done means that they are there.

        ``notification``: bytes that the peer gets after them; ``counter``: a word of its memory that is changed after them.
        """
        if notification is None and counter is None and deadline is None and priority == "normal":
            region, offset, length = _plain(local)
            if region is not None and type(remote) is RemoteMemory and not region._device:
                word = calls.write(_table.ONE_SIDED.pack(self._handle, region._handle, offset, length) + remote._data)
                if word <= 0:
                    raise self._refused(word)
                return Transfer(self, word, region)
        return self._transfer(_WRITE, local, remote, 0, notification, counter, deadline, priority, stream)

    def read(
        self, local: Any, remote: Remote, *, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _memory.CURRENT,
    ) -> Transfer:
        """Reads the peer's bytes into local memory."""
        if deadline is None and priority == "normal":
            region, offset, length = _plain(local)
            if region is not None and type(remote) is RemoteMemory and not region._device and not region._readonly:
                word = calls.read(_table.ONE_SIDED.pack(self._handle, region._handle, offset, length) + remote._data)
                if word <= 0:
                    raise self._refused(word)
                return Transfer(self, word, region)
        return self._transfer(_READ, local, remote, 0, None, None, deadline, priority, stream)

    def send(
        self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _memory.CURRENT,
    ) -> Transfer:
        """Sends a message: the k-th send of a tag meets the peer's k-th receive of that tag."""
        if deadline is None and priority == "normal":
            region, offset, length = _plain(local)
            if region is not None and not region._device:
                word = calls.send(_table.MESSAGE.pack(self._handle, region._handle, offset, length, tag))
                if word <= 0:
                    raise self._refused(word)
                return Transfer(self, word, region)
        return self._transfer(_SEND, local, None, tag, None, None, deadline, priority, stream)

    def receive(
        self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _memory.CURRENT,
    ) -> Transfer:
        """Receives a message of at most the length of ``local``; ``wait`` gives its exact length. A longer one ends both sides as Truncated."""
        if deadline is None and priority == "normal":
            region, offset, length = _plain(local)
            if region is not None and not region._device and not region._readonly:
                word = calls.receive(_table.MESSAGE.pack(self._handle, region._handle, offset, length, tag))
                if word <= 0:
                    raise self._refused(word)
                return Transfer(self, word, region)
        return self._transfer(_RECEIVE, local, None, tag, None, None, deadline, priority, stream)

    def prepare_write(
        self, local: Any, remote: Remote, *, notification: Optional[bytes] = None, counter: Optional[CounterUpdate] = None,
        deadline: Optional[float] = None, priority: str = "normal",
    ) -> Transfer:
        """A write that is posted by ``post`` or ``run``, as often as one likes, each time with the bytes of that moment. Prepared transfers
        of GPU memory wait for no stream. The deadline counts from each posting."""
        return self._transfer(_WRITE | _PREPARE, local, remote, 0, notification, counter, deadline, priority, None)

    def prepare_read(self, local: Any, remote: Remote, *, deadline: Optional[float] = None, priority: str = "normal") -> Transfer:
        """A read that is posted by ``post`` or ``run``."""
        return self._transfer(_READ | _PREPARE, local, remote, 0, None, None, deadline, priority, None)

    def prepare_send(self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal") -> Transfer:
        """A send that is posted by ``post`` or ``run``."""
        return self._transfer(_SEND | _PREPARE, local, None, tag, None, None, deadline, priority, None)

    def prepare_receive(self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal") -> Transfer:
        """A receive that is posted by ``post`` or ``run``."""
        return self._transfer(_RECEIVE | _PREPARE, local, None, tag, None, None, deadline, priority, None)

    def notify(self, payload: bytes, *, deadline: Optional[float] = None) -> Transfer:
        """Sends a notification without a write. Those sent one after the other by one thread arrive in that order."""
        word = calls.transfer(self._request(_NOTIFY, 0, 0, 0, bytes(payload), None, deadline, "normal"))
        return self._made(word, None, ())

    def _transfer(
        self, operation: int, local: Any, remote: Any, tag: int, notification: Optional[bytes],
        counter: Optional[CounterUpdate], deadline: Optional[float], priority: str, stream: Any,
    ) -> Transfer:
        self._reap()
        sources = _Local(self.endpoint, operation & ~_PREPARE in (_READ, _RECEIVE))
        try:
            pieces = sources.pieces(local)
            there = 0
            keep: Tuple[Any, ...] = (pieces,)
            if remote is not None:
                remote_pieces = _remote_pieces(remote, pieces.nbytes)
                there = remote_pieces._handle
                keep += (remote_pieces,)
            if sources.device:
                _memory.synchronise(stream, sources.stream)
            request = self._request(operation, pieces._handle, there, tag, notification, counter, deadline, priority)
            word = calls.transfer(request)
            return self._made(word, keep, sources.temporary, bool(operation & _PREPARE))
        except BaseException:
            for region in sources.temporary:
                region.close()
            raise

    def _request(
        self, operation: int, local: int, remote: int, tag: int, notification: Optional[bytes],
        counter: Optional[CounterUpdate], deadline: Optional[float], priority: str,
    ) -> Any:
        if priority not in _PRIORITIES:
            raise ValueError("priority %r: write 'normal' or 'high'" % (priority,))
        note = b"" if notification is None else bytes(notification)
        packed = _table.TRANSFER.pack(
            operation, self._handle, local, remote, tag,
            -1 if deadline is None else max(0, int(deadline * 1e9)),
            _PRIORITIES[priority],
            address_of_bytes(note), -1 if notification is None else len(note),
            0 if counter is None else 1 if counter.kind == "add" else 2,
            0 if counter is None else counter.value,
        )
        request = _Request(packed + (_table.NO_REMOTE if counter is None else counter.memory._data))
        request.note = note
        return request

    def _made(self, word: int, keep: Any, temporary: Any, prepared: bool = False) -> Transfer:
        if word <= 0:
            raise self._refused(word)
        transfer = Transfer(self, word, (keep, temporary), prepared)
        if temporary and not prepared:
            if transfer._result is None:
                self._temporary[transfer._handle] = (transfer, list(temporary))
            else:
                for region in temporary:
                    region.close()
        return transfer

    def ended(self, transfer: Transfer) -> None:
        """A transfer has ended: what was registered for it alone is closed."""
        entry = self._temporary.pop(transfer._handle, None) if self._temporary else None
        if entry is not None:
            for region in entry[1]:
                region.close()

    def _reap(self) -> None:
        """Looks after transfers that nobody waits for."""
        for transfer, _ in list(self._temporary.values()):
            transfer.done()

    def _refused(self, word: int) -> BaseException:
        return _table.take_failure(word)[0] if word < 0 else Closed("this connection is closed")

    # --- notifications and names -----------------------------------------------------------------------

    def poll_notification(self) -> Optional[bytes]:
        """The oldest notification, or None; makes progress."""
        return self._notification(calls.notification(_table.PAIR.pack(self._handle, 0)))

    def wait_notification(self, timeout: Optional[float] = None) -> bytes:
        """Waits for a notification; None: for ever. Raises TimedOut, or PeerLost when the peer is lost and none is left."""
        word = _table.in_slices(timeout, lambda nanos: calls.notification(_table.PAIR.pack(self._handle, max(nanos, 1))))
        payload = self._notification(word)
        if payload is None:
            raise TimedOut("no notification came within %g s" % (timeout or 0))
        return payload

    @staticmethod
    def _notification(word: int) -> Optional[bytes]:
        if _table.checked(word) == 0:
            return None
        payload = _table.text(_table.NOTIFICATION, word)
        _table.give_back(word)
        _table.collect()
        return payload

    def lookup(self, name: str, timeout: float = 30.0) -> RemoteMemory:
        """Memory that the peer published under a name; waits until it is there. Raises TimedOut."""
        text = name.encode()
        request = _table.QUADRUPLE.pack(self._handle, address_of_bytes(text), len(text), int(timeout * 1e9))
        return RemoteMemory(wait_for_task(calls.lookup(request))[1])

    # --- the rest ---------------------------------------------------------------------------------------

    def poll(self) -> int:
        """Makes progress: takes in what has arrived, sends what waits. Returns how many frames were handled."""
        return _table.checked(calls.connectionPoll(self._handle))

    @property
    def peer(self) -> EndpointAddress:
        """The other endpoint."""
        return EndpointAddress(_table.text(_table.PEER_ADDRESS, self._handle))

    @property
    def is_open(self) -> bool:
        """Whether transfers can be posted."""
        return bool(self._handle) and _table.checked(calls.connectionIsOpen(self._handle)) == 1

    @property
    def failure(self) -> Optional[BaseException]:
        """Why the connection ended, or None."""
        word = calls.connectionFailure(self._handle)
        return _table.take_failure(word)[0] if word < 0 else None

    def explain(self) -> str:
        """Which paths and lanes were chosen, which were rejected, and why; for people."""
        return _table.text(_table.CONNECTION_EXPLAIN, self._handle).decode()

    def metrics(self) -> Dict[str, Any]:
        """Counters since the connection was made."""
        return _table.document(_table.CONNECTION_METRICS, self._handle)

    def close(self) -> None:
        """Ends the connection in both directions: pending transfers fail with Closed. Returns within the drain limit. Closing again does nothing."""
        if self._handle and _table.usable():
            _table.checked(calls.connectionClose(self._handle))
            self._reap()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Connection(%s)" % ("open" if _table.usable() and self.is_open else "over")

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if handle:
            _table.give_back(handle)


class _Request(bytes):
    """A request that refers to other bytes, and keeps them."""

    note: bytes


def _plain(local: Any) -> Tuple[Optional[MemoryRegion], int, int]:
    """Region, offset and length of one range; no region when it is something else."""
    kind = type(local)
    if kind is MemorySlice:
        return local.region, local.offset, local.nbytes
    if kind is MemoryRegion:
        return local, 0, local.nbytes
    return None, 0, 0


class _Local:
    """Makes pieces of whatever is the local side of a transfer."""

    def __init__(self, endpoint: Endpoint, target: bool):
        self.endpoint = endpoint
        self.target = target
        self.temporary: List[MemoryRegion] = []
        self.device = False
        self.stream: Optional[int] = None

    def pieces(self, local: Any) -> _pieces.MemoryPieces:
        parts = [self._part(part) for part in local] if isinstance(local, (list, tuple)) else [self._part(local)]
        if not parts:
            raise ValueError("a transfer needs at least one piece")
        only = parts[0]
        return only if len(parts) == 1 and isinstance(only, _pieces.MemoryPieces) else _pieces.MemoryPieces.of(parts)

    def _part(self, part: Any) -> Any:
        region = part if isinstance(part, MemoryRegion) else part.region if isinstance(part, MemorySlice) else None
        if region is not None:
            self._use(region)
            return part
        if isinstance(part, _pieces.MemoryPieces):
            self._use(part._keep)
            return part
        of = _memory.layout(part)
        if self.target:
            _memory.check_target(of)
        runs = _memory.runs(of)
        region = self.endpoint.covering(runs.address, runs.span)
        if region is None:
            if runs.span == 0:
                raise ValueError("an object without bytes cannot be transferred")
            region = register(self.endpoint, of, "none", shared=False)
            self.temporary.append(region)
        self._use(region)
        if not runs.shape:
            return MemorySlice(region, runs.address - region.address, runs.run)
        return _pieces.MemoryPieces.of_runs(region, runs)

    def _use(self, keep: Any) -> None:
        if isinstance(keep, list):
            for each in keep:
                self._use(each.region if isinstance(each, MemorySlice) else each._keep if isinstance(each, _pieces.MemoryPieces) else each)
            return
        if self.target and keep._readonly:
            raise BufferError("%r is read-only: it cannot be the target of a transfer" % keep)
        if keep._device:
            self.device = True
            self.stream = keep._stream if keep._stream is not None else self.stream


def _remote_pieces(remote: Any, nbytes: int) -> _pieces.RemotePieces:
    if isinstance(remote, _pieces.RemotePieces):
        return remote
    if isinstance(remote, RemoteMemory):
        if remote.nbytes < nbytes:
            raise ValueError("%d local bytes do not fit into %d remote bytes" % (nbytes, remote.nbytes))
        return _pieces.RemotePieces.of([remote[:nbytes]])
    if isinstance(remote, (list, tuple)) and all(isinstance(part, RemoteMemory) for part in remote):
        return _pieces.RemotePieces.of(remote)
    raise TypeError("the remote side is a RemoteMemory, RemotePieces or a list of RemoteMemory, not %s" % type(remote).__name__)


def wait_for_task(task: int) -> Tuple[int, bytes]:
    """Waits for a task of the engine in slices. Whoever gives up leaves it behind, and what comes of it is closed."""
    import ctypes

    _table.checked(task)
    out = ctypes.create_string_buffer(48)
    room = ctypes.addressof(out)
    try:
        word = _table.in_slices(None, lambda nanos: calls.taskWait(_table.TRIPLE.pack(task, nanos, room)))
        return _table.checked(word), out.raw
    except BaseException:
        calls.taskAbandon(task)
        raise
    finally:
        _table.give_back(task)


