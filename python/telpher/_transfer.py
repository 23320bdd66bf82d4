"""One operation."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable, List, Optional, Tuple, Union

from . import _ends, _streams, _table
from ._arguments import nanoseconds
from ._errors import Closed, Ended, Error, ForkedError, InternalError, TimedOut, again
from ._table import DONE, calls

if TYPE_CHECKING:
    from ._connection import Connection
    from ._region import MemoryRegion

_MOVED = (1 << 48) - 1
_PAIR = _table.PAIR.pack
_SHORT = 20 * _table.SLICE
"""Nanoseconds: who waits for less posts and waits by two calls. One call is a whole slice, by which a longer wait may be late."""
_IDLE = object()
_PENDING = "this transfer is pending, or another thread is posting it: wait for its end first"

Callback = Callable[["Transfer"], object]


class Transfer:
    """One operation. It ends once per posting, by its deadline and the engine's drain limit at the latest; from then on no byte of the
    caller's memory is touched (but see ``remote_quiet``). Thread-safe. ``await transfer`` gives ``bytes_moved``, as ``wait`` does.

    A transfer that is dropped goes on, but the regions that it uses are the caller's to keep: one that is closed ends it.
    """

    # Most transfers have ended when the call that posts them returns: those are of this class, and a word is all that they have.
    __slots__ = ("_result", "__weakref__")

    # None while pending, the word of a transfer that is done, or how it ended otherwise.
    _result: Union[None, int, Ended, object]

    # --- its end -----------------------------------------------------------------------------------

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for the end. Returns the bytes moved, which for a receive is the exact length of the message.

        ``timeout``: seconds; None waits for the end, which comes by the transfer's deadline. Raises the transfer's own error when it did not
        end as done, or TimedOut when the time is over: then the transfer goes on (``done()`` is False). Ctrl-C ends the wait, not the transfer.
        """
        result = self._result
        if result is None:
            self._wait(timeout)
            result = self._result
        if type(result) is int:
            return result & _MOVED
        if isinstance(result, Ended):
            raise again(result.error)
        raise RuntimeError("this transfer was not posted" if result is _IDLE else "another thread has posted this transfer again")

    def _wait(self, timeout: Optional[float]) -> None:
        """Until it has ended, or TimedOut."""

    def done(self) -> bool:
        """Whether it has ended, in whatever way. Makes progress, so it can be polled."""
        if self._result is None:
            self._poll()
        return self._result is not None and self._result is not _IDLE

    def _poll(self) -> int:
        """Makes progress. Returns 0 while it is pending."""
        return 1

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
        return False

    # --- callbacks -----------------------------------------------------------------------------------

    def add_done_callback(self, fn: Callback) -> None:
        """Calls ``fn(transfer)`` once when the current posting ends, in whatever way: on the thread ``telpher-callbacks``, or at once in this
        one when it has ended. What it raises is logged to the logger ``telpher`` (but in this thread KeyboardInterrupt and SystemExit are raised). It should be short: all callbacks share that thread."""
        _ends.call(fn, self)

    def __await__(self) -> Generator[Any, None, int]:
        if self._result is None and not self._poll():
            import asyncio  # here, since it is most of what importing this package would cost

            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def wake() -> None:
                if not future.done():
                    future.set_result(None)

            def ended(_: Transfer) -> None:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:  # the loop is closed: nobody waits any more
                    pass

            self.add_done_callback(ended)
            yield from future.__await__()
        return self.wait()

    def __repr__(self) -> str:
        return "Transfer(%s)" % self.state


_new = Transfer.__new__


def finished(word: int) -> Transfer:
    """A transfer that was done when it had been posted."""
    transfer = _new(Transfer)
    transfer._result = word
    return transfer


class PostedTransfer(Transfer):
    """A transfer that has not ended by the time its call returns. ``temporary``: regions that were registered for it alone."""

    __slots__ = ("_connection", "_handle", "_keep", "_temporary", "_callbacks", "_overtaken")

    _posting = 0

    def __init__(self, connection: Connection, handle: int, keep: Any, temporary: Tuple[MemoryRegion, ...] = ()):
        self._result = None
        self._connection = connection
        self._handle = handle
        self._keep = keep
        self._temporary = temporary
        self._callbacks: Optional[List[Callback]] = None
        self._overtaken = 0  # ends that the callback thread will hear of, but whose callbacks have been called
        _table.collect()

    def _wait(self, timeout: Optional[float]) -> None:
        handle = self._handle
        # The number of the posting first: an end belongs to the one that was current before the call.
        if timeout is None and self._settle(self._posting, calls.waitFor(_PAIR(handle, _table.SLICE))):
            return
        word = _table.in_slices(timeout, lambda nanos: self._settle(self._posting, calls.waitFor(_table.PAIR.pack(handle, nanos))))
        if not word:
            raise TimedOut("the transfer has not ended within %g s; it goes on until its own deadline" % (timeout or 0))

    def _poll(self) -> int:
        return self._settle(self._posting, calls.poll(self._handle))

    def _settle(self, posting: int, word: int) -> int:
        """Takes what a call said of this transfer, and lets go of what its end leaves. Returns 0 while it is pending."""
        if not self._hear(posting, word):
            return 0
        self._let_go()
        return 1

    def _hear(self, posting: int, word: int) -> int:
        """Takes what a call said of this transfer, and no more: who holds a lock lets go later. Returns 0 while it is pending."""
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
        self._end(posting, result)
        return 0 if self._result is None else 1  # 0 when it was not of this posting, whose end is still to be asked for

    def _end(self, posting: int, result: Union[int, Ended]) -> None:
        self._result = result
        # Only now: whoever still holds the number finds the result here.
        _table.give_back(self._handle)

    def _let_go(self) -> None:
        """Of the memory, after the end. A region's close may wait, and finalisers of the memory do whatever they like: not to be called with a lock."""
        if self._result is None:
            return  # its end could not be read
        temporary, self._temporary, self._keep = self._temporary, (), None
        for region in temporary:
            region.discard()

    def cancel(self) -> bool:
        if self._result is not None:
            return False
        word: int = calls.cancel(self._handle)
        if word < 0:
            error = _table.take_failure(word)[0]
            if isinstance(error, Closed) and self._result is not None:
                return False
            raise error
        return word == 1

    def add_done_callback(self, fn: Callback) -> None:
        _table.check()
        with _ends.lock:
            if self._result is None:
                callbacks = _ends.watch(self)
                _ends.have_thread()
                callbacks.append(fn)
                return
        if self._result is _IDLE:
            raise RuntimeError("this transfer was not posted")
        _ends.call(fn, self)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if handle:
            _table.give_back(handle)


class PreparedTransfer(PostedTransfer):
    """A transfer of one of the ``prepare`` methods: ``post`` or ``run`` starts it, again once it has ended. One posting at a time; of several
    threads that post at once all but one get RuntimeError.

    ``stream`` is kept for as long as it can be posted; ``holders``: objects whose device memory it uses, by the devices' numbers.
    """

    __slots__ = ("_claim", "_posting", "_stream", "_waits", "_plain")

    def __init__(self, connection: Connection, handle: int, keep: Any, temporary: Tuple[MemoryRegion, ...], stream: Any, holders: _streams.Holders):
        super().__init__(connection, handle, keep, temporary)
        # Whoever posts has it until it knows whether the transfer has ended at once; whoever hears of an end later takes it to write that down, so
        # that no posting comes in between. Taken after _ends.lock where both are. Reentrant: only its owner can give it back, whatever Ctrl-C has
        # interrupted, and a signal's handler that asks for the end does not wait for the thread that it has interrupted.
        self._claim = threading.RLock()
        self._posting = 0
        self._result = _IDLE
        self._stream = stream
        self._waits = holders if _streams.is_current(stream) else {}
        self._plain = not self._waits and not temporary  # nothing is to be done before or after a posting

    def post(self) -> PreparedTransfer:
        """Posts it, with the bytes of this moment. Returns itself. Raises RuntimeError while it is pending."""
        self._start(calls.post, False)
        return self

    def run(self, timeout: Optional[float] = None) -> int:
        """``post`` and ``wait`` in one call into the engine: the fastest way."""
        if timeout is not None and nanoseconds(timeout, "timeout") < _SHORT:
            self.post()
            return self.wait(timeout)
        if not self._plain or self._callbacks is not None:
            word = self._start(calls.run, True)
            return word & _MOVED if word >= DONE else self.wait(timeout)
        # _start, without a call within Python.
        before: Any = None
        claim = self._claim
        try:
            if not claim.acquire(False) or self._result is None or self._callbacks is not None:
                raise RuntimeError(_PENDING)
            before, self._result = self._result, None
            word = calls.run(self._handle)
            if word >= DONE:
                self._result = word
                self._posting += 1
                return word & _MOVED
            error = self._posted(word)
        except BaseException as e:
            self._interrupted(before, e)
            raise
        finally:
            try:
                claim.release()
            except RuntimeError:
                pass
        if error is not None:
            raise again(error)
        return self.wait(timeout)

    def _start(self, call: Callable[[int], int], waits: bool) -> int:
        """Posts it, and takes down its end where that is known at once. Returns what the call did. ``waits``: whether that waits for a slice."""
        after = self._settle_before()
        before: Any = None
        try:
            self._take()
            before, self._result = self._result, None
            word: int = calls.postAfter(_table.TRIPLE.pack(self._handle, _streams.address(after), waits)) if after else call(self._handle)
            error = self._posted(word)
        except BaseException as e:
            self._interrupted(before, e)
            raise
        finally:
            # One call, or Ctrl-C could come in between and leave the claim taken.
            try:
                self._claim.release()
            except RuntimeError:
                pass  # it was not taken
            if self._temporary and before is not None:  # else it is another's posting, as that which a signal's handler has interrupted
                _ends.hold(self)
        if error is not None:
            raise again(error)
        return word

    def _settle_before(self) -> bytes:
        """What a posting asks and calls before it is one. It runs code of others, so no claim is held meanwhile. Returns the streams that the posting
        begins after."""
        if self._callbacks is not None:
            self._overtake()
        return _streams.current(self._waits) if self._waits else b""

    def _take(self) -> None:
        """Takes the claim, or raises. Whoever calls this gives it back in either case, if it has it."""
        if not self._claim.acquire(False) or self._result is None or self._callbacks is not None:
            raise RuntimeError(_PENDING)

    def _posted(self, word: int) -> Optional[BaseException]:
        """Takes down what the call said. Returns why it was not posted, where that is so."""
        if word < 0:
            error, ended = _table.take_failure(word)
            if ended is None:
                self._result = _IDLE
                self._posting = self._postings()  # what could not be posted may count
                return error
            self._result = ended
        else:
            self._result = word or None
        # As the engine counts. Not before: who asks for the end while this is being posted may hear that of the posting before.
        self._posting += 1
        return None

    def _interrupted(self, before: Any, why: BaseException) -> None:
        """Something was raised in the middle of a posting. ``before``: the result of the one before it, None where it had not begun."""
        if before is None:
            return
        if isinstance(why, (ForkedError, InternalError)):
            if self._result is None:
                self._result = before
            return
        # Ctrl-C. Where it came in place of what the call said, the transfer is posted, and pending until the engine says otherwise: what it was
        # before would be a false end, with the engine still at the caller's memory.
        postings = self._postings()
        if self._result is None and postings == self._posting:
            self._result = before  # there was no call
        self._posting = postings

    def _postings(self) -> int:
        """By the engine's count, as long as it knows the transfer."""
        word: int = calls.postings(self._handle)
        if word < 0:
            _table.take_failure(word)
            return self._posting
        return word

    def _overtake(self) -> None:
        """Calls what was to be called after the posting before: the callback thread has not come to it yet."""
        _table.check()
        with _ends.lock:
            if self._result is None:
                return
            callbacks, self._callbacks = self._callbacks, None
            if callbacks is not None:
                self._overtaken += 1
        interrupted: Optional[BaseException] = None
        for fn in callbacks or ():
            try:
                _ends.call(fn, self)
            except BaseException as e:
                interrupted = interrupted or e
        if interrupted is not None:
            raise interrupted

    def _end(self, posting: int, result: Union[int, Ended]) -> None:
        with self._claim:
            if self._posting != posting or self._result is not None:
                return  # of a posting before: another thread has seen its end, and has posted again
            self._result = result

    def _let_go(self) -> None:
        """It may be posted again."""


def post_all(transfers: Iterable[PreparedTransfer]) -> None:
    """Posts all of them in one call into the engine, in this order; each ends by itself, as after ``post``.

    For many small transfers that are independent: a posting costs less, and what a GPU copies goes out in one launch or a few (docs/gpu.md, "Lists").
    What belongs together is better one transfer of many pieces.

    Raises RuntimeError, and posts nothing, when one of them is pending or is there twice. Of those that could not be posted (as their connection is
    closed) the first one's error is raised when the others have been posted.
    """
    every = list(transfers)
    afters = [transfer._settle_before() for transfer in every]  # of all before the first claim: a callback may ask any of them
    begun: List[List[Any]] = []  # transfers, and their results before; None where it had not begun
    words = (ctypes.c_int64 * 0)()
    first: Optional[BaseException] = None
    try:
        for transfer in every:
            begun.append([transfer, None])
            transfer._take()
            begun[-1][1], transfer._result = transfer._result, None
        words = (ctypes.c_int64 * len(begun))(*[transfer._handle for transfer in every])
        at = ctypes.addressof(words)
        for after, those in itertools.groupby(afters):  # mostly one group
            count = len(list(those))
            word = calls.postAll(_table.TRIPLE.pack(count, at, _streams.address(after)))
            if word < 0:
                first = first or _table.take_failure(word)[0]
            at += 8 * count
    except BaseException as e:
        first = e
    # The call writes over every handle, and no handle looks like what it writes: so it is known even after Ctrl-C what has been posted.
    rest = itertools.zip_longest(begun, words)
    while True:
        try:
            for (transfer, before), word in rest:
                try:
                    if before is not None and word in (None, transfer._handle):
                        transfer._result = before
                    elif before is not None:
                        error = transfer._posted(word)
                        first = first or error
                finally:
                    try:
                        transfer._claim.release()
                    except RuntimeError:
                        pass  # it was not taken
            break
        except BaseException as e:  # Ctrl-C; the loop goes on with the next one
            first = first or e
    for transfer, before in begun:  # without any claim, after which the callback thread looks as well
        if transfer._temporary and before is not None:
            _ends.hold(transfer)
    if first is not None:
        try:
            raise first
        finally:
            del first  # which knows this frame


def wait_all(transfers: Iterable[Transfer], timeout: Optional[float] = None) -> None:
    """Waits for all of them within one time limit; then raises the first error, if there is one. Those of a generator are all posted before the first wait."""
    every = list(transfers)
    end = None if timeout is None else time.monotonic() + timeout
    first: Optional[Error] = None
    for transfer in every:
        try:
            transfer.wait(None if end is None else max(0.0, end - time.monotonic()))
        except Error as e:
            if not transfer.done():
                raise
            first = first or e
    if first is not None:
        try:
            raise first
        finally:
            del first  # which knows this frame
