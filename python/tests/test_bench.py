"""The benchmark measures, checks, and stands beside Java's."""

import json
import subprocess
import sys

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


def test_pieces_and_errors():
    done = run("--path", "tcp", "--op", "write", "--sizes", "4000", "--pieces", "40", "--depth", "1", "--rounds", "1", "--seconds", "0.02", "--style", "once")
    assert done.returncode == 0 and "4000" in done.stdout, done.stdout + done.stderr
    assert "choose from" in run("--compare", "gloo").stderr
