"""One operation, and the thread that tells of ends."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterable, List, Optional, Tuple, Union

from . import _table
from ._errors import Closed, Ended, Error, TimedOut
from ._table import DONE, calls

if TYPE_CHECKING:
    from ._connection import Connection

_MOVED = (1 << 48) - 1
_IDLE = object()

Callback = Callable[["Transfer"], object]


class Transfer:
    """One operation. It ends once per posting, by its deadline and the engine's drain limit at the latest; from then on no byte of the
    caller's memory is touched (but see ``remote_quiet``). Thread-safe. ``await transfer`` gives ``bytes_moved``, as ``wait`` does.

    A transfer that is dropped goes on, but the regions that it uses are the caller's to keep: one that is closed ends it.
    """

    __slots__ = ("_connection", "_handle", "_result", "_prepared", "_keep", "_callbacks", "_overtaken", "__weakref__")

    def __init__(self, connection: Connection, word: int, keep: Any, prepared: bool = False):
        self._connection = connection
        self._keep = keep
        self._prepared = prepared
        self._callbacks: Optional[List[Callback]] = None
        # None while pending, the word of a transfer that is done, or how it ended otherwise.
        self._result: Union[None, int, Ended, object] = None
        if word >= DONE:
            self._handle = 0
            self._result = word
        else:
            self._handle = word
            self._overtaken = 0  # ends that the callback thread will hear of, but whose callbacks have been called
            if prepared:
                self._result = _IDLE
            _table.collect()

    # --- its end -----------------------------------------------------------------------------------

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for the end. Returns the bytes moved, which for a receive is the exact length of the message.

        ``timeout``: seconds; None waits for the end, which comes by the transfer's deadline. Raises the transfer's own error when it did not
        end as done, or TimedOut when the time is over: then the transfer goes on (``done()`` is False). Ctrl-C ends the wait, not the transfer.
        """
        if self._result is None:
            self._wait(timeout)
        return self._outcome()

    def _wait(self, timeout: Optional[float]) -> None:
        handle = self._handle
        word = _table.in_slices(timeout, lambda nanos: self._wait_once(handle, nanos))
        if not word:
            raise TimedOut(
                "the transfer has not ended within %g s; it goes on until its own deadline" % (timeout or 0)
            )

    def _wait_once(self, handle: int, nanos: int) -> int:
        """Non-zero when the transfer has ended."""
        return self._settle(calls.waitFor(_table.PAIR.pack(handle, nanos)))

    def done(self) -> bool:
        """Whether it has ended, in whatever way. Makes progress, so it can be polled."""
        return self._result is not None and self._result is not _IDLE or self._handle != 0 and bool(self._poll())

    def _poll(self) -> int:
        if self._result is _IDLE:
            return 0
        return self._settle(calls.poll(self._handle))

    def _settle(self, word: int) -> int:
        """Takes what a call said of this transfer. Returns 0 while it is pending."""
        if word == 0:
            return 0
        result: Union[int, Ended] = word
        if word < 0:
            error, ended = _table.take_failure(word)
            if ended is None:
                # Another thread has seen the end and given the handle back in the meantime.
                if isinstance(error, Closed) and self._result is not None:
                    return 1
                raise error
            result = ended
        self._result = result
        if not self._prepared:
            # Only now: whoever still holds the number finds the result here.
            _table.give_back(self._handle)
            self._connection.ended(self)
            self._keep = None
        return 1

    def _outcome(self) -> int:
        result = self._result
        if type(result) is int:
            return result & _MOVED
        if isinstance(result, Ended):
            raise result.error
        raise RuntimeError("this transfer was not posted")

    # --- asking ------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """``"idle"`` (prepared), ``"pending"``, ``"done"``, ``"failed"``, ``"timed_out"`` or ``"cancelled"``; makes no progress."""
        result = self._result
        if type(result) is int:
            return "done"
        if isinstance(result, Ended):
            return result.state
        return "pending" if result is None else "idle"

    @property
    def bytes_moved(self) -> int:
        """Bytes known to be in the target's memory; 0 while it is pending."""
        result = self._result
        return result & _MOVED if type(result) is int else result.bytes_moved if isinstance(result, Ended) else 0

    @property
    def path(self) -> str:
        """The path that the bytes took, as ``"mapped"`` or ``"tcp"``; empty while it is pending."""
        result = self._result
        return _table.path_name(result) if type(result) is int else result.path if isinstance(result, Ended) else ""

    @property
    def remote_quiet(self) -> bool:
        """Whether it is known that no byte of this transfer will touch the peer's memory any more (of a receive: this side's)."""
        result = self._result
        return type(result) is int or isinstance(result, Ended) and result.remote_quiet

    def exception(self) -> Optional[BaseException]:
        """Why it did not end as done; None when it did, or has not ended."""
        result = self._result
        return result.error if isinstance(result, Ended) else None

    def cancel(self) -> bool:
        """Asks for an early end, which follows within the drain limit. Returns False when it had ended already."""
        if self._result is not None:
            return False
        word = calls.cancel(self._handle)
        if word < 0:
            error = _table.take_failure(word)[0]
            if isinstance(error, Closed) and self._result is not None:
                return False
            raise error
        return word == 1

    # --- prepared transfers ------------------------------------------------------------------------

    def post(self) -> Transfer:
        """Posts a transfer of one of the ``prepare`` methods, again once it has ended. Returns itself."""
        self._begin()
        word = calls.post(self._handle)
        if word:
            self._posted(word)
        return self

    def run(self, timeout: Optional[float] = None) -> int:
        """``post`` and ``wait`` in one call into the engine: the fastest way."""
        self._begin()
        word = calls.run(self._handle)
        if word >= DONE:
            self._result = word
            return word & _MOVED
        if word:
            self._posted(word)
        return self.wait(timeout)

    def _begin(self) -> None:
        if not self._prepared:
            raise RuntimeError("only transfers of the prepare methods can be posted")
        if self._result is None:
            raise RuntimeError("this transfer is pending; wait for its end first")
        if self._callbacks is not None:
            # Of the posting before: the callback thread has not come to them yet.
            with _watch_lock:
                callbacks, self._callbacks = self._callbacks, None
                if callbacks is not None:
                    self._overtaken += 1
            for fn in callbacks or ():
                _call(fn, self)
        self._result = None

    def _posted(self, word: int) -> None:
        try:
            self._settle(word)
        except BaseException:
            self._result = _IDLE
            raise

    # --- callbacks -----------------------------------------------------------------------------------

    def add_done_callback(self, fn: Callback) -> None:
        """Calls ``fn(transfer)`` once when the current posting ends, in whatever way: on the thread ``telpher-callbacks``, or at once in this
        one when it has ended. What it raises is logged to the logger ``telpher``. It should be short: all callbacks share that thread."""
        with _watch_lock:
            if self._result is None:
                if self._callbacks is None:
                    self._callbacks = []
                    _watch(self)
                self._callbacks.append(fn)
                return
        if self._result is _IDLE:
            raise RuntimeError("this transfer was not posted")
        _call(fn, self)

    def __await__(self) -> Generator[Any, None, int]:
        if self._result is None and not self._poll():
            import asyncio  # here, since it is most of what importing this package would cost

            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def ended(_: Transfer) -> None:
                try:
                    loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))
                except RuntimeError:  # the loop is closed: nobody waits any more
                    pass

            self.add_done_callback(ended)
            yield from future.__await__()
        return self._outcome()

    def __repr__(self) -> str:
        return "Transfer(%s)" % self.state

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if handle:
            _table.give_back(handle)


def wait_all(transfers: Iterable[Transfer], timeout: Optional[float] = None) -> None:
    """Waits for all of them within one time limit; then raises the first error, if there is one."""
    end = None if timeout is None else time.monotonic() + timeout
    first: Optional[Error] = None
    for transfer in transfers:
        try:
            transfer.wait(None if end is None else max(0.0, end - time.monotonic()))
        except Error as e:
            if not transfer.done():
                raise
            first = first or e
    if first is not None:
        raise first


# --- the thread that tells of ends -----------------------------------------------------------------------

_watch_lock = threading.RLock()
_watched: Dict[int, Transfer] = {}
_thread: Optional[threading.Thread] = None
_stopping = False
_HOUR = 3_600_000_000_000


def _watch(transfer: Transfer) -> None:
    global _thread
    if _thread is None and not _stopping:
        _thread = threading.Thread(target=_tell, name="telpher-callbacks", daemon=True)
        _thread.start()
    handle = transfer._handle
    _watched[handle] = transfer
    word = calls.watch(handle)
    if word < 0:
        error = _table.take_failure(word)[0]
        if not isinstance(error, Closed):
            raise error
        calls.complete(handle)  # it has ended, and another thread has given its handle back


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
            for fn in callbacks:
                _call(fn, transfer)
            del transfer, callbacks


def _ended(handle: int) -> Tuple[Any, List[Callback]]:
    """Takes the end of a posting, under the lock: once it is released the transfer may be posted again, and this thread must not touch its result."""
    with _watch_lock:
        transfer = _watched.pop(handle, None)
        if transfer is None:
            return None, []
        if transfer._overtaken:
            transfer._overtaken -= 1
            if transfer._overtaken or transfer._callbacks is not None:
                _watched[handle] = transfer  # more ends are to come
            return None, []
        try:
            if transfer._result is None:
                transfer._poll()
        except Exception:
            _table.log().exception("the end of a transfer could not be read")
        callbacks, transfer._callbacks = transfer._callbacks, None
        return transfer, callbacks or []


def _call(fn: Callback, transfer: Transfer) -> None:
    try:
        fn(transfer)
    except BaseException:  # SystemExit too: the thread has other callbacks to call
        _table.log().exception("a callback of %r failed", transfer)


def stop_callbacks() -> None:
    """At interpreter exit: the thread ends, so that it is not in a foreign call when the interpreter goes."""
    global _stopping
    _stopping = True
    if _thread is not None and _table.usable():
        calls.complete(0)
        if _thread is not threading.current_thread():
            _thread.join(1)
