"""The benchmark measures, checks, and stands beside Java's."""

import itertools
import json
import os
import subprocess
import sys

import pytest
from conftest import DEADLINE, environment


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "telpher.bench", *arguments], env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * DEADLINE,
    )


def test_rows(tmp_path):
    file = tmp_path / "rows.json"
    done = run("--path", "mapped", "--op", "write,send", "--sizes", "8,4K", "--depth", "1,4", "--rounds", "1", "--seconds", "0.02",
               "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    python = [row for row in rows if row["client"] == "python"]
    assert {(row["op"], row["bytes"], row["depth"]) for row in python} == {
        ("write", size, depth) for size in (8, 4096) for depth in (1, 4)} | {("send", size, 1) for size in (8, 4096)}
    assert all(row["wrong"] == 0 and row["us_p50"] > 0 and row["iterations"] > 0 for row in rows)


def test_beside_java():
    done = run("--path", "mapped", "--op", "write", "--sizes", "64", "--depth", "1", "--rounds", "1", "--seconds", "0.02", "--style", "once", "--compare", "java")
    assert done.returncode == 0 and "telpher python" in done.stdout and "telpher java" in done.stdout, done.stdout + done.stderr
    assert "over Java: mapped write of 64 bytes, once: " in done.stdout, done.stdout


def test_warming_up_lasts_as_long_as_the_compilers_work(monkeypatch):
    from telpher.bench import _initiator

    pair = _initiator.Pair.__new__(_initiator.Pair)  # no processes
    pair.warm = set()
    seconds = itertools.count()
    monkeypatch.setattr(_initiator, "monotonic", lambda: next(seconds))
    compiled = iter([0, 1, 1, 2, 2, 2])  # two parts with a second each, then a quiet one
    pair.compiled = lambda: next(compiled)
    parts = []
    pair.warm_up(parts.append, 1, "write")
    assert len(parts) == 3


def changed(text, *arguments, **more):
    """Runs it with something in it changed."""
    program = "import runpy, sys\n%s\nsys.argv[1:] = %r\nrunpy.run_module('telpher.bench', run_name='__main__', alter_sys=True)" % (text, list(arguments))
    return subprocess.run(
        [sys.executable, "-c", program], env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * DEADLINE
    )


ONE = ("--path", "mapped", "--op", "write", "--sizes", "64", "--depth", "1", "--rounds", "1", "--seconds", "0.02", "--style", "once")


def test_a_byte_that_is_wrong_at_the_target_is_seen(tmp_path):
    spoils = """
from telpher.bench import _initiator
write = _initiator.write

def spoiled(pair, *arguments):
    found = write(pair, *arguments)
    byte = bytearray(1)
    pair.connection.read(byte, pair.target[5:6]).wait()
    pair.connection.write(bytes([byte[0] ^ 1]), pair.target[5:6]).wait()
    return found

_initiator.write = spoiled
"""
    file = tmp_path / "rows.json"
    done = changed(spoils, *ONE, "--json", str(file))
    assert done.returncode == 1 and [json.loads(line)["wrong"] for line in file.read_text().splitlines()] == [1], done.stdout + done.stderr


def test_a_comparison_that_fails_is_a_failure(tmp_path):
    """What was measured before is shown; and peers are looked for in this interpreter."""
    said = tmp_path / "said"
    fails = """
import os, subprocess, sys
from telpher.bench import _initiator
real = subprocess.run

def failing(line, **more):
    if "--compare" not in line: return real(line, **more)
    open(%r, "w").write(more["env"]["PATH"].split(os.pathsep)[0])
    return real([sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"], **more)

subprocess.run = failing
""" % str(said)
    done = changed(fails, *ONE, "--compare", "nixl")
    assert done.returncode == 1 and "ended with 3" in done.stderr and "no such thing" in done.stderr and "telpher python once" in done.stdout, done.stdout + done.stderr
    assert said.read_text() == os.path.dirname(sys.executable)


def test_pieces_and_errors():
    done = run("--path", "tcp", "--op", "write", "--sizes", "4000", "--pieces", "40", "--depth", "1", "--rounds", "1", "--seconds", "0.02", "--style", "once")
    assert done.returncode == 0 and "4000" in done.stdout, done.stdout + done.stderr
    assert "choose from" in run("--compare", "gloo").stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor is where everything stays anyway")
def test_a_thread_that_starts_while_they_are_listed_is_kept_too():
    script = """if True:
        import os, threading
        from telpher.bench import _target
        over, listdir, late = threading.Event(), os.listdir, []

        def listed(path):
            threads = listdir(path)
            if not late:
                late.append(threading.Thread(target=over.wait, daemon=True))
                late[0].start()
            return threads

        os.listdir = listed
        core = min(os.sched_getaffinity(0))
        _target.stay({core})
        assert os.sched_getaffinity(late[0].native_id) == {core}, late
    """
    done = subprocess.run([sys.executable, "-c", script], env=environment(), stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr


def test_a_peers_defaults_and_its_better_settings_are_told_apart(capsys):
    from telpher.bench.__main__ import report

    row = {"path": "mapped", "op": "write", "bytes": 8, "depth": 1, "system": "nixl", "client": "python", "settings": "x", "us_p99": 3.0, "GBps": 1.0}
    report([{**row, "tool": "default", "us_p50": 20.0}, {**row, "tool": "tuned", "us_p50": 10.0}])
    lines = capsys.readouterr().out.splitlines()
    assert any("default" in line and "20.000" in line for line in lines), lines
    assert any("tuned" in line and "10.000" in line for line in lines), lines
