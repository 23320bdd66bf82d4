"""Several ranges of memory as one: the sides of vectored transfers."""

from __future__ import annotations

import array
import ctypes
import sys
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Sequence, Tuple, Union

from . import _memory, _table
from ._table import calls
from ._values import RemoteMemory, address_of_bytes

if TYPE_CHECKING:
    from ._region import MemoryRegion, MemorySlice


_ORDER = "<" if sys.byteorder == "little" else ">"


class _Pieces:
    """Immutable, and made once: using it again costs nothing. Pieces are taken in their order, as if they were one range."""

    __slots__ = ("_handle", "_keep", "count", "nbytes", "__weakref__")

    def __init__(self, handle: int, keep: Any):
        self._handle = handle
        self._keep = keep  # regions, so that they live as long as this
        out = (ctypes.c_int64 * 2)()
        _table.checked(calls.piecesInfo(_table.PAIR.pack(handle, ctypes.addressof(out))))
        self.count: int = out[0]
        self.nbytes: int = out[1]
        _table.collect()

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return "%s(%d pieces, %d bytes)" % (type(self).__name__, self.count, self.nbytes)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if handle:
            _table.give_back(handle)


class MemoryPieces(_Pieces):
    """Ranges of this process's registered memory: made by ``MemoryRegion.blocks``, ``strided``, or ``of``."""

    __slots__ = ()

    def regions(self) -> Iterator[MemoryRegion]:
        """The regions that they lie in, some more than once."""
        for part in self._keep if isinstance(self._keep, list) else [self._keep]:
            if isinstance(part, MemoryPieces):
                yield from part.regions()
            else:
                region: Any = getattr(part, "region", part)  # a slice's, or itself
                yield region

    @staticmethod
    def of(parts: Sequence[Union[MemoryRegion, MemorySlice, MemoryPieces]]) -> MemoryPieces:
        """One after the other."""
        table: List[int] = []
        for part in parts:
            table += _part(part)
        packed = (ctypes.c_int64 * len(table))(*table)
        return MemoryPieces(
            _table.checked(calls.localJoin(_table.PAIR.pack(len(parts), ctypes.addressof(packed)))), list(parts)
        )

    @staticmethod
    def of_runs(region: MemoryRegion, runs: _memory.Runs) -> MemoryPieces:
        """The elements of a tensor in C order, in a region that holds them."""
        rank = len(runs.shape)
        numbers = (ctypes.c_int64 * max(2 * rank, 1))(*runs.shape, *runs.strides)
        sizes = ctypes.addressof(numbers)
        first = runs.address + runs.first - region.address
        request = _table.SEXTUPLE.pack(region._handle, first, runs.run, rank, sizes, sizes + 8 * rank)
        return MemoryPieces(_table.checked(calls.localStrided(request)), region)


def _part(part: Any) -> Tuple[int, int, int]:
    from ._region import MemoryRegion, MemorySlice

    if isinstance(part, MemoryPieces):
        return part._handle, 0, 0
    if isinstance(part, MemorySlice):
        return part.region._handle, part.offset, part.nbytes
    if isinstance(part, MemoryRegion):
        return part._handle, 0, part.nbytes
    raise TypeError("%s is no region, slice or pieces of one" % type(part).__name__)


class RemotePieces(_Pieces):
    """Ranges of one peer's memory: made by ``RemoteMemory.blocks``, ``strided``, or ``of``."""

    __slots__ = ()

    @staticmethod
    def of(parts: Iterable[RemoteMemory]) -> RemotePieces:
        """One after the other."""
        _table.start()
        data = b"".join(part._data for part in parts)
        request = _table.PAIR.pack(len(data) // RemoteMemory.SIZE, address_of_bytes(data))
        return RemotePieces(_table.checked(calls.remoteJoin(request)), None)

    @staticmethod
    def blocks(memory: RemoteMemory, indices: Any, block: int, base: int) -> RemotePieces:
        """See RemoteMemory.blocks."""
        _table.start()
        address, count, keep = numbers(indices)
        request = _table.QUINTUPLE.pack(0, base, block, count, address) + memory._data
        pieces = RemotePieces(_table.checked(calls.remoteBlocks(request)), None)
        del keep
        return pieces

    @staticmethod
    def strided(memory: RemoteMemory, block: int, stride: int, count: int, base: int) -> RemotePieces:
        """See RemoteMemory.strided."""
        _table.start()
        request = _table.QUADRUPLE.pack(base, block, stride, count) + memory._data
        return RemotePieces(_table.checked(calls.remoteStrided(request)), None)


def numbers(indices: Any) -> Tuple[int, int, Any]:
    """Address and length of an array of int64 with these numbers, and what keeps it alive."""
    if isinstance(indices, int):
        raise TypeError("indices are many: [%d] is one" % indices)
    if not isinstance(indices, (list, tuple, range)):
        of = _memory.layout(indices)
        if of.device:
            raise TypeError("the indices lie on a GPU: pass indices.cpu()")
        if len(of.shape) != 1:
            raise ValueError("indices have one dimension, these have the shape %s" % (of.shape,))
        kind = _kind(indices)
        if kind not in ("i", "u"):
            raise TypeError("indices are integers, these are %r" % (getattr(indices, "dtype", kind),))
        if of.itemsize == 8 and of.strides == (8,) and _is_native(indices):
            return of.address, of.shape[0], of.owner
        if hasattr(indices, "astype"):  # NumPy: other widths, other distances
            return numbers(indices.astype("int64", order="C", copy=True))
        if hasattr(indices, "long"):  # torch
            return numbers(indices.long().contiguous())
        if not _is_native(indices):
            raise TypeError("the indices are in the byte order of other machines")
    values = array.array("q", indices)
    return values.buffer_info()[0], len(values), values


def _is_native(indices: Any) -> bool:
    """Whether they are in this machine's byte order."""
    dtype = getattr(indices, "dtype", None)
    if dtype is not None:
        return bool(getattr(dtype, "isnative", True))  # torch has no other
    return memoryview(indices).format[0] not in "><!" or memoryview(indices).format[0] == _ORDER


def _kind(indices: Any) -> str:
    dtype: Any = getattr(indices, "dtype", None)
    if hasattr(dtype, "kind"):  # NumPy's
        return str(dtype.kind)
    if dtype is not None:
        name = str(dtype).rsplit(".", 1)[-1]
        return "u" if name.startswith("uint") else "i" if name.startswith("int") else name
    code = memoryview(indices).format.lstrip("@=<>!")
    return "i" if code in "bhilqn" else "u" if code in "BHILQN" else code
