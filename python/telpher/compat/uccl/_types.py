"""Names that carry no work."""

from __future__ import annotations

import enum


class FloatType(enum.Enum):
    """What memory holds, which UCCL's compression wants to know. There is none here: accepted, and without effect."""

    kUndefined = 0
    kFloat16 = 1
    kBFloat16 = 2
    kFloat32 = 3
    kFloat8E4M3FN = 4
    kFloat8E5M2 = 5


class XferHandle:
    """Three read-only fields that no call of UCCL takes or returns."""

    def __init__(self) -> None:
        raise TypeError("XferHandle has no constructor, as in UCCL: transfer() returns (ok, transfer_id)")

    conn_id = property(lambda self: self._conn_id)
    op_name = property(lambda self: self._op_name)
    transfer_id = property(lambda self: self._transfer_id)
