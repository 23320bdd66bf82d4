"""Registered memory of this process."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, cast

from . import _memory, _pieces, _table
from ._arguments import whole
from ._errors import Closed
from ._table import calls
from ._values import RemoteMemory, access_code, as_range

if TYPE_CHECKING:
    from ._endpoint import Endpoint

_HOST, _DEVICE, _ASK = range(3)

_busy: List[Any] = []
"""Memory of regions that nobody holds any more and that could not be closed, because a peer is in the middle of a copy: it must not be freed."""


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


class _Loan:
    """Memory from ``allocate`` stays for as long as this lives, whatever becomes of its region."""

    __slots__ = ("_handle",)

    def __init__(self, region: MemoryRegion):
        self._handle = _table.checked(calls.regionLend(region._handle))

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if handle and _table.usable():
            word = calls.regionGiveBack(handle)
            _table.give_back(handle)
            if word < 0:
                _table.log().warning("memory that nobody uses any more stays until the process ends: %s", _table.take_failure(word)[0])


class DeviceView:
    """The bytes of device memory for whoever takes ``__cuda_array_interface__`` (torch, CuPy, Numba): ``region.device_view``.

    It keeps the region alive, and the memory; what is made of it keeps it.
    """

    __slots__ = ("region", "_owner", "__cuda_array_interface__", "__weakref__")

    def __init__(self, region: MemoryRegion, owner: Any, interface: Dict[str, Any]):
        self.region = region
        self._owner = owner
        self.__cuda_array_interface__ = interface


class MemoryRegion:
    """Registered memory: what transfers read from and write to, and what peers may name.

    Made by ``Endpoint.register``, ``register_pointer`` and ``allocate``; a context manager that closes it. It keeps the object alive whose
    memory it is. Dropped without ``close`` it is closed by its finaliser, before that memory is let go. Thread-safe.

    ``nbytes``, ``address`` (of the host or of the device), ``access`` (what peers may do) and ``endpoint`` say what it is.
    """

    __slots__ = (
        "_handle", "_owner", "_device", "_readonly", "_exported", "_remote",
        "nbytes", "address", "access", "endpoint", "__weakref__",
    )

    nbytes: int
    address: int
    offset = 0
    """As of the slice that is all of it."""

    def __init__(self, endpoint: Endpoint, handle: int, access: str, owner: Any, readonly: bool):
        self._owner = owner
        self._handle = handle
        self._readonly = readonly
        self._exported: Optional[weakref.ref[Any]] = None  # what arrays over its bytes hold
        self.endpoint = endpoint
        self.access = access
        out = ctypes.create_string_buffer(64)
        number = _table.checked(calls.regionInfo(_table.PAIR.pack(handle, ctypes.addressof(out))))
        self._device: Optional[int] = number - 1 if number else None  # in the driver's order
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
        if self._device is None:
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
        numbers = (ctypes.c_int64 * 2)(whole(count), whole(stride))
        sizes = ctypes.addressof(numbers)
        request = _table.SEXTUPLE.pack(self._handle, base, block_nbytes, 1, sizes, sizes + 8)
        return _pieces.MemoryPieces(_table.checked(calls.localStrided(request)), self)

    # --- its bytes -------------------------------------------------------------------------------

    @property
    def view(self) -> memoryview:
        """The bytes, of host memory. They stay for as long as it, or an array over it, is alive: once the region is closed (not only busy), they are nobody else's."""
        if self._device is not None:
            raise BufferError("memory of %s has no bytes on the host: use copy_out, or device_view and torch() on the device" % self.device)
        exporter = self._export()
        if exporter is None:
            owner = self._lend()
            exporter = cast(Any, ctypes.c_ubyte * self.nbytes).from_address(self.address)
            exporter.region = self  # arrays keep the region alive,
            exporter.owner = owner  # and the memory
            self._exported = weakref.ref(exporter)
        view = memoryview(exporter).cast("B")
        return view.toreadonly() if self._readonly else view

    @property
    def device_view(self) -> DeviceView:
        """The bytes, of device memory, for ``torch.as_tensor``, ``cupy.asarray`` and the like; they stay as those of ``view``."""
        if self._device is None:
            raise BufferError("this %r is host memory: use view, numpy() or torch()" % self)
        exporter: Optional[DeviceView] = self._export()
        if exporter is None:
            exporter = DeviceView(self, self._lend(), {
                "shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, self._readonly), "version": 3, "stream": None,
            })
            self._exported = weakref.ref(exporter)
        return exporter

    def _export(self) -> Any:
        """What arrays over the bytes hold, while there are some. Where two threads begin at once each has its own."""
        self._check_open()
        return None if self._exported is None else self._exported()

    def _lend(self) -> Any:
        """What keeps the memory, whichever thread closes the region meanwhile: its owner, or where it is Telpher's a loan."""
        owner = self._owner
        # None is of an allocated region, and of any that has been closed: that is no loan.
        return _Loan(self) if owner is None else owner

    def numpy(self, dtype: Any = "uint8", shape: Any = None) -> Any:
        """The bytes as a NumPy array."""
        import numpy

        found = numpy.frombuffer(self.view, dtype)
        return found if shape is None else found.reshape(shape)

    def torch(self, dtype: Any = None, shape: Any = None) -> Any:
        """The bytes as a torch tensor, of host or device memory. The tensor keeps the region alive."""
        import torch

        if self._device is not None:
            found = torch.as_tensor(self.device_view, device="cuda:%d" % self._device).view(dtype or torch.uint8)
        else:
            found = torch.frombuffer(self.view, dtype=dtype or torch.uint8)
        return found if shape is None else found.reshape(shape)

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

        Memory from ``allocate`` goes with it, or with the last array over it, whichever is later. Raises RegionBusy when a peer on this host is in
        the middle of a copy: then the memory must stay; close it again later.
        """
        if self._handle and _table.usable():
            self._close()

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

    def discard(self) -> None:
        """Closes what nobody holds any more; raises nothing. Memory that cannot be given back stays for as long as the process."""
        if not self._handle or not _table.usable():
            return
        try:
            self._close()
        except Exception as e:
            _busy.append(self._owner)
            self.ended()
            _table.log().warning("memory of a region that nobody holds stays until the process ends: %s", e)

    def __del__(self) -> None:
        if hasattr(self, "nbytes"):
            self.discard()


def _flat(thing: Any) -> _memory.Layout:
    of = _memory.layout(thing)
    if of.device or _memory.runs(of).shape:
        raise ValueError("copy_in and copy_out take contiguous host memory: make it so, or use a transfer, which takes any")
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
    return register_pointer(endpoint, found.address, found.span, kind, of.owner, access, of.readonly, shared)


def register_pointer(
    endpoint: Endpoint, address: int, nbytes: int, kind: int, owner: Any, access: str, readonly: bool, shared: bool = True
) -> MemoryRegion:
    """Registers memory by its address."""
    _table.check()
    if nbytes <= 0 or address <= 0:
        raise ValueError("not a range of memory: %d bytes at 0x%x" % (nbytes, address))
    request = _table.QUINTUPLE.pack(endpoint.handle(), address, nbytes, access_code(access), kind)
    handle = _table.checked(calls.register(request))
    # () says that the memory is not Telpher's, where the caller names no owner.
    region = MemoryRegion(endpoint, handle, access, () if owner is None else owner, readonly)
    endpoint.remember(region, shared)
    return region
