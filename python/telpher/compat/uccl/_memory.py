"""Registered memory by its numbers, and descriptors as 64 bytes."""

from __future__ import annotations

import functools
import itertools
import struct
import threading
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ... import Endpoint, MemoryRegion, MemorySlice, RemoteMemory, _table
from ._addresses import Refused, log

NO_ID = (1 << 64) - 1

_BLOB = struct.Struct("<8s48sQ")
_MAGIC = b"TLPR-P2P"


class Registration(NamedTuple):
    """What one memory id stands for: the bytes from ``start`` on, within a region that other ids may share."""

    region: MemoryRegion
    start: int
    nbytes: int


class Registrations:
    """The memory ids of an endpoint. Memory inside of a region that is registered shares that region; it closes with its last id."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._by_id: Dict[int, Registration] = {}
        self._uses: Dict[MemoryRegion, int] = {}
        self._allocations: Dict[MemoryRegion, int] = {}
        self._advertised: Dict[Tuple[int, int], int] = {}

    def add(self, pointer: int, nbytes: int) -> int:
        """Registers; returns a new id."""
        with self._lock:
            region = self._find(pointer, nbytes)
            if region is None:
                region = self._endpoint.register_pointer(pointer, nbytes)
                if region._device is not None:
                    self._allocations[region] = _allocation(pointer)
            self._uses[region] = self._uses.get(region, 0) + 1
            number = next(self._numbers)
            self._by_id[number] = Registration(region, pointer, nbytes)
        return number

    def remove(self, number: int) -> None:
        """Gives an id back; the last one of a region closes it."""
        with self._lock:
            found = self._by_id.pop(number, None)
            if found is None:
                raise Refused("no memory is registered as %d" % number)
            self._uses[found.region] -= 1
            last = not self._uses[found.region]
            if last:
                del self._uses[found.region]
                self._allocations.pop(found.region, None)
        if last:
            found.region.close()

    def get(self, number: int) -> Registration:
        """Raises Refused."""
        found = self._by_id.get(number)
        if found is None:
            raise Refused("no memory is registered as %d" % number)
        return found

    def slice(self, number: int, pointer: int, nbytes: int) -> MemorySlice:
        """Bytes of registered memory."""
        pointer, nbytes = int(pointer), int(nbytes)  # NumPy's unsigned integers become floats when they are subtracted from
        region, start, length = self.get(number)
        if not start <= pointer <= pointer + nbytes <= start + length:
            raise Refused(
                "%d bytes at 0x%x do not lie inside memory %d, which is %d bytes at 0x%x" % (nbytes, pointer, number, length, start)
            )
        return MemorySlice(region, pointer - region.address, nbytes)

    def room(self, number: int, pointer: int, nbytes: int) -> MemorySlice:
        """As ``slice``, for a message of at most so many bytes: what lies past the end of the memory is cut off, with a warning."""
        _, start, length = self.get(number)
        pointer, nbytes = int(pointer), int(nbytes)
        inside = start + length - pointer
        if start <= pointer and 0 < inside < nbytes:
            log.warning("recv: memory %d ends %d bytes before the %d that were asked for; a longer message will fail", number, nbytes - inside, nbytes)
            nbytes = inside
        return self.slice(number, pointer, nbytes)

    def describe(self, number: int, pointer: int, nbytes: int) -> bytes:
        """The descriptor of registered memory, or by pointer where the id is 0."""
        if number == 0:
            return self.advertised(int(pointer), int(nbytes))
        return describe(self.slice(number, pointer, nbytes))

    def by_pointer(self, pointer: int, nbytes: int) -> Tuple[MemorySlice, List[MemoryRegion]]:
        """Bytes that were given without an id, and what was registered for them alone: close it when they have been moved."""
        with self._lock:
            region = self._find(pointer, nbytes)
        if region is not None:
            return MemorySlice(region, pointer - region.address, nbytes), []
        region = self._endpoint.register_pointer(pointer, nbytes, access="none")
        return MemorySlice(region, 0, nbytes), [region]

    def advertised(self, pointer: int, nbytes: int) -> bytes:
        """The descriptor of memory that was given without an id. Nothing ends it but the endpoint, or other memory that is advertised at its address:
        UCCL has no call for that."""
        key = (pointer, nbytes)
        number = self._advertised.get(key)
        if number is not None and not self._is_current(self.get(number).region, pointer):
            if self._advertised.pop(key, None) == number:  # of several threads one
                self.remove(number)
            number = None
        if number is None:
            number = self._advertised[key] = self.add(pointer, nbytes)
        return describe(self.slice(number, pointer, nbytes))

    def _find(self, pointer: int, nbytes: int) -> Optional[MemoryRegion]:
        """The region that is registered here and holds these bytes. Called with the lock."""
        region = self._endpoint.covering(pointer, nbytes)
        return region if region is not None and region in self._uses and self._is_current(region, pointer) else None

    def _is_current(self, region: MemoryRegion, pointer: int) -> bool:
        """False where a GPU has other memory at this address by now: it was freed, and the driver gave the address out again.

        Raises Refused where it has none.
        """
        before = self._allocations.get(region)
        now = before if before is None else _allocation(pointer)
        if now == 0 and before:
            raise Refused("a GPU's memory at 0x%x was registered, and has been freed since: dereg() it before that" % pointer)
        return now == before


def _allocation(pointer: int) -> int:
    """The driver's number of the allocation that a GPU has at an address now, another for each; 0 where there is none."""
    return _table.checked(_table.calls.deviceAllocation(_table.PAIR.pack(pointer, 1)))


def describe(local: MemorySlice) -> bytes:
    """The 64 bytes that a peer needs to read and write them."""
    whole = local.region.remote
    return _BLOB.pack(_MAGIC, bytes(whole[local.offset : local.offset + local.nbytes]), local.region.address + local.offset)


@functools.lru_cache(maxsize=16384)
def _decoded(blob: bytes, nbytes: int) -> RemoteMemory:
    magic, data, _ = _BLOB.unpack(blob)
    if magic != _MAGIC:
        raise Refused("a descriptor starts with %r: it was not made by Telpher's advertise, or has been changed" % magic)
    found = RemoteMemory(data)
    if found.nbytes < nbytes:
        raise Refused("%d bytes do not fit into the %d that were advertised" % (nbytes, found.nbytes))
    return found[:nbytes]


def remote(blob: Any, nbytes: int) -> RemoteMemory:
    """The peer's memory behind a descriptor, cut to the bytes of this transfer."""
    data = bytes(blob)
    if len(data) != _BLOB.size:
        raise RuntimeError("a descriptor has %d bytes, this one has %d" % (_BLOB.size, len(data)))
    return _decoded(data, int(nbytes))


class XferDesc:
    """Memory for ``Endpoint.transfer``: its own with an ``mr_id``, or a peer's from ``deserialize_descs``. Fields can be read like a dict's."""

    _FIELDS = ("addr", "size", "mr_id", "lkeys", "rkeys")

    def __init__(self) -> None:
        self.addr = 0
        self.size = 0
        self.mr_id = NO_ID
        self.lkeys: List[int] = []
        self.rkeys: List[int] = []
        self.descriptor = b""

    @staticmethod
    def of(number: int, local: MemorySlice) -> XferDesc:
        made = XferDesc()
        made.addr, made.size, made.mr_id = local.region.address + local.offset, local.nbytes, number
        made.descriptor = describe(local)
        # UCCL has one key for each of four NICs. Equal keys say: one registration.
        key = struct.unpack_from("<i", bytes(local.region.remote), 8)[0] & 0xFFFFFFFF
        made.lkeys, made.rkeys = [key] * 4, [key] * 4
        return made

    def __getitem__(self, field: str) -> Any:
        if field not in self._FIELDS:
            raise KeyError(field)
        return getattr(self, field)

    def __contains__(self, field: object) -> bool:
        return field in self._FIELDS

    def __repr__(self) -> str:
        return "<XferDesc addr=%d size=%d mr_id=%d>" % (self.addr, self.size, self.mr_id)


def serialize(descriptions: Iterable[XferDesc]) -> bytes:
    """Count, then for each: address, size, keys of both kinds, descriptor; lengths and numbers have 8 bytes, keys 4."""
    descriptions = list(descriptions)
    parts = [struct.pack("<Q", len(descriptions))]
    for each in descriptions:
        count = len(each.lkeys)
        parts.append(struct.pack("<QQQ%dI" % (2 * count), each.addr, each.size, count, *each.lkeys, *each.rkeys))
        parts.append(struct.pack("<Q", len(each.descriptor)) + each.descriptor)
    return b"".join(parts)


def deserialize(data: bytes) -> List[XferDesc]:
    """Raises RuntimeError for what ``serialize`` did not make."""
    if not data:
        return []
    try:
        (count,) = struct.unpack_from("<Q", data)
        at, made = 8, []
        for _ in range(count):
            each = XferDesc()
            each.addr, each.size, keys = struct.unpack_from("<QQQ", data, at)
            at += 24
            if keys > len(data):
                raise ValueError("%d keys" % keys)
            found = struct.unpack_from("<%dI" % (2 * keys), data, at)
            each.lkeys, each.rkeys = list(found[:keys]), list(found[keys:])
            at += 8 * keys
            (length,) = struct.unpack_from("<Q", data, at)
            each.descriptor = data[at + 8 : at + 8 + length]
            at += 8 + length
            if at > len(data):
                raise ValueError("it ends within a descriptor")
            made.append(each)
        return made
    except (struct.error, ValueError) as e:
        raise RuntimeError("these %d bytes are not serialized descriptors: %s" % (len(data), e)) from e
