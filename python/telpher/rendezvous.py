"""How the ranks of a job learn each other's addresses.

``join`` is Telpher's own rendezvous, under whose secret addresses travel sealed. The others use what a program has: addresses hold the endpoints'
secrets, and travel as the store or MPI sends them, in the open for torch's stores.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _table
from ._arguments import as_secret, as_text, limit
from ._connection import Connection, wait_for_task
from ._endpoint import Endpoint
from ._errors import Closed, RankTaken, Superseded, WorldDiffers, parts
from ._table import calls
from ._values import EndpointAddress, address_of_bytes

__all__ = [
    "Group", "RankTaken", "Superseded", "WorldDiffers", "connect_all", "exchange_mpi", "exchange_store", "exchange_torch", "join",
]

_groups: "weakref.WeakSet[Group]" = weakref.WeakSet()


class Group:
    """The ranks of a job, met by ``join``; a context manager that leaves the job. Thread-safe.

    ``rank``: this process's; ``world``: how many there are; ``endpoint``: whose address the others have. Connections are the endpoint's, and stay.
    """

    def __init__(self, endpoint: Endpoint, handle: int):
        self._handle = handle
        self.endpoint = endpoint
        self.rank = _table.checked(calls.groupRank(handle))
        self.world = len(self.addresses)
        _groups.add(self)
        _table.collect()

    @property
    def addresses(self) -> List[Optional[EndpointAddress]]:
        """Every rank's address, as last heard: another one if a rank was started again; None if it left, or was silent for longer than its lease."""
        return [EndpointAddress(part) if part else None for part in parts(_table.text(_table.GROUP_ADDRESSES, self._open()))]

    def barrier(self, name: str, timeout: Optional[float] = 60.0) -> None:
        """Waits until every rank has called this with the same name (1 to 128 characters, which may be used again); None: for ever.

        Raises TimedOut, which names the ranks that did not come: then this one has not come either, nor has one that Ctrl-C interrupted.
        """
        text = as_text(name, "name")
        request = _table.QUADRUPLE.pack(self._open(), address_of_bytes(text), len(text), limit(timeout, "timeout"))
        wait_for_task(calls.groupBarrier(request))

    def close(self) -> None:
        """Leaves the job, within two seconds; waits in ``barrier`` end with Closed. Closing again does nothing.

        A rank that leaves is missing for those that still wait in ``join``, and where rank 0 serves nobody meets without it: let a last ``barrier``
        come before. A group that is dropped leaves by its finaliser, one that is left at interpreter exit then.
        """
        if not self._handle or not _table.usable():
            return
        handle, self._handle = self._handle, 0
        try:
            _table.checked(calls.groupClose(handle))
        finally:
            _table.give_back(handle)

    def _open(self) -> int:
        if not self._handle:
            raise Closed("this group is closed")
        return self._handle

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Group(rank %d of %d%s)" % (self.rank, self.world, "" if self._handle else ", closed")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            try:
                self.close()
            except Exception:
                pass  # its lease runs out


def join(
    endpoint: Endpoint, timeout: Optional[float] = 60.0, *, rank: Optional[int] = None, world: Optional[int] = None, server: Optional[str] = None,
    job: Optional[str] = None, secret: Union[bytes, str, None] = None,
) -> Group:
    """Joins a job by Telpher's own rendezvous, and waits until all ranks are there (docs/bootstrap.md); ``timeout`` None: for ever.

    Who this is and where ranks meet is what the launcher's variables say, as ``os.environ`` has them (torchrun, mpirun, srun, an indexed job,
    ``TELPHER_RANK`` and ``TELPHER_WORLD_SIZE``), unless given: ``rank`` with ``world``, ``job`` (its name), ``server`` (``tcp://HOST:PORT`` of a
    ``telpher rendezvous``; without one rank 0 serves), ``secret`` (16 to 64 bytes that all ranks hold; else ``TELPHER_SECRET``).

    Raises TimedOut, which names the ranks that did not come or says that the server does not answer; RankTaken and WorldDiffers, one lease (5 s)
    after the call; AccessDenied for another secret; Unsupported where rank 0 cannot listen on the port; ValueError for variables that do not say
    enough or contradict each other. Then, and after Ctrl-C, this process has left, within two seconds, and can join again.
    """
    handle = endpoint.handle()
    if (rank is None) != (world is None):
        raise ValueError("rank=%r, world=%r: give both, or neither and leave them to the launcher's variables" % (rank, world))
    variables = dict(os.environ)
    given = {"TELPHER_RANK": rank, "TELPHER_WORLD_SIZE": world, "TELPHER_RENDEZVOUS": server, "TELPHER_JOB": job}
    variables.update((name, str(value)) for name, value in given.items() if value is not None)
    text = "\0".join("%s=%s" % each for each in variables.items()).encode("utf-8", "surrogateescape")
    key = b"" if secret is None else as_secret(secret)
    length = -1 if secret is None else len(key)
    request = _table.SEXTUPLE.pack(handle, address_of_bytes(text), len(text), address_of_bytes(key), length, limit(timeout, "timeout"))
    return Group(endpoint, wait_for_task(calls.groupJoin(request))[0])


def exchange_store(endpoint: Endpoint, store: Any, rank: int, world: int, *, name: str = "telpher") -> List[EndpointAddress]:
    """Every rank's address, by a store with ``set(key, bytes)`` and a ``get(key)`` that waits: torch's TCPStore, FileStore, HashStore.

    ``name`` tells exchanges of one store apart; a job that is started again needs another one, or a new store.
    """
    if not 0 <= rank < world:
        raise ValueError("rank %d of a world of %d" % (rank, world))
    store.set("%s/%d" % (name, rank), bytes(endpoint.address))
    return [EndpointAddress(store.get("%s/%d" % (name, each))) for each in range(world)]


def exchange_torch(endpoint: Endpoint, group: Any = None) -> List[EndpointAddress]:
    """Every rank's address, by a process group of ``torch.distributed`` (None: the default one)."""
    import torch.distributed

    if not torch.distributed.is_initialized():
        raise RuntimeError("torch.distributed has no process group yet: call init_process_group first, or use exchange_store")
    found: List[Optional[bytes]] = [None] * torch.distributed.get_world_size(group)
    gather: Any = torch.distributed.all_gather_object  # which some versions of torch give no types
    gather(found, bytes(endpoint.address), group=group)
    return [EndpointAddress(each or b"") for each in found]


def exchange_mpi(endpoint: Endpoint, comm: Any = None) -> List[EndpointAddress]:
    """Every rank's address, by a communicator of mpi4py (None: COMM_WORLD)."""
    if comm is None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    return [EndpointAddress(each) for each in comm.allgather(bytes(endpoint.address))]


def connect_all(endpoint: Endpoint, addresses: Sequence[Optional[EndpointAddress]], timeout: Optional[float] = None) -> Dict[int, Connection]:
    """Connects with every other rank; all ranks call it. Two that connect to each other at the same time get one connection.

    ``addresses``: by rank; a rank without one (None) is left out. ``timeout``: seconds for each; None: the endpoint's ``connect_deadline``. Returns
    the connections by rank.
    """
    own = endpoint.address
    return {rank: endpoint.connect(each, timeout) for rank, each in enumerate(addresses) if each is not None and each != own}


@atexit.register
def _at_exit() -> None:
    """Before the endpoints close: whoever serves must tell the others the last news."""
    for group in list(_groups):
        try:
            group.close()
        except Exception:
            pass
