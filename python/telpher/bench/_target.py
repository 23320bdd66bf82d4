"""The process that is written into. It is told what to do by lines on standard input, and answers by lines."""

from __future__ import annotations

import os
import select
import zlib
from typing import Any, BinaryIO, Dict, List, Set

import telpher


GPU_PATHS = ("cuda-cumem", "cuda-ipc")

SPIN = 0.1
"""Seconds for which waits poll in Java before they sleep: the others poll all the time, and so does `telpher bench`."""


def endpoint_for(path: str) -> telpher.Endpoint:
    """An endpoint whose connections take one path for their bytes."""
    if path == "tcp":
        return telpher.Endpoint(transports=["tcp"], spin=SPIN)
    return telpher.Endpoint(transports=["shm"], spin=SPIN, paths=[path, "mapped" if path in GPU_PATHS else "shm-ring"])


def memory_for(endpoint: telpher.Endpoint, path: str, nbytes: int, device: str, rank: int) -> telpher.MemoryRegion:
    """Memory that peers can reach by it. Rank N has the N-th GPU."""
    if device == "cpu":
        return endpoint.allocate(nbytes) if path == "mapped" else endpoint.register(bytearray(nbytes))
    count = sum(each["runtime"] == "cuda" for each in telpher.devices())
    gpu = "cuda:%d" % (rank % max(1, count))
    if path != "cuda-ipc":
        return endpoint.allocate(nbytes, device=gpu)
    try:
        import torch
    except ImportError as e:
        raise telpher.Error("cuda-ipc is for memory of others, and PyTorch, whose memory would be taken, cannot be imported: %s" % e) from e
    return endpoint.register(torch.empty(nbytes, dtype=torch.uint8, device=gpu))


def cores() -> List[int]:
    """The processors that this thread may use: one of each core first, then their hyper-threads."""
    first: Dict[str, int] = {}
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in allowed:
        try:
            with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu, encoding="ascii") as siblings:
                first.setdefault(siblings.read().strip(), cpu)
        except OSError:
            first[str(cpu)] = cpu
    return [*first.values(), *(cpu for cpu in allowed if cpu not in first.values())]


def stay(where: Set[int]) -> None:
    """Keeps all threads of this process there. One of the JVM's takes in what is written, and may not share the initiator's core."""
    kept: Set[str] = set()
    while missing := set(os.listdir("/proc/self/task")) - kept:  # one that is not kept yet may start others meanwhile
        for thread in missing:
            try:
                os.sched_setaffinity(int(thread), where)
            except ProcessLookupError:  # it has ended
                pass
        kept |= missing


def contents(region: telpher.MemoryRegion, nbytes: int) -> Any:
    """A copy of its first bytes."""
    into = bytearray(nbytes)
    region.copy_out(into)
    return into


def serve() -> int:
    """Until the initiator has enough."""
    commands = open(0, "rb", buffering=0, closefd=False)  # what were read ahead, nobody could wait for
    path, nbytes, device, *core = commands.readline().decode().split()
    with endpoint_for(path) as endpoint:
        region = memory_for(endpoint, path, int(nbytes), device, 1)
        endpoint.publish("target", region)
        print(endpoint.address.text, flush=True)
        peer = endpoint.accept(60)
        stay({int(each) for each in core} or set(cores()))
        while True:
            command, *numbers = next_line(commands, peer).split() or ["end"]
            if command == "end":
                return 0
            if command == "check":
                print(zlib.crc32(contents(region, int(numbers[0]))), flush=True)
            elif command == "echo":
                echo(peer, region, int(numbers[0]))


def next_line(commands: BinaryIO, peer: telpher.Connection) -> str:
    """What the initiator says next, or nothing when it has ended. Polls until then, as the target of `telpher bench` does and those of the
    others: by itself an engine's thread would sleep until something comes, and waking it would be part of what is measured. It polls in Java,
    where a turn costs a tenth of what it does from here."""
    while not select.select([commands], [], [], 0)[0]:
        try:
            peer.wait_notification(0.001)
        except telpher.TimedOut:
            pass
        except telpher.PeerLost:  # it has measured enough, and says so next
            break
    return commands.readline().decode()


def echo(peer: telpher.Connection, region: telpher.MemoryRegion, nbytes: int) -> None:
    """Sends back what comes; an empty message ends it."""
    receive = peer.prepare_receive(region[:nbytes], stream=None)
    answer = peer.prepare_send(region[:nbytes], stream=None)
    while receive.run():
        answer.run()
