"""Keeps the handlers of faults in an order in which Python and the JVM both work.

The JVM needs SIGSEGV and its like for its own work; `faulthandler` takes them away from it whenever
it is enabled or disabled (docs/python.md, "Signals, faults").
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import os
import signal
import warnings
from typing import Any, Callable, Dict, Iterator

FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)

# The JVM suspends its threads by a signal, SIGUSR2 unless told otherwise; programs use that one.
SUSPEND = 62

_SIZE = 256  # more than struct sigaction has anywhere
_libc = ctypes.CDLL(None, use_errno=True)
_ours: Dict[int, bytes] = {}


def _get(number: int) -> bytes:
    action = ctypes.create_string_buffer(_SIZE)
    if _libc.sigaction(number, None, action) != 0:
        raise OSError(ctypes.get_errno(), "sigaction(%d)" % number)
    return action.raw


def _set(number: int, action: bytes) -> None:
    _libc.sigaction(number, ctypes.create_string_buffer(action, _SIZE), None)


def _handler(action: bytes) -> bytes:
    return action[: ctypes.sizeof(ctypes.c_void_p)]


def restore() -> bool:
    """Puts the JVM's handlers back in front. Returns whether one had been replaced."""
    replaced = False
    for number, action in _ours.items():
        if _handler(_get(number)) != _handler(action):
            replaced = True
            _set(number, action)
    return replaced


def check() -> None:
    """Looks whether somebody else has replaced a handler, and undoes it."""
    if restore():
        warnings.warn(
            "the JVM's handlers of SIGSEGV and the like had been replaced by another library; "
            "they are back, since the JVM does not work without them",
            RuntimeWarning,
            stacklevel=3,
        )


@contextlib.contextmanager
def around_start(running: Callable[[], bool]) -> Iterator[None]:
    """Wraps the start of the JVM. ``running``: whether it runs, which is asked whatever was raised: Ctrl-C may come when it has just started."""
    # The JVM passes faults that are not its own to the handler that it found. That must not be
    # faulthandler's, which does nothing while it is disabled: the fault would be repeated for ever.
    # As it is, the JVM aborts upon such a fault, and faulthandler reports the SIGABRT.
    before = {number: _get(number) for number in FAULTS} if faulthandler.is_enabled() else {}
    for number in before:
        _set(number, bytes(_SIZE))  # SIG_DFL
    variable = os.environ.get("_JAVA_SR_SIGNUM")
    os.environ["_JAVA_SR_SIGNUM"] = str(SUSPEND)
    try:
        yield
    finally:
        if running():
            for number in FAULTS:
                _ours[number] = _get(number)
            faulthandler.enable = _wrap(faulthandler.enable)
            faulthandler.disable = _wrap(faulthandler.disable)
        else:
            for number, action in before.items():
                _set(number, action)
        if variable is None:
            del os.environ["_JAVA_SR_SIGNUM"]
        else:
            os.environ["_JAVA_SR_SIGNUM"] = variable


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: object, **kwargs: object) -> object:
        try:
            return original(*args, **kwargs)
        finally:
            restore()

    return wrapper
