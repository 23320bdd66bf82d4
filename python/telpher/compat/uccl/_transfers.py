"""Operations under way, by their numbers."""

from __future__ import annotations

import itertools
import threading
from typing import Dict, Iterable, List, Optional

from ... import MemoryRegion, Transfer, wait_all
from ._addresses import Refused


class Operation:
    """What one call started: transfers of the engine, and memory that was registered for them alone."""

    def __init__(self, name: str, transfers: Iterable[Transfer], temporary: Iterable[MemoryRegion] = ()):
        self.name = name
        self.transfers: List[Transfer] = list(transfers)
        self.temporary: List[MemoryRegion] = list(temporary)

    def wait(self) -> None:
        """Until all have ended. Raises the first error."""
        try:
            wait_all(self.transfers)
        finally:
            self.release()

    def done(self) -> bool:
        """Whether all have ended, in whatever way."""
        return all([transfer.done() for transfer in self.transfers])

    def failure(self) -> Optional[BaseException]:
        """The first error of one that has ended."""
        return next(filter(None, (transfer.exception() for transfer in self.transfers)), None)

    def release(self) -> None:
        """Closes what was registered for it."""
        temporary, self.temporary = self.temporary, []
        for region in temporary:
            region.discard()


class Operations:
    """The transfer ids of an endpoint. Thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._by_id: Dict[int, Operation] = {}

    def add(self, operation: Operation) -> int:
        """Returns its id, which ``poll`` forgets when it has told of the end."""
        number = next(self._numbers)
        with self._lock:
            self._by_id[number] = operation
        return number

    def poll(self, number: int) -> bool:
        """Whether it has ended as done. Raises its error, or Refused for an id that nothing has any more."""
        operation = self._by_id.get(number)
        if operation is None:
            raise Refused("no transfer has the id %s: either it never had, or a poll has told of its end already" % number)
        if not operation.done():
            return False
        with self._lock:
            first = self._by_id.pop(number, None) is not None
        if first:  # of several threads that poll it, all of whom are told
            operation.release()
        failure = operation.failure()
        if failure is not None:
            raise failure
        return True
