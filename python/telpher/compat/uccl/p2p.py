"""``uccl.p2p`` on Telpher: every name of both generations, the two-sided of 2025 and the one-sided of today (docs/compat-uccl.md).

As in UCCL, results are booleans and tuples that begin with one. Where one is False the reason is logged to the logger ``telpher.compat``. Wrong use
of a call (lists of different lengths, descriptors that are none) raises RuntimeError, as there.
"""

from __future__ import annotations

from ._addresses import get_oob_ip
from ._endpoint import Endpoint
from ._memory import XferDesc
from ._types import FloatType, XferHandle

kUndefined = FloatType.kUndefined
kFloat16 = FloatType.kFloat16
kBFloat16 = FloatType.kBFloat16
kFloat32 = FloatType.kFloat32
kFloat8E4M3FN = FloatType.kFloat8E4M3FN
kFloat8E5M2 = FloatType.kFloat8E5M2

__all__ = [
    "Endpoint",
    "FloatType",
    "XferDesc",
    "XferHandle",
    "get_oob_ip",
    "kBFloat16",
    "kFloat16",
    "kFloat32",
    "kFloat8E4M3FN",
    "kFloat8E5M2",
    "kUndefined",
]
