"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Tuple

import telpher
from telpher import _jvm

from . import _initiator, _target

PEERS = ("java", "nixl", "mooncake", "uccl", "nccl", "cuda")
PATHS = {"cpu": ["mapped", "tcp"], "cuda": ["cuda-cumem", "tcp"]}
Row = Dict[str, Any]


def size(text: str) -> int:
    """Bytes, as 8, 64K, 1M, 1G."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def listed(kind: Any) -> Any:
    """A comma-separated list."""
    return lambda text: [kind(part) for part in text.split(",") if part]


def parse(arguments: List[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m telpher.bench", description=__doc__)
    parser.add_argument("--device", choices=sorted(PATHS), default="cpu", help="whose memory: cuda is GPU 0 to GPU 1 of those that the process sees")
    parser.add_argument("--path", type=listed(str), help="paths: mapped, cma, tcp, shm-ring; of GPUs cuda-cumem, cuda-ipc (PyTorch's memory), tcp, shm-ring")
    parser.add_argument("--op", type=listed(str), default=["write", "send"], help="write (until it is in the target's memory), send (one way)")
    parser.add_argument("--sizes", type=listed(size), default=[8, 65536, 1 << 20], help="bytes, as 8,64K,1M")
    parser.add_argument("--depth", type=listed(int), default=[1, 16], help="operations in flight; sends have one")
    parser.add_argument("--pieces", type=int, default=1, help="pieces of each write, permuted at the target")
    parser.add_argument("--style", type=listed(str), default=["prepared", "once"], help="prepared (posted again), once (a new transfer each time), default (the same with stream= left out: of GPUs, it begins after the current stream)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-pin", action="store_true", help="leaves both processes' measuring threads to the scheduler, instead of a core each")
    parser.add_argument("--json", help="writes one JSON object per line, in the format of `telpher bench`")
    parser.add_argument("--compare", type=listed(str), default=[], help="others in turn: java (the same from Java), nixl, mooncake, uccl, nccl, cuda")
    options = parser.parse_args(arguments)
    options.path = options.path or PATHS[options.device]
    for name, allowed in (("op", ("write", "send")), ("style", ("prepared", "once", "default")), ("compare", PEERS)):
        wrong = [each for each in getattr(options, name) if each not in allowed]
        if wrong:
            parser.error("--%s %s: choose from %s" % (name, ",".join(wrong), ",".join(allowed)))
    return options


def others(options: argparse.Namespace, path: str, op: str) -> List[Row]:
    """The rows of `telpher bench`: the same from Java, and the peers that it knows."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        depths = [1] if op == "send" else options.depth
        command = [
            "bench", "--path", path, "--op", op, "--sizes", ",".join(map(str, options.sizes)),
            "--depth", ",".join(map(str, depths)), "--seconds", str(options.seconds), "--rounds", "1", "--json", file,
        ]
        peers = [each for each in options.compare if each != "java"]
        if peers:
            command += ["--compare", ",".join(peers)]
        if options.pieces > 1:
            command += ["--pieces", str(options.pieces)]
        if options.no_pin:
            command += ["--no-pin"]
        if options.device == "cuda":
            command += ["--memory", "cuda-foreign" if path == "cuda-ipc" else "cuda"]
        java = [os.path.join(_jvm.find_java(), "bin", "java"), "-XX:+UseSerialGC", "--enable-native-access=io.telpher.engine"]
        line = [*java, "-p", _jvm.jar_folder(), "-m", "io.telpher.cli/io.telpher.cli.Main", *command]
        # Peers that --install-peers has not installed are looked for in the python3 of the PATH: in this interpreter, then.
        path_of_this = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, PATH=path_of_this))
        if done.returncode != 0:
            raise telpher.Error("telpher %s ended with %d:\n%s" % (" ".join(command), done.returncode, done.stdout))
        for said in done.stdout.splitlines():
            if "not compared" in said:
                print(said.strip(), file=sys.stderr)
        with open(file, encoding="utf-8") as rows:
            return [row for row in map(json.loads, rows) if "us_p50" in row]


def middle(values: List[float]) -> float:
    """The median."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def report(rows: List[Row]) -> None:
    """A table of medians over the rounds."""
    groups: Dict[Tuple[Any, ...], List[Row]] = {}
    for row in rows:
        style = row["settings"].split(",")[0] if row["client"] == "python" else ""
        kind = style if row["system"] == "telpher" else row["tool"]  # a peer's defaults, and its better settings
        key = (row["path"], row["op"], row["bytes"], row["depth"], row["system"], row["client"], kind)
        groups.setdefault(key, []).append(row)
    print("%-9s %-6s %10s %5s  %-26s %10s %10s %9s" % ("path", "op", "bytes", "depth", "system", "us p50", "us p99", "GB/s"))
    for (path, op, nbytes, depth, system, client, kind), found in sorted(groups.items(), key=lambda item: item[0][:4]):
        name = "%s %s %s" % (system, client, kind)
        figures = [middle([row.get(each) or float("nan") for row in found]) for each in ("us_p50", "us_p99", "GBps")]
        print("%-9s %-6s %10d %5d  %-26s %10.3f %10.3f %9.3f" % (path, op, nbytes, depth, name.strip(), *figures))


def over_java(rows: List[Row]) -> None:
    """What one operation costs from Python beyond what the same costs from Java: differences of medians within a round."""
    java: Dict[Tuple[Any, ...], float] = {}
    python: Dict[Tuple[Any, ...], List[Tuple[int, float]]] = {}
    for row in rows:
        case = (row["path"], row["op"], row["bytes"])
        if row["system"] == "telpher" and row["depth"] == 1 and row["us_p50"]:
            if row["client"] == "java":
                java[(*case, row["round"])] = row["us_p50"]
            else:
                python.setdefault((*case, row["settings"].split(",")[0]), []).append((row["round"], row["us_p50"]))
    for (path, op, nbytes, style), found in python.items():
        more = sorted(us - java[(path, op, nbytes, turn)] for turn, us in found if (path, op, nbytes, turn) in java)
        if more:
            print("from Python over Java: %s %s of %d bytes, %s: %+.2f (%+.2f to %+.2f) us" % (path, op, nbytes, style, middle(more), more[0], more[-1]))


def main(arguments: List[str]) -> int:
    """Runs it."""
    if arguments == ["--target"]:
        return _target.serve()
    options = parse(arguments)
    rows: List[Row] = []
    failed = False
    try:
        for round_number in range(1, options.rounds + 1):
            for path in options.path:
                for op in options.op:
                    rows += _initiator.measure(options, path, op, round_number)
                    if options.compare:
                        rows += [dict(row, round=round_number) for row in others(options, path, op)]
    except telpher.Error as e:
        print("telpher.bench: %s" % e, file=sys.stderr)
        failed = True
    report(rows)
    over_java(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    return 1 if failed or any(row.get("wrong") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
