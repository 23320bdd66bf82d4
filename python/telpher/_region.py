"""Registered memory of this process."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, List, Optional

from . import _memory, _pieces, _table
from ._errors import Closed, RegionBusy
from ._table import calls
from ._values import RemoteMemory, access_code, as_range

if TYPE_CHECKING:
    from ._endpoint import Endpoint

_HOST, _DEVICE, _ASK = range(3)

_busy: List[Any] = []
"""What finalisers could not close, because a peer is in the middle of a copy: it must not be freed."""


class MemorySlice:
    """A range of a region: ``region[start:stop]``, in bytes."""

    __slots__ = ("region", "offset", "nbytes")

    def __init__(self, region: MemoryRegion, offset: int, nbytes: int):
        self.region, self.offset, self.nbytes = region, offset, nbytes

    def __getitem__(self, part: slice) -> MemorySlice:
        start, length = as_range(part, self.nbytes)
        return MemorySlice(self.region, self.offset + start, length)

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        return "%r[%d:%d]" % (self.region, self.offset, self.offset + self.nbytes)


class MemoryRegion:
    """Registered memory: what transfers read from and write to, and what peers may name.

    Made by ``Endpoint.register``, ``register_pointer`` and ``allocate``; a context manager that closes it. It keeps the object alive whose
    memory it is. Dropped without ``close`` it is closed by its finaliser, before that memory is let go. Thread-safe.

    ``nbytes``, ``address`` (of the host or of the device), ``access`` (what peers may do) and ``endpoint`` say what it is.
    """

    __slots__ = (
        "_handle", "_owner", "_device", "_readonly", "_exported", "_remote", "_stream",
        "nbytes", "address", "access", "endpoint", "__weakref__",
    )

    def __init__(self, endpoint: Endpoint, handle: int, access: str, owner: Any, readonly: bool, stream: Optional[int]):
        self._owner = owner
        self._handle = handle
        self._readonly = readonly
        self._stream = stream
        self._exported: Optional[weakref.ref] = None
        self.endpoint = endpoint
        self.access = access
        out = ctypes.create_string_buffer(64)
        self._device = bool(
            _table.checked(calls.regionInfo(_table.PAIR.pack(handle, ctypes.addressof(out))))
        )
        self.address, self.nbytes = _table.PAIR.unpack_from(out)
        self._remote = RemoteMemory(out.raw[16:64])
        _table.collect()

    @property
    def remote(self) -> RemoteMemory:
        """The descriptor that peers need, for the whole region."""
        return self._remote

    @property
    def device(self) -> Optional[str]:
        """The device whose memory it is, as ``cuda UUID``, or None for host memory."""
        if not self._device:
            return None
        found = _table.document(_table.REGION_DEVICE, self._handle)
        return "%s %s" % (found["runtime"], found["uuid"])

    @property
    def closed(self) -> bool:
        """Whether it has been closed, by itself or with its endpoint."""
        return self._handle == 0

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> MemorySlice:
        return MemorySlice(self, *as_range(part, self.nbytes))

    # --- pieces ----------------------------------------------------------------------------------

    def blocks(self, indices: Any, block_nbytes: int, *, base: int = 0) -> _pieces.MemoryPieces:
        """Equal blocks by their numbers: block i lies at ``base + i * block_nbytes``, as in a paged KV cache.

        ``indices``: integers with one dimension (NumPy, torch on the CPU, ``array``, list), in the order of the transfer. One call, however
        many there are; keep the result to use it again. Raises IndexError for a block outside of the region.
        """
        address, count, keep = _pieces.numbers(indices)
        request = _table.QUINTUPLE.pack(self._handle, base, block_nbytes, count, address)
        pieces = _pieces.MemoryPieces(_table.checked(calls.localBlocks(request)), self)
        del keep
        return pieces

    def strided(self, block_nbytes: int, stride: int, count: int, *, base: int = 0) -> _pieces.MemoryPieces:
        """Equal blocks at equal distances: ``stride`` bytes from the start of one to the start of the next."""
        numbers = (ctypes.c_int64 * 2)(count, stride)
        sizes = ctypes.addressof(numbers)
        request = _table.SEXTUPLE.pack(self._handle, base, block_nbytes, 1, sizes, sizes + 8)
        return _pieces.MemoryPieces(_table.checked(calls.localStrided(request)), self)

    # --- its bytes -------------------------------------------------------------------------------

    @property
    def view(self) -> memoryview:
        """The bytes, of host memory. While it, or an array over it, is alive, memory from ``allocate`` cannot be closed (BufferError)."""
        self._check_open()
        if self._device:
            raise BufferError("memory of %s has no bytes on the host: use copy_out, or torch() on the device" % self.device)
        exporter = None if self._exported is None else self._exported()
        if exporter is None:
            exporter = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
            exporter.region = self  # arrays keep the region alive,
            exporter.owner = self._owner  # and the memory, which a closed region lets go
            self._exported = weakref.ref(exporter)
        view = memoryview(exporter).cast("B")
        return view.toreadonly() if self._readonly else view

    def numpy(self, dtype: Any = "uint8", shape: Any = None) -> Any:
        """The bytes as a NumPy array."""
        import numpy

        found = numpy.frombuffer(self.view, dtype)
        return found if shape is None else found.reshape(shape)

    def torch(self, dtype: Any = None, shape: Any = None) -> Any:
        """The bytes as a torch tensor, of host or device memory. The tensor keeps the region alive."""
        import torch

        if self._device:
            found = torch.as_tensor(self, device="cuda").view(dtype or torch.uint8)
        else:
            found = torch.frombuffer(self.view, dtype=dtype or torch.uint8)
        return found if shape is None else found.reshape(shape)

    @property
    def __cuda_array_interface__(self) -> dict:
        if not self._device:
            raise AttributeError("this region is host memory")
        self._check_open()
        return {
            "shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, self._readonly), "version": 3, "stream": None,
        }

    def copy_in(self, data: Any, at: int = 0) -> None:
        """Copies host memory (any object with contiguous bytes) into the region, whatever memory it is, and waits for the end."""
        of = _flat(data)
        _table.checked(calls.copyIn(_table.QUADRUPLE.pack(self._handle, at, of.address, of.nbytes)))

    def copy_out(self, into: Any, at: int = 0) -> None:
        """Copies bytes of the region into host memory: as many as ``into`` has."""
        of = _flat(into)
        _memory.check_target(of)
        _table.checked(calls.copyOut(_table.QUADRUPLE.pack(self._handle, at, of.address, of.nbytes)))

    # --- its end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the region: waits for the transfers that use it or fails them, and revokes every descriptor. Closing again does nothing.

        Raises BufferError while an array over memory from ``allocate`` is alive, and RegionBusy when a peer on this host is in the middle of a
        copy: then the memory must stay; close it again later.
        """
        if not self._handle or not _table.usable():
            return
        self.check_exports()
        self._close()

    def check_exports(self) -> None:
        """Raises BufferError while an array over memory from ``allocate`` is alive."""
        if self._owner is None and self._exported is not None and self._exported() is not None:
            raise BufferError(
                "arrays over this %r are alive (from view, numpy() or torch()): drop them before it is closed, as its memory is unmapped then" % self
            )

    def _close(self) -> None:
        handle = self._handle
        word = calls.regionClose(handle)
        if word < 0:
            error = _table.take_failure(word)[0]
            if not isinstance(error, Closed):
                raise error
        self.ended()

    def ended(self) -> None:
        """It is closed: lets go of the memory."""
        handle, self._handle = self._handle, 0
        if handle:
            _table.give_back(handle)
            self.endpoint.forget(self)
        self._owner = None

    def _check_open(self) -> None:
        if not self._handle:
            raise Closed("this %r is closed" % self)

    def __enter__(self) -> MemoryRegion:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "MemoryRegion(%d bytes at 0x%x%s)" % (self.nbytes, self.address, "" if self._handle else ", closed")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and hasattr(self, "nbytes") and _table.usable():
            try:
                self._close()
            except RegionBusy as e:
                _busy.append(self._owner)
                _table.log().warning("the memory of a dropped region stays until the process ends: %s", e)
            except Exception:
                _busy.append(self._owner)
                _table.log().exception("a dropped region could not be closed; its memory stays")


def _flat(thing: Any) -> _memory.Layout:
    of = _memory.layout(thing)
    if of.device or _memory.runs(of).shape:
        raise ValueError("copy_in and copy_out take contiguous host memory")
    return of


def register(endpoint: Endpoint, of: _memory.Layout, access: Optional[str], shared: bool = True) -> MemoryRegion:
    """Registers what a layout spans. Others may find it by its addresses, unless it is not to be shared."""
    if access is None:
        access = "r" if of.readonly else "rw"
    if of.readonly and "w" in access:
        raise BufferError("read-only memory cannot be registered for access %r: write 'r' or 'none'" % access)
    found = _memory.runs(of)
    if found.span == 0:
        raise ValueError("an object without bytes cannot be registered")
    kind = _DEVICE if of.device else _HOST
    return register_pointer(endpoint, found.address, found.span, kind, of.owner, access, of.readonly, of.stream, shared)


def register_pointer(
    endpoint: Endpoint, address: int, nbytes: int, kind: int, owner: Any, access: str, readonly: bool, stream: Optional[int],
    shared: bool = True,
) -> MemoryRegion:
    """Registers memory by its address."""
    if nbytes <= 0 or address <= 0:
        raise ValueError("not a range of memory: %d bytes at 0x%x" % (nbytes, address))
    request = _table.QUINTUPLE.pack(endpoint.handle(), address, nbytes, access_code(access), kind)
    handle = _table.checked(calls.register(request))
    # () says that the memory is not Telpher's, where the caller names no owner.
    region = MemoryRegion(endpoint, handle, access, () if owner is None else owner, readonly, stream)
    endpoint.remember(region, shared)
    return region
