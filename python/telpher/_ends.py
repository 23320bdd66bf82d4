"""The thread that tells of the ends of transfers."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from . import _table
from ._errors import Closed
from ._table import calls

if TYPE_CHECKING:
    from ._transfer import PostedTransfer, Transfer

    Callback = Callable[[Transfer], object]

lock = threading.RLock()
"""Taken before a transfer's claim where both are."""
watched: Dict[int, PostedTransfer] = {}
"""Those whose ends are to be told, by their handles. Changed under ``lock``."""
_thread: Optional[threading.Thread] = None
_stopping = False
_HOUR = 3_600_000_000_000


def hold(transfer: PostedTransfer) -> None:
    """Keeps a transfer that is pending, its connection and the memory that was registered for it, whoever drops them: that thread lets them go at its
    end. Where no thread can be started (at interpreter exit, or there are too many) it stays until there is one: it is posted, so nothing is raised. Nor in a forked
    child, where nothing was posted, and the lock may be a thread's that is not there."""
    if not _table.usable():
        return
    with lock:
        if transfer._result is None:
            watch(transfer)
            try:
                have_thread()
            except RuntimeError:
                pass


def have_thread() -> None:
    """Starts the thread when there is none yet. RuntimeError where none can be started."""
    global _thread
    if _thread is None and not _stopping:
        thread = threading.Thread(target=_tell, name="telpher-callbacks", daemon=True)
        thread.start()
        _thread = thread


def watch(transfer: PostedTransfer) -> List[Callback]:
    """Has the thread told of the end of what is pending. Returns what is to be called then."""
    if transfer._callbacks is not None:
        return transfer._callbacks
    callbacks: List[Callback] = []
    transfer._callbacks = callbacks
    handle = transfer._handle
    watched[handle] = transfer
    word = calls.watch(handle)
    if word < 0:
        error = _table.take_failure(word)[0]
        if not isinstance(error, Closed):
            raise error
        calls.complete(handle)  # it has ended, and another thread has given its handle back
    return callbacks


def _tell() -> None:
    room = 64
    handles = (ctypes.c_int64 * room)()
    request = _table.TRIPLE.pack(_HOUR, ctypes.addressof(handles), room)
    while not _stopping:
        count = calls.completions(request)
        if count < 0:
            _table.log().error("the ends of transfers could not be read: %s", _table.take_failure(count)[0])
            time.sleep(0.1)
            continue
        for handle in handles[:count]:
            transfer, callbacks = _ended(handle)
            if transfer is not None:
                transfer._let_go()
            for fn in callbacks:
                try:
                    call(fn, transfer)
                except BaseException:  # SystemExit too: there are other callbacks to call
                    _table.log().exception("a callback of %r failed", transfer)
            del transfer, callbacks


def _ended(handle: int) -> Tuple[Any, List[Callback]]:
    """Takes the end of a posting, under the lock: once it is released the transfer may be posted again, and this thread must not touch its result."""
    with lock:
        transfer = watched.pop(handle, None)
        if transfer is None:
            return None, []
        if transfer._overtaken:
            transfer._overtaken -= 1
            if transfer._overtaken or transfer._callbacks is not None:
                watched[handle] = transfer  # more ends are to come
            return None, []
        try:
            # Twice, as the first may have been asked while its posting was not yet written down.
            for _ in range(2):
                if transfer._result is None:
                    transfer._hear(transfer._posting, calls.poll(handle))
        except Exception:
            _table.log().exception("the end of a transfer could not be read")
        callbacks, transfer._callbacks = transfer._callbacks, None
        return transfer, callbacks or []


def call(fn: Callback, transfer: Transfer) -> None:
    """Calls back; what fails is in the log."""
    try:
        fn(transfer)
    except Exception:  # what is to end the program is not held up: in the thread of the caller that is Ctrl-C
        _table.log().exception("a callback of %r failed", transfer)


def let_go() -> None:
    """At interpreter exit, when endpoints have been closed: what is held goes while there still are the modules that its finalisers use."""
    watched.clear()


def stop() -> None:
    """At interpreter exit: the thread ends, so that it is not in a foreign call when the interpreter goes."""
    global _stopping
    _stopping = True
    if _thread is not None and _table.usable():
        calls.complete(0)
        if _thread is not threading.current_thread():
            try:
                _thread.join(1)
            except RuntimeError:  # what is left to do at exit does not depend on it
                pass
