"""The examples run as their first lines say."""

import os
import socket
import subprocess
import sys
import time

import pytest
from conftest import DEADLINE, PACKAGE, environment

pytest.importorskip("numpy", reason="NumPy is missing (package python3-numpy)")


def start(name, *arguments, **env):
    return subprocess.Popen(
        [sys.executable, os.path.join(PACKAGE, "examples", name), *arguments],
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    try:
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, ""), out + err
    return out


def test_hello(tmp_path):
    serving = start("hello.py", "serve", str(tmp_path / "address"))
    until = time.monotonic() + DEADLINE
    while not (tmp_path / "address").exists() and time.monotonic() < until and serving.poll() is None:
        time.sleep(0.05)
    end(start("hello.py", "write", str(tmp_path / "address")))
    assert end(serving) == "weights are there: [     0. 999999.]\n"


def test_kv_cache():
    assert end(start("kv_cache.py")) == "request 1 is here: 10000 blocks\n"


def test_weight_refresh():
    pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
    assert sorted(end(start("weight_refresh.py", "2")).splitlines()) == ["worker %d has version 3" % i for i in range(2)]


def test_ring():
    torch = pytest.importorskip("torch", reason="PyTorch is missing (package python3-torch)")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1)}
    ranks = [start("ring.py", RANK=str(rank), **env) for rank in range(2)]
    assert [end(rank) for rank in ranks] == ["after 3 laps of 2 ranks: 6.0\n", ""]
