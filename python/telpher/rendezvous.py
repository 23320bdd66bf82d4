"""How the ranks of a job learn each other's addresses.

Addresses hold the endpoints' secrets, and travel as the store or MPI sends them: in the open, for torch's stores.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ._connection import Connection
from ._endpoint import Endpoint
from ._values import EndpointAddress


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
    torch.distributed.all_gather_object(found, bytes(endpoint.address), group=group)
    return [EndpointAddress(each or b"") for each in found]


def exchange_mpi(endpoint: Endpoint, comm: Any = None) -> List[EndpointAddress]:
    """Every rank's address, by a communicator of mpi4py (None: COMM_WORLD)."""
    if comm is None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    return [EndpointAddress(each) for each in comm.allgather(bytes(endpoint.address))]


def connect_all(endpoint: Endpoint, addresses: List[EndpointAddress], timeout: Optional[float] = None) -> Dict[int, Connection]:
    """Connects with every other rank; all ranks call it. Two that connect to each other at the same time get one connection.

    ``timeout``: seconds for each; None: the endpoint's ``connect_deadline``. Returns the connections by rank.
    """
    own = endpoint.address
    return {rank: endpoint.connect(each, timeout) for rank, each in enumerate(addresses) if each != own}
