"""An association with a peer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from . import _ends, _memory, _pieces, _streams, _table
from ._arguments import as_bytes, as_text, limit, nanoseconds, whole
from ._errors import Closed, Error, TimedOut
from ._region import MemoryRegion, MemorySlice, register
from ._table import DONE, calls
from ._transfer import PostedTransfer, PreparedTransfer, Transfer, finished
from ._values import CounterUpdate, EndpointAddress, RemoteMemory, address_of_bytes

if TYPE_CHECKING:
    from ._endpoint import Endpoint

_WRITE, _READ, _SEND, _RECEIVE, _NOTIFY = range(5)
_PREPARE = 8
_ONE_SIDED, _MESSAGE = _table.ONE_SIDED.pack, _table.MESSAGE.pack
_CURRENT = _streams.CURRENT
_new = Transfer.__new__
_PRIORITIES = {"normal": 0, "high": 1}

Remote = Union[RemoteMemory, _pieces.RemotePieces, List[RemoteMemory]]


class Connection:
    """A bidirectional association of two endpoints, made by ``connect`` or ``accept``; a context manager that closes it. Thread-safe.

    The *local* side of a transfer is a region, a slice (``region[a:b]``), pieces (``region.blocks``), any object with memory (tensor, array,
    buffer), or a list of these. An object that lies in a registered region of the endpoint is found there; any other is registered for this one
    transfer, which costs more: register what is used again. Non-contiguous tensors move in C order. The *remote* side is a ``RemoteMemory`` (at
    least as long), ``RemotePieces``, or a list of ``RemoteMemory``.

    ``deadline``: seconds until the transfer is revoked; None: the endpoint's. ``stream``: ``"current"``: a transfer of GPU memory begins when torch's
    current stream, and the objects' own, have done what was put into them before; they go on, and no host waits; None: the bytes are ready; a CUDA
    stream (``torch.cuda.Stream``, CuPy's, anything with ``__cuda_stream__``, or its number): the transfer begins when the stream gets there, and what
    is put into the stream afterwards waits for its end. Two transfers of which one needs the other belong on two such (docs/python.md, "Streams").
    """

    __slots__ = ("_handle", "endpoint", "__weakref__")

    def __init__(self, endpoint: Endpoint, handle: int):
        self.endpoint = endpoint
        self._handle = handle
        _table.collect()

    # --- transfers -----------------------------------------------------------------------------------

    def write(
        self, local: Any, remote: Remote, *, notification: Optional[bytes] = None, counter: Optional[CounterUpdate] = None,
        deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> Transfer:
        """Writes local bytes into the peer's memory. Done means that they are there.

        ``notification``: bytes that the peer gets after them; ``counter``: a word of its memory that is changed after them.
        """
        if notification is None and counter is None and deadline is None and priority == "normal":
            region = local.region if type(local) is MemorySlice else local
            if type(region) is MemoryRegion and type(remote) is RemoteMemory and (stream is None or stream is _CURRENT):
                after = 0 if region._device is None or stream is None else _streams.address(kept := _streams.current({region._device: [region._owner]}))
                word = calls.write(_ONE_SIDED(self._handle, region._handle, local.offset, local.nbytes, after, remote._data))
                if word >= DONE:
                    transfer = _new(Transfer)  # finished(word), without a call
                    transfer._result = word
                    return transfer
                return self._posted(word, region)
        return self._transfer(_WRITE, local, remote, 0, notification, counter, deadline, priority, stream)

    def read(
        self, local: Any, remote: Remote, *, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> Transfer:
        """Reads the peer's bytes into local memory."""
        if deadline is None and priority == "normal":
            region = local.region if type(local) is MemorySlice else local
            if type(region) is MemoryRegion and type(remote) is RemoteMemory and (stream is None or stream is _CURRENT) and not region._readonly:
                after = 0 if region._device is None or stream is None else _streams.address(kept := _streams.current({region._device: [region._owner]}))
                word = calls.read(_ONE_SIDED(self._handle, region._handle, local.offset, local.nbytes, after, remote._data))
                if word >= DONE:
                    transfer = _new(Transfer)  # finished(word), without a call
                    transfer._result = word
                    return transfer
                return self._posted(word, region)
        return self._transfer(_READ, local, remote, 0, None, None, deadline, priority, stream)

    def send(
        self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> Transfer:
        """Sends a message: the k-th send of a tag meets the peer's k-th receive of that tag."""
        if deadline is None and priority == "normal":
            region = local.region if type(local) is MemorySlice else local
            if type(region) is MemoryRegion and (stream is None or stream is _CURRENT):
                after = 0 if region._device is None or stream is None else _streams.address(kept := _streams.current({region._device: [region._owner]}))
                word = calls.send(_message(self._handle, region._handle, local.offset, local.nbytes, after, tag))
                return finished(word) if word >= DONE else self._posted(word, region)
        return self._transfer(_SEND, local, None, tag, None, None, deadline, priority, stream)

    def receive(
        self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> Transfer:
        """Receives a message of at most the length of ``local``; ``wait`` gives its exact length. A longer one ends as Truncated, and nothing of it is
        written past the end; so does its send, unless that was done already: a short message (below 64 KiB) that nobody waited for is, once this
        side holds it."""
        if deadline is None and priority == "normal":
            region = local.region if type(local) is MemorySlice else local
            if type(region) is MemoryRegion and (stream is None or stream is _CURRENT) and not region._readonly:
                after = 0 if region._device is None or stream is None else _streams.address(kept := _streams.current({region._device: [region._owner]}))
                word = calls.receive(_message(self._handle, region._handle, local.offset, local.nbytes, after, tag))
                return finished(word) if word >= DONE else self._posted(word, region)
        return self._transfer(_RECEIVE, local, None, tag, None, None, deadline, priority, stream)

    def prepare_write(
        self, local: Any, remote: Remote, *, notification: Optional[bytes] = None, counter: Optional[CounterUpdate] = None,
        deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> PreparedTransfer:
        """A write that is posted by ``post`` or ``run``, as often as one likes, each time with the bytes of that moment. The deadline counts from
        each posting, and each posting keeps to ``stream``."""
        return self._prepare(_WRITE, local, remote, 0, notification, counter, deadline, priority, stream)

    def prepare_read(
        self, local: Any, remote: Remote, *, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> PreparedTransfer:
        """A read that is posted by ``post`` or ``run``."""
        return self._prepare(_READ, local, remote, 0, None, None, deadline, priority, stream)

    def prepare_send(
        self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> PreparedTransfer:
        """A send that is posted by ``post`` or ``run``."""
        return self._prepare(_SEND, local, None, tag, None, None, deadline, priority, stream)

    def prepare_receive(
        self, local: Any, *, tag: int = 0, deadline: Optional[float] = None, priority: str = "normal", stream: Any = _streams.CURRENT,
    ) -> PreparedTransfer:
        """A receive that is posted by ``post`` or ``run``."""
        return self._prepare(_RECEIVE, local, None, tag, None, None, deadline, priority, stream)

    def notify(self, payload: bytes, *, deadline: Optional[float] = None, stream: Any = None) -> Transfer:
        """Sends a notification without a write. Those sent one after the other by one thread arrive in that order, unless they are on streams."""
        place = _streams.place(stream, {})
        word = calls.transfer(self._request(_NOTIFY, 0, 0, 0, payload, None, deadline, "normal", place))
        return finished(word) if word >= DONE else self._posted(word, None)

    def _transfer(
        self, operation: int, local: Any, remote: Any, tag: int, notification: Optional[bytes],
        counter: Optional[CounterUpdate], deadline: Optional[float], priority: str, stream: Any,
    ) -> Transfer:
        _table.check()
        with _Sides(self.endpoint, operation, local, remote) as sides:
            place = _streams.place(stream, sides.holders)
            after = _streams.current(sides.holders) if sides.holders and _streams.is_current(stream) else b""
            word = calls.transfer(self._request(operation, *sides.handles(), tag, notification, counter, deadline, priority, place, after))
            if word >= DONE:
                return finished(word)
            transfer = self._posted(word, sides.keep, sides.lent())
        if transfer._temporary:
            _ends.hold(transfer)
        return transfer

    def _prepare(
        self, operation: int, local: Any, remote: Any, tag: int, notification: Optional[bytes],
        counter: Optional[CounterUpdate], deadline: Optional[float], priority: str, stream: Any,
    ) -> PreparedTransfer:
        _table.check()
        with _Sides(self.endpoint, operation, local, remote) as sides:
            place = _streams.place(stream, sides.holders)
            word = calls.transfer(self._request(operation | _PREPARE, *sides.handles(), tag, notification, counter, deadline, priority, place))
            if word <= 0:
                raise self._refused(word)
            return PreparedTransfer(self, word, sides.keep, sides.lent(), stream, sides.holders)

    def _request(
        self, operation: int, local: int, remote: int, tag: int, notification: Optional[bytes],
        counter: Optional[CounterUpdate], deadline: Optional[float], priority: str, place: Tuple[int, int],
        after: bytes = b"",
    ) -> Any:
        if priority not in _PRIORITIES:
            raise ValueError("priority %r: write 'normal' or 'high'" % (priority,))
        note = b"" if notification is None else as_bytes(notification, "a notification")
        packed = _table.TRANSFER.pack(
            operation, self._handle, local, remote, tag,
            -1 if deadline is None else nanoseconds(deadline, "deadline"),
            _PRIORITIES[priority],
            address_of_bytes(note), -1 if notification is None else len(note),
            0 if counter is None else 1 if counter.kind == "add" else 2,
            0 if counter is None else counter.value,
            *place,
            _streams.address(after),
        )
        request = _Request(packed + (_table.NO_REMOTE if counter is None else counter.memory._data))
        request.kept = note, after
        return request

    def _posted(self, word: int, keep: Any, temporary: Tuple[MemoryRegion, ...] = ()) -> PostedTransfer:
        if word <= 0:
            raise self._refused(word)
        return PostedTransfer(self, word, keep, temporary)

    def _refused(self, word: int) -> BaseException:
        return _table.take_failure(word)[0] if word < 0 else Closed("this connection is closed")

    # --- notifications and names -----------------------------------------------------------------------

    def poll_notification(self) -> Optional[bytes]:
        """The oldest notification, or None; makes progress."""
        return self._notification(calls.notification(_table.PAIR.pack(self._handle, 0)))

    def wait_notification(self, timeout: Optional[float] = None) -> bytes:
        """Waits for a notification; None: for ever. Raises TimedOut, or PeerLost when the peer is lost and none is left."""
        word = _table.in_slices(timeout, lambda nanos: int(calls.notification(_table.PAIR.pack(self._handle, max(nanos, 1)))))
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

    def lookup(self, name: str, timeout: Optional[float] = 30.0) -> RemoteMemory:
        """Memory that the peer published under a name; waits until it is there, with None for ever. Raises TimedOut."""
        text = as_text(name, "name")
        request = _table.QUADRUPLE.pack(self._handle, address_of_bytes(text), len(text), limit(timeout, "timeout"))
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


def _message(*values: int) -> bytes:
    try:
        return _MESSAGE(*values)
    except struct.error:
        whole(values[-1])  # the tag is the only one that is the caller's
        raise


class _Request(bytes):
    """A request that refers to other bytes, and keeps them."""

    kept: Tuple[bytes, bytes]


class _Sides:
    """Makes pieces of whatever the two sides of a transfer are. ``holders``: whose device memory is used; ``keep``: what must live as long as it.

    In a ``with`` statement: what was registered for this transfer alone is closed at its end, unless it was lent on.
    """

    def __init__(self, endpoint: Endpoint, operation: int, local: Any, remote: Any):
        self.holders: _streams.Holders = {}
        self.keep: Any = None
        self._endpoint = endpoint
        self._target = operation in (_READ, _RECEIVE)
        self._messages = operation in (_SEND, _RECEIVE)
        self._sides = local, remote
        self._temporary: List[MemoryRegion] = []

    def __enter__(self) -> _Sides:
        local, remote = self._sides
        try:
            here = self._pieces(local)
            self.keep = here, None if self._messages else _remote_pieces(remote, here.nbytes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for region in self._temporary:
            region.discard()

    def handles(self) -> Tuple[int, int]:
        """Of both sides' pieces; 0 for a side that there is not."""
        here, there = self.keep
        return here._handle, 0 if there is None else there._handle

    def lent(self) -> Tuple[MemoryRegion, ...]:
        """The regions that were made for this transfer: the caller's from now on."""
        temporary, self._temporary = self._temporary, []
        return tuple(temporary)

    def _pieces(self, local: Any) -> _pieces.MemoryPieces:
        if isinstance(local, (list, tuple)):  # of a list's parts some may be empty, as some parameters of a model are
            parts = [part for part in map(self._part, local) if part is not None]
        else:
            parts = [self._part(local)]
        if not parts or parts[0] is None:
            raise ValueError("an object without bytes, or a list of such, cannot be transferred; an empty message is that of region[:0]")
        only = parts[0]
        return only if len(parts) == 1 and isinstance(only, _pieces.MemoryPieces) else _pieces.MemoryPieces.of(parts)

    def _part(self, part: Any) -> Any:
        region = part if isinstance(part, MemoryRegion) else part.region if isinstance(part, MemorySlice) else None
        if region is not None:
            self._use(region, region._owner)
            return part
        if isinstance(part, _pieces.MemoryPieces):
            for region in part.regions():
                self._use(region, region._owner)
            return part
        of = _memory.layout(part)
        if self._target:
            _memory.check_target(of)
        runs = _memory.runs(of)
        if runs.span == 0:
            return None
        region = self._endpoint.covering(runs.address, runs.span, self._target)
        if region is None:
            region = register(self._endpoint, of, "none", shared=False)
            self._temporary.append(region)
        self._use(region, of.owner)
        if not runs.shape:
            return MemorySlice(region, runs.address - region.address, runs.run)
        return _pieces.MemoryPieces.of_runs(region, runs)

    def _use(self, region: MemoryRegion, holder: Any) -> None:
        if self._target and region._readonly:
            raise BufferError("%r is read-only: it cannot be the target of a transfer" % region)
        if region._device is not None:
            self.holders.setdefault(region._device, []).append(holder)


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
    """Waits for a task of the engine in slices. Whoever gives up leaves it behind, and what comes of it is closed; one that can be interrupted has
    ended then."""
    import ctypes

    _table.checked(task)
    out = ctypes.create_string_buffer(48)
    room = ctypes.addressof(out)
    try:
        word = _table.in_slices(None, lambda nanos: int(calls.taskWait(_table.TRIPLE.pack(task, nanos, room))))
        return _table.checked(word), out.raw
    except BaseException:
        calls.taskAbandon(task)
        raise
    finally:
        _table.give_back(task)
        _table.collect()


