"""What the start of a JVM would change of its host process, beyond signals (docs/python.md, "The host process")."""

from __future__ import annotations

import contextlib
import ctypes
import locale
import resource
from typing import Iterator

_MEGABYTE = 1 << 20
_LEAST, _UNLIMITED, _MOST = 1, 8, 1024
"""Megabytes of a stack: what any JVM takes, what stands for no limit, and the most that it takes."""

_CORE_FILTER = "/proc/self/coredump_filter"


def stack_option() -> str:
    """The JVM's option by which the main thread keeps the stack that it has: HotSpot puts its guard pages after as much of it as Java threads have,
    1 MiB unless told otherwise, and C code that goes deeper would fault without a word."""
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    megabytes = _UNLIMITED if soft == resource.RLIM_INFINITY else -(-soft // _MEGABYTE)
    return "-Xss%dm" % min(max(megabytes, _LEAST), _MOST)


@contextlib.contextmanager
def as_it_was() -> Iterator[None]:
    """Wraps the start of the JVM: sets again what that changes of the process."""
    setlocale = ctypes.CDLL(None).setlocale
    setlocale.restype = ctypes.c_char_p
    # By C's function: Python's would translate names, and refuse those that it cannot read.
    before = setlocale(locale.LC_ALL, None)
    core = _core_filter()
    try:
        yield
    finally:
        # The JDK calls setlocale(LC_ALL, ""), after which C code of a German user reads 1.5 as 1.
        setlocale(locale.LC_ALL, before)
        # HotSpot adds files that are mapped and shared, as regions are: every core file would hold them.
        if core and core != _core_filter():
            with contextlib.suppress(OSError), open(_CORE_FILTER, "w", encoding="ascii") as file:
                file.write("0x" + core)


def _core_filter() -> str:
    """As a number to the base of 16; empty where the kernel has none."""
    try:
        with open(_CORE_FILTER, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
