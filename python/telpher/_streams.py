"""The order of transfers and of work on CUDA streams: ``stream=`` (docs/python.md, "Streams")."""

from __future__ import annotations

import itertools
import struct
from typing import Any, Dict, List, Optional, Tuple

from ._memory import Exported, loaded_torch
from ._values import address_of_bytes

CURRENT = "current"

Holders = Dict[int, List[Any]]
"""By the number of a device, in the driver's order: the objects whose memory of it is used."""

NONE = (-1, 0)
"""No stream, as device and handle."""

_LEGACY_DEFAULT = 1


def place(stream: Any, holders: Holders) -> Tuple[int, int]:
    """Device and handle of the stream in whose order a transfer is to be; ``NONE`` for ``"current"`` and None, which put it into no stream."""
    if stream is None or is_current(stream):
        return NONE
    handle = _handle(stream)
    if handle is None:
        raise TypeError(
            "stream=%r: 'current', None, a stream's number, or an object with __cuda_stream__, cuda_stream or ptr, "
            "such as torch.cuda.Stream" % (stream,)
        )
    device = _device(stream)
    if device is None:
        if len(holders) != 1:
            raise ValueError(
                "stream=%r does not say which device it is of, and the transfer has memory of %s: pass an object that has a "
                "device, such as torch.cuda.Stream or torch.cuda.ExternalStream"
                % (stream, "devices %s" % ", ".join(map(str, sorted(holders))) if holders else "no device")
            )
        (device,) = holders
    return device, handle


def is_current(stream: Any) -> bool:
    """Whether it is the word, whatever objects think of being compared with one."""
    return isinstance(stream, str) and stream == CURRENT


def _handle(stream: Any) -> Optional[int]:
    if isinstance(stream, int):
        return None if isinstance(stream, bool) else stream
    told = getattr(stream, "__cuda_stream__", None)  # (0, handle): CUDA's own protocol; a property in its first version
    if told is not None:
        return int((told() if callable(told) else told)[1])
    for name in ("cuda_stream", "ptr"):  # torch; CuPy
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    return None


def _device(stream: Any) -> Optional[int]:
    of = getattr(stream, "device", stream)
    for name in ("index", "device_id"):  # torch; CuPy, cuda.core
        number = getattr(of, name, None)
        if isinstance(number, int) and number >= 0:
            return number
    return None


def current(holders: Holders) -> bytes:
    """The streams on which what has been launched up to now writes or reads the bytes: of each device the one that is torch's current one there in
    this thread, and the one that an object's own interface names now. As the engine takes them (TransferCalls.after); empty where there is none.

    Whoever passes their ``address`` keeps them until the call has returned.
    """
    torch = loaded_torch()
    launching = torch is not None and torch.cuda.is_initialized()
    found: Dict[Tuple[int, int], None] = {}
    for device, objects in holders.items():
        if launching:
            found[device, torch.cuda.current_stream(device).cuda_stream] = None
        for each in objects:
            number = _own_stream(each, torch)
            if number is not None:
                found[device, number] = None
    if not found:
        return b""
    return struct.pack("<%dq" % (1 + 2 * len(found)), len(found), *itertools.chain.from_iterable(found))


def address(streams: bytes) -> int:
    """Where they lie; 0 for none."""
    return address_of_bytes(streams) if streams else 0


def _own_stream(thing: Any, torch: Any) -> Optional[int]:
    """What an object says of the stream on which its bytes are made, None where it says nothing; torch's tensors do not know."""
    if torch is not None and isinstance(thing, torch.Tensor):
        return None
    if not isinstance(thing, Exported):
        return (getattr(thing, "__cuda_array_interface__", None) or {}).get("stream")
    thing.by.__dlpack__()  # orders its work before the legacy default stream, by DLPack's rules
    return _LEGACY_DEFAULT
