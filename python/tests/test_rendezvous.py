"""The ranks of a job find each other: torch.distributed, MPI, the engine's own rendezvous."""

import concurrent.futures
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
import telpher
from conftest import DEADLINE, environment
from telpher import rendezvous

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


SECRET = "a secret of all ranks"

RANK = """
    import os, telpher
    from telpher import rendezvous
    rank, world = int(os.environ["TELPHER_RANK"]), int(os.environ["TELPHER_WORLD_SIZE"])
    endpoint = telpher.Endpoint()
    print("starts")
"""


def free_port():
    """One that nobody gets who asks for any: Linux gives those from 32768 on."""
    while True:
        port = random.randrange(10_000, 32_768)
        try:
            socket.create_server(("", port)).close()
            return port
        except OSError:
            pass


@pytest.fixture
def start(script):
    """Starts a rank's process; rank 0 serves at `start.port`."""
    port = free_port()

    def rank(number, world, text, before=""):
        made = script(before + textwrap.dedent(RANK) + textwrap.dedent(text), env={
            "TELPHER_RANK": str(number), "TELPHER_WORLD_SIZE": str(world), "TELPHER_SECRET": SECRET,
            "MASTER_ADDR": "127.0.0.1", "TELPHER_RENDEZVOUS_PORT": str(port),
        })
        made.expect("starts")
        return made

    rank.port = port
    return rank


@pytest.fixture
def meet(start):
    """Joins in this process, at the server of rank 0's."""
    with telpher.Endpoint() as endpoint:
        yield lambda rank, world, timeout=DEADLINE, **others: rendezvous.join(
            endpoint, timeout, **{"rank": rank, "world": world, "server": "tcp://127.0.0.1:%d" % start.port, "secret": SECRET, **others})


def until(what):
    """Waits for something that comes by itself."""
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_engine_s_own(start):
    """Addresses, barriers, who is missing; who leaves is seen, and connections stay."""
    text = """
    import time
    group = rendezvous.join(endpoint, 60)
    assert (group.rank, group.world, repr(group)) == (rank, world, "Group(rank %d of 2)" % rank)
    addresses = group.addresses
    """ + FINISH + """
    with group:
        group.barrier("connected", None)
        if rank == 0:
            try: group.barrier("alone", 0.3)
            except telpher.TimedOut as e: print(e)
        group.barrier("connected", 60)
        if rank == 0:
            while group.addresses[1] is not None: time.sleep(0.01)
            assert rendezvous.connect_all(endpoint, group.addresses) == {}
    group.close()
    if rank == 0:
        peers[1].notify(b"connections stay").wait(60)
        for closed in lambda: group.addresses, lambda: group.barrier("x"):
            try: closed()
            except telpher.Closed as e: print(e)
    else:
        print(peers[0].wait_notification(60))
    input()
    """
    zero, one = [start(rank, 2, text) for rank in range(2)]
    assert [zero.expect(), one.expect()] == ["0 [1]", "1 [0]"]
    assert zero.expect("barrier 'alone' of job 'default' was not passed within 300 ms:") == "missing: rank 1"
    assert [one.expect(), zero.expect(), zero.expect()] == ["b'connections stay'"] + ["this group is closed"] * 2
    for each in zero, one:
        each.tell("")
        assert each.end() == ("", "")


def test_a_group_that_is_dropped_leaves_and_so_do_those_of_the_end(start, meet):
    text = """
    import gc
    group = rendezvous.join(endpoint, 60)
    print("in")
    input()
    %s
    input()
    """
    zero = start(0, 3, text % "left.append(group)", "import atexit; left = []; atexit.register(lambda: print(*left))")  # called after telpher's
    two = start(2, 3, text % "group = None; gc.collect()")
    group = meet(1, 3)
    assert [zero.expect(), two.expect()] == ["in", "in"]
    two.tell("")
    until(lambda: group.addresses[2] is None)
    group.close()
    two.tell("")
    assert two.end() == ("", "")
    zero.tell("\n")
    assert zero.end() == ("Group(rank 0 of 3, closed)\n", "")


def test_ctrl_c_in_a_join_and_in_a_barrier(start, meet):
    """Both can be called again at once: the server's port is free, the arrival is taken back."""
    zero = start(0, 2, """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    def interrupted(call):
        print("waiting")
        try: call()
        except KeyboardInterrupt: print("interrupted")
    interrupted(lambda: rendezvous.join(endpoint, 600))
    group = rendezvous.join(endpoint, 60)
    interrupted(lambda: group.barrier("b", 600))
    input()
    group.barrier("b", 60)
    print("passed")
    group.close()
    """)
    for what in "join", "barrier":
        zero.expect("waiting")
        time.sleep(0.5)
        zero.process.send_signal(signal.SIGINT)
        zero.expect("interrupted")
        if what == "join":
            group = meet(1, 2)
    with pytest.raises(telpher.TimedOut, match="missing: rank 0"):
        group.barrier("b", 1)
    zero.tell("")
    group.barrier("b")
    zero.expect("passed")
    group.close()
    assert zero.end() == ("", "")


def test_a_server_that_dies_is_told_by_the_deadline(start, meet):
    """What was heard stays known; waits end in time, and so does leaving."""
    zero = start(0, 2, "group = rendezvous.join(endpoint, 60); input()")
    with meet(1, 2) as group:
        before = group.addresses
        zero.process.kill()
        zero.process.wait()
        with pytest.raises(telpher.TimedOut, match="tcp://127.0.0.1:%d did not answer in time" % start.port):
            group.barrier("b", 1)
        assert group.addresses == before and None not in before
    with pytest.raises(telpher.TimedOut, match="tcp://127.0.0.1:%d did not answer in time" % start.port):
        meet(1, 2, 0.5)


def test_a_barrier_ends_when_its_group_is_closed_by_another_thread(start, meet):
    zero = start(0, 2, "group = rendezvous.join(endpoint, 60); input()")
    group = meet(1, 2)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(group.barrier, "b", DEADLINE)
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(0.3)
        group.close()
        with pytest.raises(telpher.Closed, match="the rendezvous was closed"):
            waiting.result(2 * DEADLINE)
    zero.tell("")
    zero.end()


def test_ranks_that_do_not_fit(start, meet):
    """One that is taken, another number of ranks, another secret; and one who was silent for so long that another has its rank now."""
    zero = start(0, 1, """
    group = rendezvous.join(endpoint, 60)
    print("joined")
    input()
    """)
    zero.expect("joined")
    stopped = start(1, 2, """
    group = rendezvous.join(endpoint, 60, rank=0, world=1, job="stops", server="tcp://127.0.0.1:" + os.environ["TELPHER_RENDEZVOUS_PORT"])
    print("joined")
    input()
    try: group.barrier("b", 60)
    except rendezvous.Superseded as e: print(e)
    """)
    stopped.expect("joined")
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor() as threads:
            taken, differs = threads.submit(meet, 0, 1), threads.submit(meet, 1, 2)
            with meet(0, 1, job="stops"):  # once the lease has ended
                stopped.process.send_signal(signal.SIGCONT)
                stopped.tell("")
                assert "job 'stops' belongs to endpoint" in stopped.expect("rank 0 of ")
        with pytest.raises(rendezvous.RankTaken, match="rank 0 of job 'default' is held by endpoint"):
            taken.result()
        with pytest.raises(rendezvous.WorldDiffers, match="has 2 ranks, those that are there say 1"):
            differs.result()
        with pytest.raises(telpher.AccessDenied):
            meet(1, 2, secret=b"another secret \xff of 16")
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    assert issubclass(rendezvous.RankTaken, telpher.Error)
    stopped.end()
    zero.tell("")
    zero.end()


def test_join_says_what_is_missing(start, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("TELPHER_RANK", "TELPHER_WORLD", "TELPHER_RENDEZVOUS", "TELPHER_SECRET", "TELPHER_JOB", "RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_", "JOB_")):
            monkeypatch.delenv(name)
    with telpher.Endpoint() as endpoint:
        for arguments, said in (
            ({}, "set TELPHER_RANK and TELPHER_WORLD_SIZE"),
            ({"rank": 1}, "rank=1, world=None: give both"),
            ({"world": 2}, "rank=None, world=2: give both"),
            ({"rank": 2, "world": 2}, "TELPHER_RANK=2 does not fit TELPHER_WORLD_SIZE=2"),
            ({"rank": 1, "world": 2}, "set MASTER_ADDR to its host, or TELPHER_RENDEZVOUS"),
            ({"rank": 1, "world": 2, "server": "udp://here", "secret": SECRET}, "udp://here is no rendezvous: write tcp://HOST:PORT"),
            ({"rank": 1, "world": 2, "server": "tcp://127.0.0.1:9"}, "TELPHER_SECRET is not set"),
            ({"rank": 1, "world": 2, "server": "tcp://127.0.0.1:9", "secret": b"short"}, "16 to 64 bytes, this one has 5"),
        ):
            with pytest.raises(ValueError, match=said):
                rendezvous.join(endpoint, 1, **arguments)
        for arguments in {"secret": 5}, {"timeout": "soon"}:
            with pytest.raises(TypeError, match=list(arguments)[0]):
                rendezvous.join(endpoint, rank=1, world=2, **arguments)
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("TELPHER_RENDEZVOUS_PORT", str(start.port))
        with pytest.raises(telpher.TimedOut, match="missing at the rendezvous: rank 1 of 2"):
            rendezvous.join(endpoint, 0.5, rank=0, world=2, secret=SECRET)
        with socket.create_server(("", start.port)), pytest.raises(telpher.Error, match=str(start.port)):
            rendezvous.join(endpoint, 5, rank=0, world=2, secret=SECRET)
        with rendezvous.join(endpoint, 60, rank=0, world=1, secret=SECRET) as group:
            with pytest.raises(ValueError, match="1 to 128 characters"):
                group.barrier("")
            with pytest.raises(TypeError, match="name is a str"):
                group.barrier(b"b")
    with pytest.raises(telpher.Closed, match="this endpoint is closed"):
        rendezvous.join(endpoint, rank=0, world=1, secret=SECRET)


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
