"""What goes wrong, as Python says it (docs/python.md, "Errors")."""

from __future__ import annotations

import struct
from typing import Any, List, Optional, Type


class Error(Exception):
    """Everything that goes wrong in Telpher beyond wrong arguments.

    The message names the thing, the value and, where there is one, the remedy.
    """


class PeerLost(Error, ConnectionError):
    """The peer died, restarted or cannot be reached any more."""


class ConnectFailed(Error, ConnectionError):
    """No connection came to be; ``attempts`` has every way that was tried, and how it failed."""

    attempts: List[str] = []


class ProtocolViolation(Error, ConnectionError):
    """The peer broke the protocol; the connection has been ended."""


class Closed(Error, ConnectionError):
    """The endpoint, connection or region was closed."""


class TimedOut(Error, TimeoutError):
    """A deadline passed, or a wait did: in the second case what was waited for goes on."""


class Cancelled(Error):
    """The transfer was cancelled."""


class AccessDenied(Error, PermissionError):
    """The owner does not allow this: wrong secret, wrong key, no right, outside of the region."""


class StaleRegion(Error):
    """The descriptor names a region that was closed, or an endpoint that restarted."""


class RegionBusy(Error):
    """A region cannot be given back yet: a peer is in the middle of a copy. Close it again later."""


class Truncated(Error):
    """A message was longer than the receive that it met: ``sent`` and ``capacity`` are bytes."""

    sent: int = 0
    capacity: int = 0


class Unsupported(Error):
    """This machine or this peer cannot do that."""


class NativeFailure(Error, OSError):
    """A call of the operating system or of a GPU's library failed: ``call``, ``errno``, and what it was called with."""

    call: str = ""
    arguments: List[str] = []


    def __reduce__(self) -> Any:
        return type(self), self.args, dict(vars(self), errno=self.errno)


class RankTaken(Error):
    """Another process that is alive has this rank of the job."""


class Superseded(Error):
    """This process was silent for longer than its lease, and another one has its rank now."""


class WorldDiffers(Error):
    """The ranks of a job do not agree on how many they are."""


class JvmError(Error):
    """There is no Java virtual machine that could be started here."""


class ForkedError(Error, RuntimeError):
    """This process was forked from one that had opened an endpoint."""


class InternalError(Error, RuntimeError):
    """A bug of Telpher: please report it with its message."""


class JavaError(Exception):
    """The cause of an error inside of Java: class and message."""


_KINDS = {
    kind.__name__: kind
    for kind in (
        PeerLost, ConnectFailed, ProtocolViolation, Closed, TimedOut, Cancelled, AccessDenied,
        StaleRegion, RegionBusy, Truncated, Unsupported, NativeFailure, RankTaken, Superseded, WorldDiffers,
    )
}  # type: dict[str, Type[BaseException]]
_KINDS.update(
    IllegalArgumentException=ValueError,
    IndexOutOfBoundsException=IndexError,
    IllegalStateException=RuntimeError,
    OutOfMemoryError=MemoryError,
)


class Ended:
    """How a transfer ended that is not done."""

    __slots__ = ("error", "state", "remote_quiet", "bytes_moved", "path")

    def __init__(self, error: BaseException, state: str, quiet: str, moved: str, path: str):
        self.error = error
        self.state = state.lower()
        self.remote_quiet = quiet == "YES"
        self.bytes_moved = int(moved)
        self.path = path


def again(error: BaseException) -> BaseException:
    """The same error for one more who hears of it. What was raised knows the frames that it went through, and whoever keeps it keeps all that they
    had: a transfer that did would be kept by itself."""
    import copy

    made = copy.copy(error)
    made.__cause__ = error.__cause__
    return made


def parts(data: bytes) -> List[bytes]:
    """Takes an answer apart that Request.add wrote."""
    found = []
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<i", data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def decode(data: bytes) -> "tuple[BaseException, Optional[Ended]]":
    """Reads what Failure.encode wrote: the exception, and the transfer's end if it is one's."""
    texts = [part.decode("utf-8", "replace") for part in parts(data)]
    name, message, first, second, cause, cause_message, stack = texts[:7]
    kind = _KINDS.get(name)
    if kind is None:
        error: BaseException = InternalError("%s: %s\n%s" % (name, message, stack))
    else:
        error = kind(message)
    if isinstance(error, Truncated):
        error.sent, error.capacity = int(first), int(second)
    elif isinstance(error, NativeFailure):
        error.call, arguments = first.split("\n", 1)
        error.arguments = arguments.split("\n") if arguments else []
        error.errno = int(second)
    elif isinstance(error, ConnectFailed):
        error.attempts = first.split("\n") if first else []
    if cause:
        error.__cause__ = JavaError("%s: %s" % (cause, cause_message))
    return error, Ended(error, *texts[7:11]) if len(texts) > 7 else None
