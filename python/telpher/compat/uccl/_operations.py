"""What moves bytes: one-sided, two-sided, by pointer (the ``ipc`` family), by descriptor (``transfer``)."""

from __future__ import annotations

import copy
import functools
import os
import struct
from typing import Any, Callable, List, Optional, Sequence, Tuple, TypeVar

from ... import Error, MemorySlice, RemoteMemory
from ._addresses import Refused, log
from ._connections import Connections
from ._memory import Registrations, XferDesc, remote
from ._transfers import Operation, Operations

F = TypeVar("F", bound=Callable[..., Any])

REASONS = (Error, Refused, ValueError, IndexError, BufferError, MemoryError, OSError, OverflowError, struct.error)


def fallible(failed: Any) -> Callable[[F], F]:
    """What goes wrong is logged, and the call returns what UCCL's would: False, alone or at the head of a tuple."""

    def wrap(call: F) -> F:
        @functools.wraps(call)
        def told(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return call(self, *args, **kwargs)
            except REASONS as e:
                log.error("%s returns False: %s", call.__name__.lstrip("_"), e)
                return copy.deepcopy(failed)

        return told  # type: ignore[return-value]

    return wrap


Vector = Sequence[int]


class Transfers:
    """The part of ``Endpoint`` that moves bytes.

    ``conn_id`` is a connection's, ``mr_id`` that of local memory which holds the ``size`` bytes at ``ptr``, ``meta`` the 64 bytes of the peer's
    ``advertise``. A call without ``_async`` returns ok when the bytes are there; one with it (ok, transfer_id) at once. A vector is moved as a whole:
    one that fails may have been moved in part.
    """

    _connections: Connections
    _memory: Registrations

    def _init_transfers(self) -> None:
        self._operations = Operations()

    # --- advertised memory -----------------------------------------------------------------------------

    def advertise(self, *args: Any, **kwargs: Any) -> Tuple[bool, bytes]:
        """``advertise(mr_id, ptr, size)``, or with ``conn_id`` before, as it was until May 2026: (ok, 64 bytes). Sends nothing.
        An ``mr_id`` of 0, which no memory has, is memory that is not registered, as in ``advertise_ipc``: the first generation's scripts do that."""
        mr_id, ptr, size = _named(("mr_id", "ptr", "size"), args, kwargs)
        return self._advertise(mr_id, ptr, size)

    @fallible((False, b""))
    def _advertise(self, mr_id: int, ptr: int, size: int) -> Tuple[bool, bytes]:
        return True, self._memory.describe(mr_id, ptr, size)

    def advertisev(self, *args: Any, **kwargs: Any) -> Tuple[bool, List[bytes]]:
        """``advertisev(mr_id_v, ptr_v, size_v, num_iovs)``, or with ``conn_id`` before: (ok, [64 bytes])."""
        ids, pointers, sizes, count = _named(("mr_id_v", "ptr_v", "size_v", "num_iovs"), args, kwargs)
        _same(count, ids, pointers, sizes)
        return self._advertisev(ids, pointers, sizes)

    @fallible((False, []))
    def _advertisev(self, ids: Vector, pointers: Vector, sizes: Vector) -> Tuple[bool, List[bytes]]:
        return True, [self._memory.describe(*each) for each in zip(ids, pointers, sizes)]

    # --- one-sided -------------------------------------------------------------------------------------

    @fallible(False)
    def write(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> bool:
        """Writes local bytes into the peer's memory."""
        return self._wait(self._one_sided("write", conn_id, [self._memory.slice(mr_id, ptr, size)], [remote(meta, size)]))

    @fallible((False, 0))
    def write_async(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> Tuple[bool, int]:
        """``write`` in the background."""
        return self._start(self._one_sided("write", conn_id, [self._memory.slice(mr_id, ptr, size)], [remote(meta, size)]))

    @fallible(False)
    def read(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> bool:
        """Reads the peer's memory into local bytes."""
        return self._wait(self._one_sided("read", conn_id, [self._memory.slice(mr_id, ptr, size)], [remote(meta, size)]))

    @fallible((False, 0))
    def read_async(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> Tuple[bool, int]:
        """``read`` in the background."""
        return self._start(self._one_sided("read", conn_id, [self._memory.slice(mr_id, ptr, size)], [remote(meta, size)]))

    @fallible(False)
    def writev(self, conn_id: int, mr_id_v: Vector, ptr_v: Vector, size_v: Vector, meta_blob_v: Sequence[bytes], num_iovs: int) -> bool:
        """Writes several pieces in one operation."""
        return self._wait(self._vector("write", conn_id, mr_id_v, ptr_v, size_v, meta_blob_v, num_iovs))

    @fallible((False, 0))
    def writev_async(
        self, conn_id: int, mr_id_v: Vector, ptr_v: Vector, size_v: Vector, meta_blob_v: Sequence[bytes], num_iovs: int
    ) -> Tuple[bool, int]:
        """``writev`` in the background."""
        return self._start(self._vector("write", conn_id, mr_id_v, ptr_v, size_v, meta_blob_v, num_iovs))

    @fallible(False)
    def readv(self, conn_id: int, mr_id_v: Vector, ptr_v: Vector, size_v: Vector, meta_blob_v: Sequence[bytes], num_iovs: int) -> bool:
        """Reads several pieces in one operation."""
        return self._wait(self._vector("read", conn_id, mr_id_v, ptr_v, size_v, meta_blob_v, num_iovs))

    @fallible((False, 0))
    def readv_async(
        self, conn_id: int, mr_id_v: Vector, ptr_v: Vector, size_v: Vector, meta_blob_v: Sequence[bytes], num_iovs: int
    ) -> Tuple[bool, int]:
        """``readv`` in the background."""
        return self._start(self._vector("read", conn_id, mr_id_v, ptr_v, size_v, meta_blob_v, num_iovs))

    def _vector(
        self, name: str, conn_id: int, ids: Vector, pointers: Vector, sizes: Vector, blobs: Sequence[bytes], count: int
    ) -> Operation:
        _same(count, ids, pointers, sizes, blobs)
        local = [self._memory.slice(*each) for each in zip(ids, pointers, sizes)]
        return self._one_sided(name, conn_id, local, [remote(*each) for each in zip(blobs, sizes)])

    def _one_sided(self, name: str, conn_id: int, local: List[MemorySlice], there: List[RemoteMemory], temporary: Any = ()) -> Operation:
        connection = self._connections.get(conn_id).connection
        move: Any = connection.write if name == "write" else connection.read
        transfer = move(local[0], there[0]) if len(local) == 1 else move(local, there)
        return Operation(name, [transfer], temporary)

    # --- two-sided, until May 2026 -----------------------------------------------------------------------

    @fallible(False)
    def send(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: Optional[bytes] = None) -> bool:
        """Sends a message: the k-th of a connection meets the peer's k-th ``recv`` of it. With ``meta``, as the first generation had it between
        GPUs of one host, it is a ``write``."""
        if meta is not None:
            return self.write(conn_id, mr_id, ptr, size, meta) if mr_id else self.write_ipc(conn_id, ptr, size, meta)
        return self._wait(self._send(conn_id, [self._memory.slice(mr_id, ptr, size)]))

    @fallible((False, 0))
    def send_async(self, conn_id: int, mr_id: int, ptr: int, size: int) -> Tuple[bool, int]:
        """``send`` in the background."""
        return self._start(self._send(conn_id, [self._memory.slice(mr_id, ptr, size)]))

    @fallible(False)
    def recv(self, conn_id: int, mr_id: int, ptr: int, size: int) -> bool:
        """Receives a message of at most ``size`` bytes. A longer one fails, and nothing is written past the end."""
        return self._wait(self._receive(conn_id, [self._memory.room(mr_id, ptr, size)]))

    @fallible((False, 0))
    def recv_async(self, conn_id: int, mr_id: int, ptr: int, size: int) -> Tuple[bool, int]:
        """``recv`` in the background."""
        return self._start(self._receive(conn_id, [self._memory.room(mr_id, ptr, size)]))

    @fallible(False)
    def sendv(self, conn_id: int, mr_id_v: Vector, data_ptr_v: Vector, size_v: Vector, num_iovs: int) -> bool:
        """Sends a message for each piece, in order."""
        return self._wait(self._send(conn_id, self._parts(self._memory.slice, mr_id_v, data_ptr_v, size_v, num_iovs)))

    @fallible((False, 0))
    def sendv_async(self, conn_id: int, mr_id_v: Vector, data_ptr_v: Vector, size_v: Vector, num_iovs: int) -> Tuple[bool, int]:
        """``sendv`` in the background."""
        return self._start(self._send(conn_id, self._parts(self._memory.slice, mr_id_v, data_ptr_v, size_v, num_iovs)))

    @fallible(False)
    def recvv(self, conn_id: int, mr_id_v: Vector, data_ptr_v: Vector, size_v: Vector, num_iovs: int) -> bool:
        """Receives a message for each piece, in order."""
        return self._wait(self._receive(conn_id, self._parts(self._memory.room, mr_id_v, data_ptr_v, size_v, num_iovs)))

    @fallible((False, 0))
    def recvv_async(self, conn_id: int, mr_id_v: Vector, data_ptr_v: Vector, size_v: Vector, num_iovs: int) -> Tuple[bool, int]:
        """``recvv`` in the background."""
        return self._start(self._receive(conn_id, self._parts(self._memory.room, mr_id_v, data_ptr_v, size_v, num_iovs)))

    @staticmethod
    def _parts(part: Callable[..., MemorySlice], ids: Vector, pointers: Vector, sizes: Vector, count: int) -> List[MemorySlice]:
        """The first so many; here UCCL lets the lists be longer."""
        if any(len(each) < count for each in (ids, pointers, sizes)):
            _same(count, ids, pointers, sizes)
        return [part(*each) for each in zip(ids[:count], pointers, sizes)]

    def _send(self, conn_id: int, local: List[MemorySlice], temporary: Any = ()) -> Operation:
        channel = self._connections.get(conn_id)
        with channel.sending:  # the pieces of two threads' vectors must not mix
            return Operation("send", [channel.connection.send(part, tag=channel.tag) for part in local], temporary)

    def _receive(self, conn_id: int, local: List[MemorySlice], temporary: Any = ()) -> Operation:
        channel = self._connections.get(conn_id)
        with channel.receiving:
            return Operation("recv", [channel.connection.receive(part, tag=channel.tag) for part in local], temporary)

    # --- by pointer: the ipc family ------------------------------------------------------------------------

    @fallible((False, b""))
    def advertise_ipc(self, conn_id: int, ptr: int, size: int) -> Tuple[bool, bytes]:
        """The descriptor of memory that need not be registered: (ok, 64 bytes). It is valid until the endpoint ends."""
        return True, self._memory.advertised(int(ptr), int(size))

    def advertisev_ipc(self, conn_id: int, ptr_v: Vector, size_v: Vector) -> Tuple[bool, List[bytes]]:
        """Several: (ok, [64 bytes])."""
        _same(len(ptr_v), size_v)
        return self._advertisev_ipc(ptr_v, size_v)

    @fallible((False, []))
    def _advertisev_ipc(self, ptr_v: Vector, size_v: Vector) -> Tuple[bool, List[bytes]]:
        return True, [self._memory.advertised(int(ptr), int(size)) for ptr, size in zip(ptr_v, size_v)]

    @fallible(False)
    def write_ipc(self, conn_id: int, ptr: int, size: int, info: bytes) -> bool:
        """``write`` of memory that need not be registered; ``info``: 64 bytes of ``advertise_ipc``."""
        return self._wait(self._by_pointer("write", conn_id, [ptr], [size], [info]))

    @fallible((False, 0))
    def write_ipc_async(self, conn_id: int, ptr: int, size: int, info: bytes) -> Tuple[bool, int]:
        """``write_ipc`` in the background."""
        return self._start(self._by_pointer("write", conn_id, [ptr], [size], [info]))

    @fallible(False)
    def read_ipc(self, conn_id: int, ptr: int, size: int, info: bytes) -> bool:
        """``read`` into memory that need not be registered."""
        return self._wait(self._by_pointer("read", conn_id, [ptr], [size], [info]))

    @fallible((False, 0))
    def read_ipc_async(self, conn_id: int, ptr: int, size: int, info: bytes) -> Tuple[bool, int]:
        """``read_ipc`` in the background."""
        return self._start(self._by_pointer("read", conn_id, [ptr], [size], [info]))

    @fallible(False)
    def writev_ipc(self, conn_id: int, ptr_v: Vector, size_v: Vector, info_v: Sequence[bytes]) -> bool:
        """Writes several pieces in one operation."""
        return self._wait(self._by_pointer("write", conn_id, ptr_v, size_v, info_v))

    @fallible((False, 0))
    def writev_ipc_async(self, conn_id: int, ptr_v: Vector, size_v: Vector, info_v: Sequence[bytes]) -> Tuple[bool, int]:
        """``writev_ipc`` in the background."""
        return self._start(self._by_pointer("write", conn_id, ptr_v, size_v, info_v))

    @fallible(False)
    def readv_ipc(self, conn_id: int, ptr_v: Vector, size_v: Vector, info_v: Sequence[bytes]) -> bool:
        """Reads several pieces in one operation."""
        return self._wait(self._by_pointer("read", conn_id, ptr_v, size_v, info_v))

    @fallible((False, 0))
    def readv_ipc_async(self, conn_id: int, ptr_v: Vector, size_v: Vector, info_v: Sequence[bytes]) -> Tuple[bool, int]:
        """``readv_ipc`` in the background."""
        return self._start(self._by_pointer("read", conn_id, ptr_v, size_v, info_v))

    @fallible(False)
    def send_ipc(self, conn_id: int, ptr: int, size: int) -> bool:
        """``send`` of memory that need not be registered. Until May 2026."""
        return self._wait(self._message(self._send, conn_id, ptr, size))

    @fallible((False, 0))
    def send_ipc_async(self, conn_id: int, ptr: int, size: int) -> Tuple[bool, int]:
        """``send_ipc`` in the background."""
        return self._start(self._message(self._send, conn_id, ptr, size))

    @fallible(False)
    def recv_ipc(self, conn_id: int, ptr: int, size: int) -> bool:
        """``recv`` into memory that need not be registered. Until May 2026."""
        return self._wait(self._message(self._receive, conn_id, ptr, size))

    @fallible((False, 0))
    def recv_ipc_async(self, conn_id: int, ptr: int, size: int) -> Tuple[bool, int]:
        """``recv_ipc`` in the background."""
        return self._start(self._message(self._receive, conn_id, ptr, size))

    def _by_pointer(self, name: str, conn_id: int, pointers: Vector, sizes: Vector, infos: Sequence[bytes]) -> Operation:
        _same(len(pointers), sizes, infos)
        there = [remote(*each) for each in zip(infos, sizes)]
        return self._lent(pointers, sizes, lambda local, temporary: self._one_sided(name, conn_id, local, there, temporary))

    def _message(self, post: Callable[..., Operation], conn_id: int, pointer: int, size: int) -> Operation:
        return self._lent([pointer], [size], lambda local, temporary: post(conn_id, local, temporary))

    def _lent(self, pointers: Vector, sizes: Vector, post: Callable[[List[MemorySlice], List[Any]], Operation]) -> Operation:
        """Registers for one operation what is not registered yet."""
        local: List[MemorySlice] = []
        temporary: List[Any] = []
        try:
            for pointer, size in zip(pointers, sizes):
                part, made = self._memory.by_pointer(int(pointer), int(size))
                local.append(part)
                temporary += made
            return post(local, temporary)
        except BaseException:
            for region in temporary:
                region.discard()
            raise

    # --- by descriptor, and polling -------------------------------------------------------------------------

    def transfer(
        self, conn_id: int, op_name: str, local_desc_list: Sequence[XferDesc], remote_desc_list: Sequence[XferDesc]
    ) -> Tuple[bool, int]:
        """Reads or writes (``op_name``) descriptors of ``register_memory`` pairwise, in the background. Raises RuntimeError for wrong arguments."""
        if len(local_desc_list) != len(remote_desc_list):
            raise RuntimeError("transfer: %d local and %d remote descriptors" % (len(local_desc_list), len(remote_desc_list)))
        if op_name not in ("read", "write"):
            raise RuntimeError("transfer: op_name is %r; it is 'read' or 'write'" % (op_name,))
        if not self._connections.has(conn_id):
            raise RuntimeError("Invalid conn_id: %s" % (conn_id,))  # scripts look for these words
        return self._transfer(conn_id, op_name, local_desc_list, remote_desc_list)

    @fallible((False, 0))
    def _transfer(self, conn_id: int, name: str, here: Sequence[XferDesc], there: Sequence[XferDesc]) -> Tuple[bool, int]:
        local = [self._memory.slice(each.mr_id, each.addr, each.size) for each in here]
        return self._start(self._one_sided(name, conn_id, local, [remote(b.descriptor, a.size) for a, b in zip(here, there)]))

    @fallible((False, True))
    def poll_async(self, transfer_id: int) -> Tuple[bool, bool]:
        """(ok, whether it has ended). A transfer that failed is (False, True), once; as is an id that has been told of: loops end."""
        done = self._operations.poll(transfer_id)
        if not done:
            os.sched_yield()  # scripts poll without a pause: leaves the core to whoever the transfer waits for
        return True, done

    def _start(self, operation: Operation) -> Tuple[bool, int]:
        return True, self._operations.add(operation)

    @staticmethod
    def _wait(operation: Operation) -> bool:
        operation.wait()
        return True


def _named(names: Tuple[str, ...], args: Tuple[Any, ...], kwargs: Any) -> List[Any]:
    """The arguments of a call that had ``conn_id`` as its first until May 2026; it is not needed."""
    names = ("conn_id",) + names if "conn_id" in kwargs or len(args) + len(kwargs) > len(names) else names
    given = dict(zip(names, args), **kwargs)
    if sorted(given) != sorted(names) or len(args) + len(kwargs) != len(names):
        raise TypeError("wanted are %s; given are %d arguments and %s" % (", ".join(names), len(args), ", ".join(kwargs) or "no names"))
    given.pop("conn_id", None)
    return list(given[name] for name in names if name != "conn_id")


def _same(count: int, *lists: Sequence[Any]) -> None:
    if any(len(each) != count for each in lists):
        raise RuntimeError("%d pieces are announced, the lists have %s" % (count, ", ".join(str(len(each)) for each in lists)))
