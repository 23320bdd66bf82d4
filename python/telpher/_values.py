"""Values that travel as bytes: addresses, descriptors of memory, updates of counters."""

from __future__ import annotations

import ctypes
import operator
import struct
from typing import TYPE_CHECKING, Any, Tuple, Union

from . import _table
from ._arguments import as_bytes, as_secret, as_text, whole
from ._table import calls

if TYPE_CHECKING:
    from ._pieces import RemotePieces

ACCESS = ("none", "r", "w", "rw")


def access_code(access: str) -> int:
    """The number of an access by its name."""
    try:
        return ACCESS.index(access)
    except ValueError:
        raise ValueError("access %r: write one of %s" % (access, ", ".join(map(repr, ACCESS)))) from None


def as_range(part: Any, size: int) -> Tuple[int, int]:
    """Offset and length of a slice. Unlike a list's it must lie inside: fewer bytes than asked for would be an error that nobody sees."""
    if not isinstance(part, slice):
        raise TypeError("memory is sliced by ranges of bytes: memory[start:stop]")
    if part.step not in (None, 1):
        raise ValueError("memory[%s:%s:%s]: for distances use blocks() or strided()" % (part.start, part.stop, part.step))
    start = 0 if part.start is None else operator.index(part.start)
    stop = size if part.stop is None else operator.index(part.stop)
    start += size if start < 0 else 0
    stop += size if stop < 0 else 0
    if not 0 <= start <= stop <= size:
        raise IndexError("[%s:%s] does not lie inside %d bytes" % (part.start, part.stop, size))
    return start, stop - start


class EndpointAddress:
    """Every way to reach an endpoint, its incarnation and its secret. Whoever has it may connect: pass it on like a password.

    Made from its bytes or its text. ``bytes(address)``, ``address.text`` and pickles hold the secret; ``repr`` does not.
    """

    __slots__ = ("_data",)
    _PREFIX = "telpher1:"

    def __init__(self, data: Union[bytes, str]):
        if isinstance(data, str):
            stripped = data.strip()
            if not stripped.startswith(self._PREFIX):
                raise ValueError("an endpoint address starts with %r; for a host and a port use EndpointAddress.of" % self._PREFIX)
            import base64

            code = stripped[len(self._PREFIX) :]
            try:
                data = base64.b64decode(code + "=" * (-len(code) % 4), b"-_", validate=True)
            except ValueError as e:
                raise ValueError("this endpoint address has been changed: %s" % e) from None
        self._data = as_bytes(data, "an endpoint address")

    @staticmethod
    def of(host: str, port: int, secret: Union[bytes, str]) -> EndpointAddress:
        """An address of which only a host (name or literal), a TCP port and the secret (16 to 64 bytes) are known."""
        _table.start()
        name = as_text(host, "host")
        key = as_secret(secret)
        buffer = ctypes.create_string_buffer(4096)
        length = _table.checked(
            calls.addressOf(
                _table.SEPTUPLE.pack(
                    _address(name), len(name), port, _address(key), len(key), ctypes.addressof(buffer), 4096
                )
            )
        )
        return EndpointAddress(buffer.raw[:length])

    @property
    def text(self) -> str:
        """The printable form, secret included."""
        import base64

        return self._PREFIX + base64.urlsafe_b64encode(self._data).rstrip(b"=").decode()

    def __bytes__(self) -> bytes:
        return self._data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EndpointAddress) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __reduce__(self) -> Any:
        return EndpointAddress, (self._data,)

    def __repr__(self) -> str:
        return "EndpointAddress(%d bytes)" % len(self._data)


def _address(data: bytes) -> int:
    """Where the bytes of a live bytes object lie."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


address_of_bytes = _address


class RemoteMemory:
    """A peer's region, or a range of it: 48 bytes that travel by any means (``bytes``, pickle).

    It names one life of one region: once the region is closed or its owner has restarted, every use raises ``StaleRegion`` and touches
    nothing. ``memory[start:stop]`` is a range of it, in bytes.
    """

    __slots__ = ("_data", "nbytes")
    nbytes: int
    SIZE = 48
    _LAYOUT = struct.Struct("<qiiqqqB7x")

    def __init__(self, data: bytes):
        data = as_bytes(data, "a descriptor of memory")
        if len(data) != self.SIZE:
            raise ValueError("a descriptor of memory has 48 bytes, these are %d" % len(data))
        *_, offset, self.nbytes, access = self._LAYOUT.unpack(data)
        if access >= len(ACCESS) or self.nbytes < 0 or offset < 0:
            raise ValueError("these 48 bytes are no descriptor of memory: access %d, offset %d, length %d" % (access, offset, self.nbytes))
        self._data = data

    @property
    def access(self) -> str:
        """What the owner allows: ``"none"``, ``"r"``, ``"w"``, ``"rw"``."""
        return ACCESS[self._data[40]]

    def __getitem__(self, part: slice) -> RemoteMemory:
        start, length = as_range(part, self.nbytes)
        incarnation, region, generation, key, offset, _, access = self._LAYOUT.unpack(self._data)
        return RemoteMemory(self._LAYOUT.pack(incarnation, region, generation, key, offset + start, length, access))

    def blocks(self, indices: Any, block_nbytes: int, *, base: int = 0) -> RemotePieces:
        """Equal blocks by their numbers, as ``MemoryRegion.blocks``: the remote side of a paged transfer (``RemotePieces``)."""
        from ._pieces import RemotePieces

        return RemotePieces.blocks(self, indices, block_nbytes, base)

    def strided(self, block_nbytes: int, stride: int, count: int, *, base: int = 0) -> RemotePieces:
        """Equal blocks at equal distances (``RemotePieces``)."""
        from ._pieces import RemotePieces

        return RemotePieces.strided(self, block_nbytes, stride, count, base)

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return self.nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteMemory) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __reduce__(self) -> Any:
        return RemoteMemory, (self._data,)

    def __repr__(self) -> str:
        incarnation, region, generation, _, offset, length, _ = self._LAYOUT.unpack(self._data)
        return "RemoteMemory(%016x region %d.%d, offset %d, %d bytes, %s)" % (
            incarnation & (1 << 64) - 1, region, generation, offset, length, self.access,
        )


class CounterUpdate:
    """A change of a 64-bit word in the peer's memory, made after all bytes of its write are there.

    ``memory`` is the word (at least 8 bytes, at a multiple of 8); ``kind`` is ``"add"`` (atomic among Telpher's updates) or ``"set"``.
    """

    __slots__ = ("memory", "kind", "value")

    def __init__(self, memory: RemoteMemory, kind: str, value: int):
        if kind not in ("add", "set"):
            raise ValueError("a counter update of kind %r: write 'add' or 'set'" % (kind,))
        if not isinstance(memory, RemoteMemory):
            raise TypeError("a counter is 8 bytes of a peer's memory, a RemoteMemory, not %s" % type(memory).__name__)
        self.memory, self.kind, self.value = memory, kind, whole(value)

    def __repr__(self) -> str:
        return "CounterUpdate(%r, %r, %d)" % (self.memory, self.kind, self.value)
