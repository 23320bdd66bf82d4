"""Measures one operation between two processes of this host through another program's Python package.

A peer's script makes an adapter and calls main(). What a run prints on standard output is JSON, one object
per line, in the words of `telpher bench --json`:
  a result    {"system", "version", ..., "GBps", "us_p50", ..., "wrong"}
  no result   {"system", "tool", "skip": why it cannot run here}
  no success  {"system", "tool", "failed": what went wrong}
Everything that the package prints goes to standard error.

This process initiates; it starts the target, which obeys commands on its standard input and ends with it.
"""

import argparse
import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time

from buffers import Failed, Skip, allocate, kinds, on_gpu, place

WARM_UP = 0.1  # share of the time
LEAST = 10  # operations to time at least, however long they take
PATIENCE = 60  # seconds beyond the measured ones until a run is given up
PR_SET_PDEATHSIG = 1
ONE_SIDED = ("write", "read")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", action="store_true", help="say whether the peer can run here, and end")
    parser.add_argument("--transport", default="tcp", choices=("shm", "tcp"))
    parser.add_argument("--op", default="write", choices=("write", "read", "send", "notify"))
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--depth", type=int, default=1, help="operations in flight")
    parser.add_argument("--pieces", type=int, default=1, help="of each operation, permuted where they are written")
    parser.add_argument("--memory", default="own", help="such as cuda:cuda or cuda:pinned: read, and written; own: the host's")
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--settings", default="default", choices=("default", "tuned"))
    parser.add_argument("--backend", default="", help="for packages that have several")
    parser.add_argument("--cores", default="", help="such as 0,1: where tuned processes stay")
    parser.add_argument("--target", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    source, _, into = options.memory.partition(":")
    options.source, options.into = source, into or source
    return options


def cpu():
    t = os.times()
    return t.user + t.system


# ---- target ---------------------------------------------------------------------------------------------


def target(adapter, options, memory, say):
    adapter.memory = memory
    adapter.register(memory.address, options.bytes)
    say(address=memory.address, meta=adapter.meta())
    for line in sys.stdin:
        command = json.loads(line)
        match command["do"]:
            case "connect":
                adapter.connect(command["meta"])
                say(invite=adapter.invitation(memory.address, options.bytes))
            case "cpu":
                say(cpu=cpu())
            case "clear":
                memory.clear(options.bytes)
                say()
            case "fill":
                memory.fill(options.bytes, command["seed"])
                say()
            case "wrong":
                say(wrong=memory.wrong(options.bytes, command["seed"]))
            case "echo":
                say()
                adapter.echo(options.op, memory.address, command["address"], options.bytes)
                say()
            case "flow":
                say()
                adapter.flow(command["rounds"], command["depth"], command["pong"])
                say()
            case "drain":
                say()
                say(taken=adapter.drain())


class Target:
    """The other process, and commands to it."""

    def __init__(self, options):
        command = [sys.executable, *sys.argv, "--target"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the target process ended with exit code {self.process.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed("target: " + answer["failed"])
        return answer

    def ask(self, do, **more):
        self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self.process.stdin.flush()

    def __call__(self, do, **more):
        self.ask(do, **more)
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()


# ---- initiator ------------------------------------------------------------------------------------------


def singly(run, seconds):
    """Runs one operation at a time; gives the nanoseconds of each."""
    clock = time.perf_counter_ns
    times = []
    end = clock() + int(seconds * 1e9)
    while True:
        start = clock()
        run()
        now = clock()
        times.append(now - start)
        if now >= end and len(times) >= LEAST:
            return times


def flying(operations, seconds):
    """Keeps all operations in flight; gives their count and the seconds from first post to last end."""
    clock = time.perf_counter
    start = clock()
    end = start + seconds
    for operation in operations:
        operation.post()
    count = 0
    while True:
        for operation in operations:
            operation.wait()
            count += 1
            if clock() < end or count < LEAST:
                operation.post()
            else:
                rest = [o for o in operations if o.in_flight]
                for last in rest:
                    last.wait()
                return count + len(rest), clock() - start


class Adapter:
    """What a package must be able to do. It also has: version, path, and words, which say its settings."""

    def register(self, address, size):
        raise NotImplementedError

    def meta(self):
        """What the other side needs to connect, for JSON."""
        raise NotImplementedError

    def connect(self, meta):
        raise NotImplementedError

    def invitation(self, address, size):
        """What the initiator needs to reach the target's memory; it finds it in self.invite."""
        return None

    def operation(self, op, near, far, size):
        raise NotImplementedError

    def batch(self, op, near, far, size, depth):
        """An operation of as many pieces as are in flight, or None."""
        return None

    def vector(self, op, near, far, size):
        """One operation of many pieces of this size; near and far are lists."""
        raise Skip("it has no operations of many pieces")

    # Whether both processes have to call it for each transfer. Then there is, instead of operation(),
    # flow(rounds, depth, pong), which both call: rounds of so many transfers and perhaps an answer; gives the
    # nanoseconds of each round.
    two_sided = False

    # Those with messages also have ping(op, near, far, size), echo(op, near, far, size), message(op, near, far, size),
    # drain(), send_end() and progress().


class Operation:
    """One that is posted again and again. post() starts it, wait() returns when it is done, or raises Failed."""

    in_flight = False

    def post(self):
        self.in_flight = True
        self.start()

    def wait(self):
        self.finish()
        self.in_flight = False

    def run(self):
        self.start()
        self.finish()


def percentile(times, share):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e3


def measure(adapter, options, memory, other):
    """Connects, and measures as the operation asks; gives the fields of the result."""
    adapter.memory = memory
    adapter.register(memory.address, options.bytes)
    there = other.answer()
    other.ask("connect", meta=adapter.meta())  # some need both sides at the same time
    adapter.connect(there["meta"])
    adapter.invite = other.answer()["invite"]
    rig = Rig(adapter, options, other, memory, there["address"])
    if adapter.two_sided:
        return rig.paired()
    if options.op in ONE_SIDED:
        return rig.one_sided()
    return rig.ping_pong() if options.depth == 1 else rig.stream()


class Rig:
    """Two connected processes and a way to measure. What is timed is preceded by new contents and checked after."""

    def __init__(self, adapter, options, other, memory, far):
        self.adapter, self.other, self.memory = adapter, other, memory
        self.op, self.size, self.depth, self.seconds = options.op, options.bytes, options.depth, options.seconds
        self.tuned = options.settings == "tuned"
        self.place = (memory.address, far, options.bytes)
        self.pieces = options.pieces
        self.seed = random.SystemRandom().randrange(1 << 30)

    def renew(self):
        self.seed += 1
        if self.op == "read":
            self.other("fill", seed=self.seed)
            self.memory.clear(self.size)
        else:
            self.memory.fill(self.size, self.seed)
            self.other("clear")

    def wrong(self):
        if self.op == "notify":
            return 0  # the adapter looks at each
        if self.op == "read":
            return self.memory.wrong(self.size, self.seed)
        return self.other("wrong", seed=self.seed)["wrong"]

    def timed(self, way, seconds):
        if seconds > 0:
            way(seconds * WARM_UP)
        self.renew()
        before = cpu() + self.other("cpu")["cpu"]
        took = way(seconds)
        used = cpu() + self.other("cpu")["cpu"] - before
        result = figures(took, self.size)
        result["cpu_s_per_GB"] = used / (result["iterations"] * self.size / 1e9)
        result["wrong"] = self.wrong()
        return result

    def operation(self):
        if self.pieces == 1:
            return self.adapter.operation(self.op, *self.place)
        near, far, whole = self.place
        size = whole // self.pieces
        straight = [i * size for i in range(self.pieces)]
        mixed = [place(i, self.pieces) * size for i in range(self.pieces)]
        here, there = (mixed, straight) if self.op == "read" else (straight, mixed)
        return self.adapter.vector(self.op, [near + at for at in here], [far + at for at in there], size)

    def one_sided(self):
        if self.depth == 1:
            operation = self.operation()
            return self.timed(lambda s: singly(operation.run, s), self.seconds)
        fleet = [self.operation() for _ in range(self.depth)]
        if not self.tuned or self.pieces > 1:
            return self.timed(lambda s: flying(fleet, s), self.seconds)
        # The better of two ways to have many in flight.
        results = [self.timed(lambda s: flying(fleet, s), self.seconds / 2)]
        batch = self.adapter.batch(self.op, *self.place, self.depth)
        if batch:
            results.append(self.timed(lambda s: self.batched(batch, s), self.seconds / 2) | {"way": "in one list"})
        return max(results, key=lambda r: (r["wrong"], r["GBps"]))  # wrong data must not go unseen

    def batched(self, batch, seconds):
        times = singly(batch.run, seconds)
        return len(times) * self.depth, sum(times) / 1e9

    def paired(self):
        pong = self.op == "send" and self.depth == 1

        def flow(rounds):
            self.other("flow", rounds=rounds, depth=self.depth, pong=pong)
            times = self.adapter.flow(rounds, self.depth, pong)
            self.other.answer()
            return times

        flow(3)
        each = sorted(flow(5))[2] / 1e9
        rounds = max(LEAST, int(self.seconds / each))

        def way(_):
            times = flow(rounds)
            if self.depth > 1:
                return rounds * self.depth, sum(times) / 1e9
            return [t / 2 for t in times] if pong else times

        return self.timed(way, 0)

    def ping_pong(self):
        self.renew()
        self.other("echo", address=self.memory.address)  # from here on the target takes no command
        ping = lambda: self.adapter.ping(self.op, *self.place)
        singly(ping, self.seconds * WARM_UP)
        times = [t / 2 for t in singly(ping, self.seconds)]
        self.end()
        return figures(times, self.size) | {"cpu_s_per_GB": None, "wrong": self.wrong()}

    def stream(self):
        fleet = [self.adapter.message(self.op, *self.place) for _ in range(self.depth)]
        return self.timed(lambda s: self.drained(fleet, s), self.seconds)

    def drained(self, fleet, seconds):
        """The clock stops when the target has taken the last message."""
        self.other("drain")
        start = time.perf_counter()
        count, _ = flying(fleet, seconds)
        taken = self.end()["taken"]
        if taken != count:
            raise Failed(f"{count} messages were sent and {taken} arrived")
        return count, time.perf_counter() - start

    def end(self):
        """Tells the target that no more messages come; gives its answer."""
        self.adapter.send_end()
        while not select.select([self.other.process.stdout], [], [], 0)[0]:
            self.adapter.progress()
        return self.other.answer()


def figures(took, size):
    if isinstance(took, tuple):
        count, seconds = took
        return {"iterations": count, "GBps": count * size / seconds / 1e9, "us_p50": None, "us_p99": None}
    return {
        "iterations": len(took),
        "GBps": len(took) * size / sum(took),
        "us_p50": percentile(took, 0.5),
        "us_p99": percentile(took, 0.99),
    }


# ---- both -----------------------------------------------------------------------------------------------


def main(system, make):
    """Runs a peer's script.

    make(options, role) gives the adapter, which is a subclass of Adapter, or raises Skip.
    """
    options = arguments()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tool = ", ".join(w for w in (options.backend, options.settings) if w)

    def say(**fields):
        out.write(json.dumps(fields) + "\n")
        out.flush()

    def leave(code, **fields):
        try:
            if options.target:
                say(failed=next(iter(fields.values())))
            else:
                say(system=system, tool=tool, **fields)
        finally:
            os._exit(code)  # some packages crash in their own destructors

    if options.target:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # however the initiator ends
    watchdog = threading.Timer(
        options.seconds + PATIENCE, lambda: leave(1, failed=f"not done after {options.seconds + PATIENCE:.0f} s")
    )
    watchdog.daemon = True
    watchdog.start()
    try:
        if options.settings == "tuned" and options.cores.count(",") == 1:
            os.sched_setaffinity(0, {int(options.cores.split(",")[1 if options.target else 0])})
        # Before the package is loaded, since some look then for the GPU that is in use.
        memory = None if options.probe else allocate(options)
        adapter = make(options, "target" if options.target else "initiator")
        if options.probe:
            say(system=system, version=adapter.version, ready=True)
            os._exit(0)
        if options.target:
            target(adapter, options, memory, say)
            os._exit(0)
        other = Target(options)
        result = measure(adapter, options, memory, other)
        other.end()
        words = [*adapter.words, *filter(None, [result.pop("way", "")])]
        say(
            system=system,
            version=adapter.version,
            client="python",
            device="cpu" if options.memory == "own" else "cuda",
            transport=options.transport,
            path=adapter.path,
            memory=options.memory,
            op="send" if adapter.two_sided else options.op,
            tool=tool,
            settings=", ".join(words),
            bytes=options.bytes,
            pieces=options.pieces,
            depth=options.depth,
            **result,
        )
    except Skip as reason:
        leave(0, skip=str(reason))
    except Exception as error:  # whatever it was: nobody may wait for a result that does not come
        leave(1, failed=str(error) or type(error).__name__)
    os._exit(0)
