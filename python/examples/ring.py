"""Passes a tensor around a ring of ranks, each adding to it: `torchrun --nproc-per-node 4 ring.py`."""

import datetime
import os

import torch
import torch.distributed as dist
import telpher
from telpher import rendezvous

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1, world, rank == 0, datetime.timedelta(seconds=60)
)  # one port further: MASTER_PORT is torchrun's own
with telpher.Endpoint() as endpoint:
    peers = rendezvous.connect_all(endpoint, rendezvous.exchange_store(endpoint, store, rank, world), timeout=60)
    token = torch.zeros(1_000_000)
    for lap in range(3):
        if rank or lap:
            peers[(rank - 1) % world].receive(token).wait(60)
        token += 1
        peers[(rank + 1) % world].send(token).wait(60)
    if rank == 0:
        peers[world - 1].receive(token).wait(60)
        assert bool((token == 3 * world).all())
        print("after 3 laps of", world, "ranks:", token[0].item())
    store.set("done/%d" % rank, "yes")
    for each in range(world):  # nobody closes while others still receive
        store.get("done/%d" % each)
    if rank == 0:  # its process holds the store
        store.wait(["left/%d" % each for each in range(1, world)])
    else:
        store.set("left/%d" % rank, "yes")
