"""The table of functions: one foreign call per operation, and what its numbers mean."""

from __future__ import annotations

import collections
import ctypes
import os
import struct
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional

from . import _jvm, _signals
from ._arguments import nanoseconds, whole
from ._errors import Ended, ForkedError, InternalError, JvmError, decode

VERSION = 8
"""Of the requests below; Bridge.java has the same."""

DONE = 1 << 62
SLICE = 50_000_000
"""Nanoseconds of one foreign call that waits: as long as Ctrl-C may take."""


class _Layout(struct.Struct):
    """A request that has numbers of the caller's: where one does not fit, it is said which."""

    def pack(self, *values: Any) -> bytes:
        """As that of any Struct. Raises TypeError or ValueError."""
        try:
            return super().pack(*values)
        except struct.error:
            for value in values:
                whole(value)
            raise


# Requests, in the order of the methods of the Java classes *Calls.
ONE_SIDED = struct.Struct("<5q48s")  # connection, region, offset, length, streams that it begins after, a peer's descriptor
MESSAGE = struct.Struct("<6q")  # connection, region, offset, length, streams that it begins after, tag
TRANSFER = _Layout("<14q")  # see TransferCalls.transfer; a descriptor follows
PAIR = struct.Struct("<2q")
TRIPLE = struct.Struct("<3q")
QUADRUPLE = _Layout("<4q")
QUINTUPLE = _Layout("<5q")
SEXTUPLE = _Layout("<6q")
SEPTUPLE = _Layout("<7q")
NO_REMOTE = bytes(48)

# Kinds of texts.
ENDPOINT_ADDRESS, ENDPOINT_EXPLAIN, ENDPOINT_METRICS, ENDPOINT_OPTIONS = range(4)
PEER_ADDRESS, CONNECTION_EXPLAIN, CONNECTION_METRICS = range(4, 7)
NOTIFICATION, FAILURE, PATHS, REGION_DEVICE, DEVICES, GROUP_ADDRESSES = range(7, 13)


class _Calls:
    """The functions, as attributes under their Java names."""


class _NoCalls(_Calls):
    """There are none until the first endpoint. A class of its own, since one with ``__getattr__`` costs each call a longer look for its function."""

    def __getattr__(self, name: str) -> Any:
        raise InternalError("%s was called before the JVM was started" % name)


calls: Any = _NoCalls()

_OF_HANDLES = frozenset((
    "endpointClose", "endpointPort", "regionClose", "regionLend", "regionGiveBack", "connectionClose", "connectionPoll", "connectionIsOpen", "connectionFailure",
    "taskAbandon", "post", "run", "poll", "postings", "cancel", "watch", "handles", "complete", "groupRank", "groupClose",
))
"""The functions that take a handle; the others take a request."""

_lock = threading.Lock()
_started_in: Optional[int] = None
_starting_in: Optional[int] = None
"""Set before there is any of a JVM: a child of that moment has a part of one, and a lock that nobody gives back."""


def start() -> None:
    """Starts the JVM unless it runs; raises in a forked child."""
    global _started_in, _starting_in
    here = os.getpid()
    if _started_in is None and _starting_in in (None, here):
        with _lock:
            if _started_in is None:
                _starting_in = here
                try:
                    _bind(_jvm.table())
                    _started_in = here
                finally:
                    if _started_in is None:
                        _starting_in = None
    if _started_in != here:
        _forked()
        _refuse()
    _signals.check()


def usable() -> bool:
    """Whether foreign calls can be made in this process: for finalisers."""
    return _started_in == os.getpid()


def check() -> None:
    """Raises in a forked child, for who is about to take a lock that another thread may have had at the fork."""
    if _started_in != os.getpid():
        start()


def _bind(address: int) -> None:
    version, count, names, length = (ctypes.c_int64 * 4).from_address(address)
    if version != VERSION:
        raise JvmError(
            "the jars in %s are of another release than the Python files beside them (table %d, wanted %d): "
            "install the package again" % (_jvm.jar_folder(), version, VERSION)
        )
    functions = (ctypes.c_void_p * count).from_address(address + 32)
    # CFUNCTYPE lets the GIL go around the call. Bytes are passed as their address without being declared, and quickest so; numbers would be cut to 32 bits.
    of_handle = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    of_request = ctypes.CFUNCTYPE(ctypes.c_int64)
    for name, function in zip(ctypes.string_at(names, length).decode().split("\n"), functions):
        setattr(calls, name, (of_handle if name in _OF_HANDLES else of_request)(function))
    calls.__class__ = _Calls


def _refuse(*_: object) -> Any:
    raise ForkedError(
        "process %d was forked from process %s, which had opened a telpher.Endpoint or was about to: threads, and so the JVM, do not "
        "survive a fork. Start such processes with multiprocessing.get_context('spawn') or 'forkserver', or open the "
        "first endpoint after the fork" % (os.getpid(), _starting_in)
    )


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not here may have had it
    if _starting_in is not None:
        for name in list(vars(calls)):
            setattr(calls, name, _refuse)


os.register_at_fork(after_in_child=_forked)


# --- results -----------------------------------------------------------------------------------------


def take_failure(word: int) -> "tuple[BaseException, Optional[Ended]]":
    """What a negative result stands for."""
    try:
        return decode(text(FAILURE, -word))
    finally:
        give_back(-word)
        collect()


def checked(word: int) -> int:
    """A result that is not a transfer's."""
    if word < 0:
        raise take_failure(word)[0]
    return word


def text(kind: int, handle: int = 0) -> bytes:
    """A result of any length: asked again with more room until it fits."""
    size = 1024
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = calls.text(QUADRUPLE.pack(kind, handle, ctypes.addressof(buffer), size))
        if length < 0 and kind == FAILURE and length == -handle:
            raise InternalError("failure %d cannot be read" % handle)
        checked(length)
        if length <= size:
            return buffer.raw[:length]
        size = length


def document(kind: int, handle: int = 0) -> Dict[str, Any]:
    """A text that is JSON."""
    import json

    found: Dict[str, Any] = json.loads(text(kind, handle))
    return found


def log() -> Any:
    """The logger of what nobody can be told by an exception."""
    import logging

    return logging.getLogger("telpher")


# --- handles -----------------------------------------------------------------------------------------

_returned: Deque[int] = collections.deque()


def give_back(handle: int) -> None:
    """Has a handle given back with others, by whoever makes a handle later: finalisers call this too."""
    _returned.append(handle)


def collect(least: int = 64) -> None:
    """Gives handles back if there are many. Raises nothing: what cannot be given back now, for want of memory, is so the next time."""
    if len(_returned) < least or not usable():
        return
    batch: List[int] = []
    while _returned:
        try:
            batch.append(_returned.popleft())
        except IndexError:  # another thread was faster
            break
    array = (ctypes.c_int64 * len(batch))(*batch)
    word = calls.release(PAIR.pack(len(batch), ctypes.addressof(array)))
    if word < 0:
        _returned.extend([*batch, -word])


_paths: List[str] = []


def path_name(word: int) -> str:
    """The path of a transfer that is done."""
    global _paths
    number = (word >> 48) & 0xFF
    if number >= len(_paths):
        _paths = text(PATHS).decode().split("\n")
    return _paths[number]


def in_slices(seconds: Optional[float], call: Callable[[int], int]) -> int:
    """Waits by many short calls until one returns something else than 0, or the time is over.

    Between two of them the interpreter handles signals.
    """
    if seconds is None:
        while True:
            word = call(SLICE)
            if word:
                return word
    end = time.monotonic_ns() + nanoseconds(seconds, "timeout")
    while True:
        left = end - time.monotonic_ns()
        word = call(min(SLICE, max(left, 0)))
        if word or left <= 0:
            return word
