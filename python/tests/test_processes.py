"""What happens at the edges of a process: peers that die, Ctrl-C, fork, exit, faults."""

import os
import signal
import subprocess
import sys
import time

import pytest
import telpher
from conftest import DEADLINE, PEER


def test_between_processes(peer):
    started, endpoint, connection, memory = peer
    region = endpoint.register(bytearray(b"x" * 100))
    transfer = connection.write(region, memory)
    assert transfer.wait(DEADLINE) == 100 and transfer.path == "mapped"
    with pytest.raises(telpher.PeerLost, match="closed the connection"):
        started.tell("")
        started.end()
        for _ in range(200):  # until the owner's end has been noticed
            connection.write(region, memory).wait(DEADLINE)
            time.sleep(0.05)


def test_a_killed_peer_is_noticed(peer):
    started, endpoint, connection, memory = peer
    receive = connection.receive(bytearray(10))
    os.kill(started.process.pid, signal.SIGKILL)
    with pytest.raises(telpher.PeerLost) as caught:
        receive.wait(DEADLINE)
    assert isinstance(caught.value, ConnectionError) and receive.state == "failed"
    with pytest.raises(telpher.PeerLost):
        connection.wait_notification(DEADLINE)
    assert isinstance(connection.failure, telpher.PeerLost)


def test_a_stopped_peer_is_not_dead(peer):
    started, endpoint, connection, memory = peer
    os.kill(started.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(telpher.TimedOut):
            connection.send(bytes(1 << 20), deadline=0.3).wait(DEADLINE)
    finally:
        os.kill(started.process.pid, signal.SIGCONT)
    connection.write(bytes(4), memory).wait(DEADLINE)


def test_signals_stay_python_s(script):
    asking = script(
        """
        import signal, telpher
        from telpher import _signals
        got = []
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
        before = {n: signal.getsignal(n) for n in numbers}
        in_c = {n: _signals._handler(_signals._get(n)) for n in numbers}
        signal.signal(signal.SIGUSR2, lambda n, f: got.append(n))
        endpoint = telpher.Endpoint()
        print([n.name for n in numbers if n != signal.SIGUSR2 and _signals._handler(_signals._get(n)) != in_c[n]])  # what getsignal does not know of
        signal.signal(signal.SIGTERM, lambda n, f: got.append(n))
        signal.signal(signal.SIGQUIT, lambda n, f: got.append(n))
        for n in (signal.SIGUSR2, signal.SIGTERM, signal.SIGQUIT):
            signal.raise_signal(n)
        print(got == [signal.SIGUSR2, signal.SIGTERM, signal.SIGQUIT])
        print(all(signal.getsignal(n) == before[n] for n in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD)))
        try:
            open("/proc/self/fd/%d" % __import__("os").pipe()[0]).close()
            r, w = __import__("os").pipe(); __import__("os").close(r); __import__("os").write(w, b"x")
        except BrokenPipeError:
            print("EPIPE")
        """
    )
    assert asking.end() == ("[]\nTrue\nTrue\nEPIPE\n", "")


def test_sigterm_ends_the_process(script):
    waiting = script("import telpher; e = telpher.Endpoint(); print('here'); e.accept()")
    waiting.expect("here")
    waiting.process.terminate()
    waiting.end(-signal.SIGTERM)


COLLECT = """
    # Safepoints, collections and null checks of compiled code all need SIGSEGV.
    for i in range(20000):
        connection.send(b"x").wait(); accepted.receive(bytearray(1)).wait()
        if i % 5000 == 0: print(i)
"""


@pytest.mark.parametrize("order", ["before", "after", "before and disabled", "after and disabled", "interpreter"])
def test_faulthandler(script, order):
    """In every order Java goes on working, and a fault of somebody else prints Python's stack."""
    text = """
        import ctypes, faulthandler, os, telpher
        os.chdir(os.environ["FAULTS"])
        if "before" in %r: faulthandler.enable()
        endpoint = telpher.Endpoint()
        if "after" in %r: faulthandler.enable()
        if "disabled" in %r: faulthandler.disable()
        other = telpher.Endpoint()
        connection = endpoint.connect(other.address); accepted = other.accept()
        %s
        def the_fault():
            ctypes.string_at(16)
        the_fault()
    """ % (order, order, order, COLLECT.replace("20000", "1500").replace("5000", "1000").replace("\n", "\n    "))
    folder = os.environ.get("TMPDIR", "/tmp")
    crashing = script(text, env={"FAULTS": folder}, interpreter=["-X", "faulthandler"] if order == "interpreter" else [])
    out, err = crashing.process.communicate(timeout=DEADLINE)
    assert crashing.process.returncode == -signal.SIGABRT, (crashing.process.returncode, out, err)
    assert "0\n1000\n" in out and "SIGSEGV" in out
    assert ("the_fault" in err) == ("disabled" not in order), err
    report = os.path.join(folder, "hs_err_pid%d.log" % crashing.process.pid)
    assert os.path.exists(report)
    os.remove(report)


def test_ctrl_c_when_the_jvm_has_just_started(script):
    """It runs then, and its handlers stay in front of faulthandler's; the next endpoint uses it."""
    interrupted = script(
        """
        import faulthandler
        faulthandler.enable()
        import contextlib, telpher
        from telpher import _jvm, _signals
        around = _signals.around_start
        def handlers(): return [_signals._handler(_signals._get(number)) for number in _signals.FAULTS]
        faulthandlers = handlers()

        @contextlib.contextmanager
        def interrupting(*arguments):
            with around(*arguments):
                yield
                raise KeyboardInterrupt

        _signals.around_start = interrupting
        try: telpher.Endpoint()
        except KeyboardInterrupt: print("interrupted")
        endpoint, other = telpher.Endpoint(), telpher.Endpoint()
        connection = endpoint.connect(other.address); accepted = other.accept(30)
        print(any(mine == its for mine, its in zip(handlers(), faulthandlers)))
        faulthandler.disable(); faulthandler.enable()
        print(any(mine == its for mine, its in zip(handlers(), faulthandlers)))
        %s
        print("went on")
        """
        % COLLECT.replace("20000", "1500").replace("\n", "\n    "),
    )
    out, err = interrupted.end()
    assert out.split("\n")[:3] == ["interrupted", "False", "False"] and out.endswith("went on\n") and err == ""


@pytest.mark.parametrize("how", ["end", "exit", "raise", "threads", "arrays", "callback"])
def test_the_interpreter_ends_with_transfers_in_flight(script, how):
    ending = script(
        """
        import sys, threading, time, telpher
        endpoint, other = telpher.Endpoint(), telpher.Endpoint(transports=["tcp"])
        connection = endpoint.connect(other.address); accepted = other.accept()
        pending = [connection.receive(bytearray(10)), connection.send(bytes(1 << 20))]
        how = %r
        if how == "threads":
            for daemon in (True, True, False):
                def wait(seconds=None if daemon else 0.5):
                    try: connection.receive(bytearray(1)).wait(seconds)
                    except telpher.Error: pass
                threading.Thread(target=wait, daemon=daemon).start()
        if how == "arrays": view = endpoint.allocate(100).view
        if how == "callback": pending[0].add_done_callback(lambda t: time.sleep(0.1))
        print("ending", flush=True)
        if how == "exit": sys.exit(3)
        if how == "raise": raise SystemExit("said")
        """
        % how
    )
    out, err = ending.end({"exit": 3, "raise": 1}.get(how, 0))
    assert (out, err) == ("ending\n", "said\n" if how == "raise" else "")


def test_a_full_java_heap_is_a_memory_error(script):
    """For as long as it is full; afterwards everything works."""
    filling = script(
        """
        import gc, telpher
        from telpher import _table
        _table.start()  # no endpoint yet: its threads want memory too
        memory = telpher.RemoteMemory(telpher.RemoteMemory._LAYOUT.pack(1, 1, 1, 1, 0, 1 << 30, 3))
        held, errors = [], 0
        while errors < 5:
            try: held.append(memory.blocks(range(1 << 15), 1))
            except MemoryError as e:
                assert str(e) == "Java heap space", e
                errors += 1
        print(len(held) > 2)
        held.clear()
        gc.collect(); _table.collect(1)
        with telpher.Endpoint(transports=["shm"]) as a, telpher.Endpoint(transports=["shm"]) as b:
            receive = b.connect(a.address).receive(bytearray(4))
            a.accept(30).send(b"four").wait(30)
            print(receive.wait(30))
        """,
        env={"TELPHER_JAVA_OPTS": "-XX:+UseSerialGC -Xmx24m"},
    )
    assert filling.end() == ("True\n4\n", "")


def test_a_thousand_endpoints(script):
    """Opened and closed, each with a region and a transfer: descriptors, threads and memory stay."""
    many = script(
        """
        import gc, os, telpher
        def use():
            with telpher.Endpoint(transports=["shm"]) as a:
                region = a.register(bytearray(4096))
                peer = a.connect(other.address); accepted = other.accept(30)
                receive = accepted.receive(bytearray(4096))
                peer.send(region).wait(30); receive.wait(30)
        def size():
            gc.collect()
            with open("/proc/self/statm") as f: pages = int(f.read().split()[1])
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * 4096
        other = telpher.Endpoint(transports=["shm"])
        for _ in range(300): use()
        before = size()
        for _ in range(1000): use()
        after = size()
        print(after[0] <= before[0] + 4, after[1] <= before[1] + 4, after[2] < before[2] + (96 << 20), before, after)
        """
    )
    out, err = many.end()
    assert out.startswith("True True True"), out
    assert err == ""


def test_eight_processes_in_full_mesh(script):
    """Each writes its number into its slot at every other one, and tells it."""
    text = """
        import sys, threading, telpher
        rank, world = int(sys.argv[1]), int(sys.argv[2])
        endpoint = telpher.Endpoint()
        region = endpoint.allocate(8 * world)
        endpoint.publish("slots", region)
        print("address", endpoint.address.text)
        addresses = [input() for _ in range(world)]
        accepted = []
        acceptor = threading.Thread(target=lambda: accepted.extend(endpoint.accept(60) for _ in range(rank)))
        acceptor.start()
        peers = [endpoint.connect(a, 60) for a in addresses[rank + 1:]]
        acceptor.join()
        peers += accepted
        source = endpoint.register(rank.to_bytes(8, "little"))
        for peer in peers:
            peer.write(source, peer.lookup("slots", 60)[8 * rank : 8 * rank + 8], notification=b"%d" % rank).wait(60)
        got = sorted(int(peer.wait_notification(60)) for peer in peers)
        slots = [int.from_bytes(region.view[8 * i : 8 * i + 8], "little") for i in range(world)]
        print(got == [i for i in range(world) if i != rank], slots == [i if i != rank else 0 for i in range(world)])
        input()  # nobody leaves before all have everything
    """
    world = 8
    ranks = [script(text, str(rank), str(world)) for rank in range(world)]
    addresses = [rank.expect("address") for rank in ranks]
    for rank in ranks:
        for address in addresses:
            rank.tell(address)
    for rank in ranks:
        assert rank.expect() == "True True"
    for rank in ranks:
        rank.tell("")
    for rank in ranks:
        assert rank.end() == ("", "")
