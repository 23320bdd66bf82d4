"""What happens at the edges of a process: peers that die, Ctrl-C, fork, exit, faults."""

import os
import signal
import subprocess
import sys
import time

import pytest
import telpher
from conftest import DEADLINE, PEER
from telpher import _jvm


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
        got = []
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
        before = {n: signal.getsignal(n) for n in numbers}
        signal.signal(signal.SIGUSR2, lambda n, f: got.append(n))
        endpoint = telpher.Endpoint()
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
    assert asking.end() == ("True\nTrue\nEPIPE\n", "")


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


def test_import_starts_nothing(script):
    importing = script(
        """
        import sys, time
        started = time.perf_counter()
        import telpher
        with open("/proc/self/maps") as maps: print("libjvm" in maps.read(), "numpy" in sys.modules, "torch" in sys.modules)
        """
    )
    assert importing.end() == ("False False False\n", "")


def test_a_missing_java_names_the_places_and_the_remedy(script, tmp_path):
    text = """
        import os, telpher
        telpher._jvm.FOLDERS = [os.environ["FOLDERS"]]
        try: telpher.Endpoint()
        except telpher.JvmError as e: print(e)
    """
    old = tmp_path / "old"
    (old / "lib" / "server").mkdir(parents=True)
    (old / "lib" / "server" / "libjvm.so").touch()
    (old / "release").write_text('JAVA_VERSION="21.0.2"\n')
    env = {"JAVA_HOME": str(old), "PATH": "/nonexistent", "FOLDERS": str(tmp_path / "*")}
    out, _ = script(text, env=env).end()
    assert "no Java 25 found" in out and "installed (%s)" % old in out and "JAVA_HOME (%s): Java 21.0.2" % old in out and "telpher[jre]" in out
    out, _ = script(text, env={"TELPHER_JARS": str(tmp_path), "FOLDERS": _jvm.find_java()}).end()
    assert "has no telpher-python-*.jar" in out and "telpher build" in out
    out, _ = script(text, env={"TELPHER_JAVA_OPTS": "-XX:NoSuchOption=1", "FOLDERS": _jvm.find_java()}).end()
    assert "NoSuchOption" in out and "code -" in out


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
                region = a.register(bytearray(4096)); region.remote; a.address
        def size():
            gc.collect()
            with open("/proc/self/statm") as f: pages = int(f.read().split()[1])
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * 4096
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


def test_the_command(tmp_path):
    """The console script runs the same command as the launcher."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TELPHER_")}
    env["PYTHONPATH"] = os.path.dirname(os.path.dirname(telpher.__file__))
    done = subprocess.run(
        [sys.executable, "-m", "telpher", "config"], env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, cwd=tmp_path,
    )
    assert done.returncode == 0 and "TELPHER_LANES" in done.stdout and done.stderr == ""


def test_the_start_up_cache(script, tmp_path):
    """The first process leaves behind who makes it, which is used from then on, by its owner alone; nothing is printed whatever becomes of it."""
    env = {"XDG_CACHE_HOME": str(tmp_path), "TELPHER_JAVA_OPTS": "", "TELPHER_NO_AOT": ""}
    text = """
        import threading, telpher
        telpher.Endpoint().close()
        for each in threading.enumerate():
            if each.name == "telpher-aot": each.join()  # it is a daemon: a process that ends at once leaves nobody behind
        print(".aot" in open("/proc/self/maps").read())
    """
    assert script(text, env=dict(env, TELPHER_NO_AOT="1")).end() == ("False\n", "")
    assert not os.path.exists(tmp_path / "telpher")
    together = [script(text, env=env) for _ in range(2)]
    assert [each.end() for each in together] == [("False\n", "")] * 2
    until = time.monotonic() + 2 * DEADLINE
    while not (made := [name for name in os.listdir(tmp_path / "telpher") if name.endswith(".aot")]) and time.monotonic() < until:
        time.sleep(0.1)
    assert os.listdir(tmp_path / "telpher") == made and len(made) == 1
    assert script(text, env=env).end() == ("True\n", "")
    assert script(text, env=dict(env, TELPHER_NO_AOT="1")).end() == ("False\n", "")
    with open(tmp_path / "telpher" / made[0], "r+b") as file:
        file.write(bytes(64))
    assert script(text, env=env).end()[1] == ""


def test_a_jvm_that_is_here_already_is_used(script):
    """As JPype's: the jars come in by a class loader of their own; a thread that is new to it may be the one that asks."""
    using = script(
        """
        import ctypes, threading
        from telpher import _jvm
        library = ctypes.CDLL(_jvm.libjvm(_jvm.find_java()))
        texts = [b"-Xrs", b"--enable-native-access=ALL-UNNAMED"]
        options = (_jvm._Option * 2)(*[_jvm._Option(text, None) for text in texts])
        arguments = _jvm._Arguments(0x00150000, 2, options, 0)
        vm, env = ctypes.c_void_p(), ctypes.c_void_p()
        print(library.JNI_CreateJavaVM(ctypes.byref(vm), ctypes.byref(env), ctypes.byref(arguments)))
        import telpher

        def use():
            with telpher.Endpoint() as a, telpher.Endpoint() as b:
                memory, target = b"x" * 10, bytearray(10)
                ab, ba = a.connect(b.address), b.accept(30)
                receive = ba.receive(target)
                ab.send(memory).wait(30)
                print(receive.wait(30), bytes(target))

        thread = threading.Thread(target=use)
        thread.start(); thread.join()
        use()
        """
    )
    assert using.end() == ("0\n10 b'xxxxxxxxxx'\n10 b'xxxxxxxxxx'\n", "")
