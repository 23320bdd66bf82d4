"""The ranks of a job find each other: torch.distributed, MPI."""

import shutil
import socket
import subprocess
import sys

import pytest
from conftest import DEADLINE, environment

FINISH = """
    peers = rendezvous.connect_all(endpoint, addresses, 60)
    assert sorted(peers) == [each for each in range(world) if each != rank] and addresses[rank] == endpoint.address
    for peer in peers.values():
        peer.notify(b"%d" % rank)
    heard = sorted(int(peer.wait_notification(60)) for peer in peers.values())
    print("%d %s\\n" % (rank, heard), end="", flush=True)  # one write: the lines of two ranks do not mix
"""
"""What ranks do that have exchanged their addresses."""


def test_torch_process_group_and_store(script):
    """As torchrun starts it: ranks know each other by the variables, and a group of gloo comes from these; so does a TCPStore."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
    if not torch.distributed.is_available() or not getattr(torch.distributed, "is_gloo_available", lambda: True)():
        pytest.skip("this PyTorch has no torch.distributed with gloo")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = """
    import os, telpher, torch.distributed as dist
    from telpher import rendezvous
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    endpoint = telpher.Endpoint()
    addresses = rendezvous.exchange_torch(endpoint)
    store = dist.PrefixStore("job", dist.distributed_c10d._get_default_store())
    assert rendezvous.exchange_store(endpoint, store, rank, world, name="again") == addresses
    """ + FINISH + """
    dist.barrier()
    endpoint.close()
    dist.destroy_process_group()
    """
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [script(text, env=dict(env, RANK=str(rank))) for rank in range(2)]
    assert [rank.end()[0] for rank in ranks] == ["0 [1]\n", "1 [0]\n"]


def test_mpi(tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is missing (package python3-mpi4py)")
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is missing (package openmpi-bin)")
    script = tmp_path / "job.py"
    script.write_text("""
import telpher
from mpi4py import MPI
from telpher import rendezvous
rank, world = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
with telpher.Endpoint() as endpoint:
    addresses = rendezvous.exchange_mpi(endpoint)
""" + FINISH + """
    MPI.COMM_WORLD.Barrier()
""")
    done = subprocess.run(
        [mpirun, "-n", "2", "--oversubscribe", sys.executable, str(script)],
        env=environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl="self,tcp"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * DEADLINE,
    )
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["0 [1]", "1 [0]"], done.stdout + done.stderr
