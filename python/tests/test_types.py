"""What type checkers are told: the package is clean under mypy --strict, and a program that uses it is understood."""

import os
import subprocess
import sys

import pytest
from conftest import PACKAGE

pytest.importorskip("mypy", reason="mypy is missing (pip install mypy)")

PROGRAM = """
import telpher

def write(address: str, data: bytearray) -> int:
    with telpher.Endpoint(transports=["tcp"], deadline=2.5) as endpoint:
        peer = endpoint.connect(address)
        remote = peer.lookup("memory", timeout=None)
        region = endpoint.register(data)
        blocks = region.blocks([1, 2], 8)
        prepared = [peer.prepare_write(blocks, remote.blocks([0, 1], 8), counter=telpher.CounterUpdate(remote[:8], "add", 1))]
        telpher.post_all(prepared)
        telpher.wait_all(prepared, 1.0)
        reveal_type(prepared[0].wait())
        reveal_type(remote.strided(1, 2, 3))
        reveal_type(endpoint.metrics())
        return peer.write(region[:8], remote, stream=None).bytes_moved

telpher.Endpoint(lanez=1)
telpher.Endpoint(lanes="1")
telpher.post_all([telpher.Transfer()])
"""


def mypy(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", os.path.join(PACKAGE, "pyproject.toml"), "--cache-dir", str(folder), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=PACKAGE, env=dict(os.environ, MYPYPATH=PACKAGE),
    )
    return done.stdout.splitlines()


def test_the_package_is_clean(tmp_path):
    assert [line for line in mypy(tmp_path, "telpher") if "error:" in line] == []


def test_a_program_is_understood(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    said = [line.split(": ", 2)[-1] for line in mypy(tmp_path, file) if "error:" in line or "Revealed" in line]
    types = [line.split('"')[1].replace("builtins.", "").replace("typing.", "") for line in said[:3]]  # as mypy before 1.16 names them
    assert types == ["int", "telpher._pieces.RemotePieces", "dict[str, Any]"], said
    assert ["lanez" in said[3], "lanes" in said[4], "Transfer" in said[5]] == [True] * 3 and len(said) == 6, said
