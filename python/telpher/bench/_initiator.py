"""The process that measures: posts, waits, and has the target's bytes checked after each row."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path
from time import monotonic, perf_counter_ns
from typing import Any, Callable, Dict, List, Set, Tuple

import telpher

from ._target import GPU_PATHS, cores, endpoint_for, memory_for

Row = Dict[str, Any]

BLOCK = 1_000_003
"""Bytes of contents that are made; longer ones repeat them. A prime, so that no piece is like another."""


class Pair:
    """This endpoint, and the target's process."""

    def __init__(self, path: str, nbytes: int, device: str, pin: bool):
        self.cores = cores()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "telpher.bench", "--target"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        )
        pin = pin and len(self.cores) > 1
        self.tell("%s %d %s%s" % (path, nbytes, device, " %d" % self.cores[1] if pin else ""))
        self.path, self.device = path, device
        self.endpoint = endpoint_for(path)
        self.region = memory_for(self.endpoint, path, nbytes, device, 0)
        self.connection = self.endpoint.connect(self.answer(), 60)
        self.target = self.connection.lookup("target", 60)
        self.warm: Set[Tuple[str, ...]] = set()
        self.compilers: Dict[Path, int] = {}
        if path in GPU_PATHS:
            self.until_a_gpu_copies(path)
        if pin:  # only now: the threads of the JVM are not to stay there too
            os.sched_setaffinity(0, self.cores[:1])

    def until_a_gpu_copies(self, path: str) -> None:
        """Two GPUs are tried before they copy for each other, and memory of the other process is opened: meanwhile bytes are staged."""
        end = monotonic() + 60
        while True:
            first = self.connection.write(self.region[:8], self.target[:8])
            first.wait()
            if first.path == path:
                return
            if monotonic() > end:
                raise telpher.Error("no GPU copies by %s within 60 s, but %s does:\n%s" % (path, first.path, self.connection.explain()))

    def warm_up(self, run: Callable[[float], Any], seconds: float, *what: str) -> None:
        """Runs what is measured next: both JVMs compile what is new, on the cores that are measured. As long as they do, up to ten seconds
        and thirty times what is measured."""
        least = seconds * (2 if what not in self.warm else 0.6)
        self.warm.add(what)
        started = monotonic()
        while True:
            before, compiled = monotonic(), self.compiled()
            run(max(0.1, least / 3))
            now = monotonic()
            calm = self.compiled() - compiled < 0.05 * (now - before)
            if (calm and now - started >= least) or now - started > min(10, 30 * seconds):
                return

    def compiled(self) -> float:
        """Seconds of processor time that the compilers of both JVMs have taken so far."""
        for process in "self", self.process.pid:
            for thread in Path("/proc/%s/task" % process).iterdir():
                try:
                    if thread.joinpath("comm").read_text()[:3] in ("C1 ", "C2 "):
                        self.compilers[thread] = int(thread.joinpath("schedstat").read_text().split()[0])
                except (FileNotFoundError, ProcessLookupError):
                    pass  # compilers come and go; what they have used stays
        return sum(self.compilers.values()) / 1e9

    def tell(self, line: str) -> None:
        """Tells the target."""
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """What it says."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise telpher.Error("the target's process has ended with code %s" % self.process.wait(10))
        return line.strip()

    def close(self) -> None:
        """Ends both."""
        os.sched_setaffinity(0, self.cores)
        self.endpoint.close()
        self.tell("end")
        self.process.wait(60)


def measure(options: argparse.Namespace, path: str, op: str, round_number: int) -> List[Row]:
    """All rows of one path and operation."""
    pair = Pair(path, max(max(options.sizes), 8), options.device, not options.no_pin)
    rows = []
    try:
        for nbytes in options.sizes:
            for depth in options.depth if op == "write" else [1]:
                for style in options.style:
                    fill(pair, nbytes)
                    if op == "write":
                        samples, seconds, done, used = write(pair, nbytes, depth, style, options)
                    else:
                        samples, seconds, done, used = send(pair, nbytes, style, options.seconds)
                    rows.append(
                        row(path if used == "" else used, op, nbytes, depth, style, options, round_number, samples, seconds, done, check(pair, nbytes, options))
                    )
    finally:
        pair.close()
    return rows


def fill(pair: Pair, nbytes: int) -> None:
    """New contents for each row: what a zeroed or a stale buffer has would be noticed."""
    block = random.getrandbits(8 * BLOCK).to_bytes(BLOCK, "little")
    pair.region.copy_in((block * (nbytes // BLOCK + 1))[:nbytes])


def check(pair: Pair, nbytes: int, options: argparse.Namespace) -> int:
    """Whether the target has other bytes: 0 or 1."""
    source = bytearray(nbytes)
    pair.region.copy_out(source)
    if options.pieces > 1:
        order = permutation(options.pieces)
        piece = nbytes // options.pieces
        permuted = bytearray(nbytes)
        for i, to in enumerate(order):
            permuted[to * piece : (to + 1) * piece] = source[i * piece : (i + 1) * piece]
        source = permuted
    pair.tell("check %d" % nbytes)
    return int(int(pair.answer()) != zlib.crc32(source))


def permutation(pieces: int) -> List[int]:
    """Where the pieces go."""
    order = list(range(pieces))
    random.Random(pieces).shuffle(order)
    return order


def write(pair: Pair, nbytes: int, depth: int, style: str, options: argparse.Namespace) -> Tuple[List[int], float, int, str]:
    """Writes until the time is over: nanoseconds of each, seconds of all, their number, the path."""
    connection = pair.connection
    if options.pieces > 1:
        if nbytes % options.pieces:
            raise telpher.Error("%d bytes are not %d equal pieces" % (nbytes, options.pieces))
        piece = nbytes // options.pieces
        local: Any = pair.region.blocks(range(options.pieces), piece)
        remote: Any = pair.target.blocks(permutation(options.pieces), piece)
    else:
        local, remote = pair.region[:nbytes], pair.target[:nbytes]
    first = connection.write(local, remote)
    first.wait()
    used = first.path
    # The bytes are ready, and no stream is asked, as with the others; but by default.
    streams: Dict[str, Any] = {} if style == "default" else {"stream": None}
    if depth == 1:
        prepared = connection.prepare_write(local, remote, stream=None)
        call: Callable[[], Any] = lambda: connection.write(local, remote, **streams).wait()
        if style == "prepared":
            call = prepared.run
        return (*one_by_one(pair, call, options.seconds, "write", style), used)
    return (*in_flight(pair, local, remote, depth, style, options.seconds), used)


def one_by_one(pair: Pair, call: Callable[[], Any], seconds: float, *what: str) -> Tuple[List[int], float, int]:
    """Times of single calls; short ones in groups, since reading the clock takes time too."""
    group = 1

    def run(lasts: float) -> None:
        nonlocal group
        started, count = perf_counter_ns(), 0
        while perf_counter_ns() - started < lasts * 1e9:
            call()
            count += 1
        group = max(1, int(2000 / ((perf_counter_ns() - started) / count)))

    pair.warm_up(run, seconds, *what)
    samples = []
    repeat = range(group)
    started = perf_counter_ns()
    end = started + int(seconds * 1e9)
    before = started
    while before < end:
        for _ in repeat:
            call()
        now = perf_counter_ns()
        samples.append((now - before) // group)
        before = now
    return samples, (before - started) / 1e9, len(samples) * group


def in_flight(pair: Pair, local: Any, remote: Any, depth: int, style: str, seconds: float) -> Tuple[List[int], float, int]:
    """Keeps some in flight; the oldest one is waited for and posted again."""
    connection = pair.connection
    prepared = [connection.prepare_write(local, remote, stream=None) for _ in range(depth)]
    streams: Dict[str, Any] = {} if style == "default" else {"stream": None}
    post: Callable[[int], telpher.Transfer] = lambda i: connection.write(local, remote, **streams)
    if style == "prepared":
        post = lambda i: prepared[i].post()

    def run(lasts: float) -> Tuple[List[int], float, int]:
        posted = [0] * depth
        flying = []
        samples = []
        started = perf_counter_ns()
        end = started + int(lasts * 1e9)
        for i in range(depth):
            posted[i] = perf_counter_ns()
            flying.append(post(i))
        i = done = 0
        while True:
            flying[i].wait()
            now = perf_counter_ns()
            samples.append(now - posted[i])
            done += 1
            if now >= end:
                break
            posted[i] = now
            flying[i] = post(i)
            i = (i + 1) % depth
        telpher.wait_all(flying)
        return samples, (perf_counter_ns() - started) / 1e9, done + depth - 1

    pair.warm_up(run, seconds, "writes", style)
    return run(seconds)


def send(pair: Pair, nbytes: int, style: str, seconds: float) -> Tuple[List[int], float, int, str]:
    """Half of a ping-pong."""
    connection, region = pair.connection, pair.region[:nbytes]
    pair.tell("echo %d" % nbytes)
    streams: Dict[str, Any] = {} if style == "default" else {"stream": None}
    back = memory_for(pair.endpoint, pair.path, nbytes, pair.device, 0)
    if style == "prepared":
        out, answer = connection.prepare_send(region, stream=None), connection.prepare_receive(back, stream=None)

        def call() -> None:
            answer.post()
            out.run()
            answer.wait()
    else:

        def call() -> None:
            receive = connection.receive(back, **streams)
            connection.send(region, **streams).wait()
            receive.wait()

    samples, total, done = one_by_one(pair, call, seconds, "send", style)
    connection.send(region[:0]).wait()
    back.close()
    return [each // 2 for each in samples], total / 2, done, ""


def row(
    path: str, op: str, nbytes: int, depth: int, style: str, options: argparse.Namespace, round_number: int,
    samples: List[int], seconds: float, done: int, wrong: int,
) -> Row:
    """A line of JSON, as `telpher bench` writes it."""
    samples.sort()
    last = len(samples) - 1

    def quantile(share: float) -> float:
        return samples[min(last, int(share * len(samples)))] / 1e3

    return {
        "system": "telpher", "version": telpher.__version__, "client": "python", "device": options.device,
        "transport": "tcp" if path == "tcp" else "shm", "path": path, "op": op, "tool": "telpher.bench",
        "settings": "%s, Python %d.%d" % (style, *sys.version_info[:2]), "bytes": nbytes, "pieces": options.pieces, "depth": depth,
        "round": round_number, "iterations": done, "GBps": nbytes * done / seconds / 1e9,
        "us_p50": quantile(0.5), "us_p99": quantile(0.99), "us_p999": quantile(0.999), "wrong": wrong,
    }
