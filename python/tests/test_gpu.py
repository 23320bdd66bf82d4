"""Memory of PyTorch on real GPUs, in two processes: what gpu_pair.py checks, under both of torch's allocators, and the stand-in for uccl.p2p.

Without two GPUs the same checks go through the host's memory.
"""

import os
import subprocess
import sys

import pytest
from conftest import HERE, environment

torch = pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
pytest.importorskip("numpy", reason="NumPy is missing (package python3-numpy)")

on_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="PyTorch sees %d GPUs, and this takes two" % torch.cuda.device_count())
CHECKS = ["tensors", "neighbours", "views", "hosts", "messages", "large", "blocks", "weights", "memory_again"]


def pair(device, **env):
    """Runs the checks, and gives their lines by name."""
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "gpu_pair.py"), device, "100"], env=environment(**env),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith("ok ")}


def test_the_checks_themselves_on_the_host():
    assert list(pair("cpu")) == CHECKS


@on_two_gpus
def test_memory_of_the_caching_allocator():
    lines = pair("cuda")
    assert list(lines) == [*CHECKS, "streams"]
    for name in ("tensors", "large", "blocks", "memory_again", "streams"):
        assert "cuda-ipc" in lines[name], lines[name]


@on_two_gpus
def test_memory_of_expandable_segments():
    assert list(pair("cuda", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")) == [*CHECKS, "streams"]


@on_two_gpus
def test_uccls_calls_by_pointer(script):
    """The ipc family between two processes: written and read, single and vector, at offsets far into an allocation."""
    ranks = [
        script(
            """
            import sys, time, torch
            from telpher.compat.uccl import p2p
            rank = int(sys.argv[1])
            torch.cuda.set_device(rank)
            size, piece = 64 << 20, 1 << 20
            memory = (torch.arange(size, device="cuda") // 251 + rank).to(torch.uint8)
            other = (torch.arange(size, device="cuda") // 251 + 1 - rank).to(torch.uint8)
            endpoint = p2p.Endpoint(rank)
            print("metadata", bytes(endpoint.get_metadata()).hex())
            host, port, gpu = p2p.Endpoint.parse_metadata(bytes.fromhex(input()))
            ok, *_, connection = endpoint.accept_local() if rank else endpoint.connect_local(gpu)
            assert ok
            parts = [memory.data_ptr() + i * piece for i in range(3, 40, 4)]
            sizes = [piece] * len(parts)
            ok, blobs = endpoint.advertisev_ipc(connection, parts, sizes)
            assert ok
            print("blobs", *[bytes(blob).hex() for blob in blobs])
            theirs = [bytes.fromhex(blob) for blob in input().split()]
            torch.cuda.synchronize()

            def ended(started):
                ok, number = started
                assert ok
                while True:
                    ok, done = endpoint.poll_async(number)
                    assert ok
                    if done: return

            if rank == 0:
                into = torch.zeros(piece, dtype=torch.uint8, device="cuda")
                assert endpoint.read_ipc(connection, into.data_ptr(), piece, theirs[0])
                assert torch.equal(into, other[3 * piece : 4 * piece]), "read"
                before = time.perf_counter()
                ended(endpoint.writev_ipc_async(connection, parts, sizes, theirs))
                print("written in %.1f ms" % ((time.perf_counter() - before) * 1e3))
                assert endpoint.write_ipc(connection, into.data_ptr(), piece, theirs[1])
                print("done")
                input()
            else:
                input()
                wanted = memory.clone()
                for i in range(3, 40, 4): wanted[i * piece : (i + 1) * piece] = other[i * piece : (i + 1) * piece]
                wanted[7 * piece : 8 * piece] = wanted.new_tensor((torch.arange(3 * piece, 4 * piece) // 251 + 1).to(torch.uint8))
                assert torch.equal(memory, wanted), "written"
                print("done")
            """,
            str(rank),
        )
        for rank in range(2)
    ]
    for word in ("metadata", "blobs"):
        told = [rank.expect(word) for rank in ranks]
        for rank, of_the_other in zip(ranks, reversed(told)):
            rank.tell(of_the_other)
    print("a vector of the ipc family:", ranks[0].expect("written in"))
    ranks[0].expect("done")
    ranks[1].tell("look")
    ranks[1].expect("done")
    ranks[0].tell("end")
    for rank in ranks:
        rank.end()


@on_two_gpus
def test_the_benchmark_measures_gpus():
    done = subprocess.run(
        [sys.executable, "-m", "telpher.bench", "--device", "cuda", "--path", "cuda-cumem,cuda-ipc", "--op", "write,send", "--sizes", "8,1M,64M",
         "--depth", "1,4", "--style", "once", "--seconds", "0.1", "--rounds", "1"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
    )
    print(done.stdout)
    assert done.returncode == 0 and done.stdout.count("cuda-cumem") == done.stdout.count("cuda-ipc") == 9, done.stdout + done.stderr
