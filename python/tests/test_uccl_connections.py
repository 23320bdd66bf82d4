"""Who finds and connects to whom by telpher.compat.uccl.p2p: metadata, secrets, accepting; and how scripts come to have it."""

import socket
import struct
import sys
import threading

import pytest
from conftest import DEADLINE, environment

np = pytest.importorskip("numpy", reason="needs NumPy (Debian: python3-numpy)")

import telpher.compat  # noqa: E402
from telpher.compat.uccl import _addresses, p2p  # noqa: E402
from uccl_calls import finish, registered  # noqa: E402

# --- what needs no endpoint -------------------------------------------------------------------------------


def test_metadata_begins_as_uccls_and_has_one_length():
    for ip in ("192.0.2.7", "2001:db8::7"):
        for address in (b"a" * 40, b"b" * 1500):
            data = _addresses.encode(_addresses.Metadata(ip, 7501, "0000:65:00.0", address))
            assert len(data) == 4096
            assert _addresses.decode(data) == (ip, 7501, "0000:65:00.0", address)
    assert data[16:19] == struct.pack("!HB", 7501, 12)
    uccls = socket.inet_aton("192.0.2.7") + struct.pack("!HB", 9, 12) + b"0000:65:00.0"
    assert p2p.Endpoint.parse_metadata(uccls) == ("192.0.2.7", 9, "0000:65:00.0")
    assert p2p.Endpoint.parse_metadata(_addresses.encode_first("192.0.2.7", 9, 3)) == ("192.0.2.7", 9, "3")
    for broken in (b"", b"abc", data[:100], b"\xff" * 4096):
        with pytest.raises(RuntimeError):
            p2p.Endpoint.parse_metadata(broken)


def test_an_address_without_a_secret_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.delenv("TELPHER_SECRET", raising=False)
    with pytest.raises(_addresses.Refused, match="198.51.100.1 port 4711 .*TELPHER_SECRET"):
        _addresses.resolve("198.51.100.1", "0000:65:00.0", 4711)
    with pytest.raises(_addresses.Refused, match="no port was given"):
        _addresses.resolve("198.51.100.1", "0000:65:00.0", -1)
    monkeypatch.setenv("TELPHER_PORT", "9100")
    with pytest.raises(_addresses.Refused, match="port 9103"):
        _addresses.resolve("198.51.100.1", 3, -1)


def test_a_port_that_is_taken_is_another_where_tcp_is_all(monkeypatch):
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setenv("TELPHER_PORT", str(taken.getsockname()[1]))
        monkeypatch.setenv("TELPHER_TRANSPORTS", "tcp")
        endpoint = p2p.Endpoint(0)
        port = p2p.Endpoint.parse_metadata(endpoint.get_metadata())[1]
        assert port not in (0, taken.getsockname()[1])
        endpoint.close()


def test_compression_is_refused(monkeypatch):
    monkeypatch.setenv("UCCL_P2P_COMPRESS_STRATEGY", "split")
    with pytest.raises(RuntimeError, match="UCCL_P2P_COMPRESS_STRATEGY"):
        p2p.Endpoint(0)
    with pytest.raises(NotImplementedError, match="redis"):
        p2p.Endpoint.create_and_join("redis://x", "g", 2, 0, 0, 4, 0)
    assert p2p.FloatType.kFloat16 is p2p.kFloat16


# --- who connects to whom -----------------------------------------------------------------------------------------


def test_two_endpoints_that_connect_at_once_have_a_connection_each():
    first, second = p2p.Endpoint(5), p2p.Endpoint(6)
    got = {}
    calls = {
        "1 to 2": lambda: first.connect(second.get_metadata()),
        "2 to 1": lambda: second.connect(first.get_metadata()),
        "1 takes": first.accept,
        "2 takes": second.accept,
    }
    threads = [threading.Thread(target=lambda n=n, c=c: got.__setitem__(n, c()), daemon=True) for n, c in calls.items()]
    for each in threads:
        each.start()
    for each in threads:
        each.join(DEADLINE)
    assert sorted(got) == sorted(calls) and all(result[0] for result in got.values())
    a, pa, na = registered(first, 64, 1)
    b, pb, nb = registered(second, 64, 2)
    # Messages of the two do not mix: that of "2 to 1" does not meet the receive on "1 to 2".
    sent = second.send_async(got["2 to 1"][1], nb, pb, 64)
    waiting = second.recv_async(got["2 takes"][3], nb, pb, 64)
    assert first.send(got["1 to 2"][1], na, pa, 64) is True
    finish(second, waiting)
    assert b.tolist() == [1] * 64
    assert first.recv(got["1 takes"][3], na, pa, 64) is True
    finish(second, sent)
    # Removing one leaves the other, whether or not they share a connection of the engine.
    assert first.remove_remote_endpoint(got["1 to 2"][1]) is True
    waiting = first.recv_async(got["1 takes"][3], na, pa, 64)
    assert second.send(got["2 to 1"][1], nb, pb, 64) is True
    finish(first, waiting)
    first.close()
    second.close()


def test_passive_accept_and_remote_endpoints_that_are_added_once():
    first, second = p2p.Endpoint(), p2p.Endpoint()
    assert second.start_passive_accept() is True
    assert second.accept() == (False, "", 0, 0)
    # One peer that cannot be taken in does not end it.
    take = second._connections.accept_all
    second._connections.accept_all = lambda: setattr(second._connections, "accept_all", take) or 1 / 0
    ok, number = first.add_remote_endpoint(second.get_metadata())
    assert ok and first.add_remote_endpoint(second.get_metadata()) == (True, number)
    assert first.remove_remote_endpoint(number) is True
    assert first.remove_remote_endpoint(number) is False
    with pytest.raises(RuntimeError, match="Invalid conn_id"):
        first.transfer(number, "read", [], [])
    ok, other = first.add_remote_endpoint(second.get_metadata())
    assert ok and other != number
    assert first.conn_id_of_rank(0) == 2**64 - 1
    first.close()
    second.close()


FIRST_GENERATION = """
import multiprocessing, sys
import numpy as np
from uccl import p2p

def child(queue):
    ep = p2p.Endpoint(local_gpu_idx=2, num_cpus=4)
    queue.put(ep.get_endpoint_metadata())
    ok, ip, gpu, conn = ep.accept()
    assert ok, "accept"
    data = np.zeros(1024, "f4")
    ok, mr = ep.reg(data.ctypes.data, 4096)
    assert ep.recv(conn, mr, data.ctypes.data, 4096), "recv"
    queue.put((gpu, float(data.sum())))
    assert ep.recv(conn, mr, data.ctypes.data, 4096) is False, "the peer ends"
    queue.put("ended")

if __name__ == "__main__":
    queue = multiprocessing.Queue()
    process = multiprocessing.get_context("fork").Process(target=child, args=(queue,))
    process.start()
    print("endpoint", queue.get().hex(), sys.argv[1:], flush=True)
    print("received", queue.get(), flush=True)
    print(queue.get(), flush=True)
    process.join()
"""


def test_the_runner_the_first_generation_and_an_address_typed_by_hand(tmp_path, monkeypatch):
    import subprocess

    path = tmp_path / "script.py"
    path.write_text(FIRST_GENERATION)
    with socket.socket() as probe:
        probe.bind(("", 0))
        base = probe.getsockname()[1] - 2
    monkeypatch.setenv("TELPHER_SECRET", "a secret of both sides")
    monkeypatch.setenv("TELPHER_PORT", str(base))
    # Another TMPDIR: it cannot be found as an endpoint of this host, so the secret is what lets us in.
    env = environment(TMPDIR=str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-m", "telpher.compat", "uccl", str(path), "--size", "1"], env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        words = process.stdout.readline().split(None, 2)
        assert words[0] == "endpoint" and words[2].strip() == "['--size', '1']"
        assert struct.unpack("!H", bytes.fromhex(words[1])[4:6])[0] == base + 2
        endpoint = p2p.Endpoint(1, 4)
        ok, conn = endpoint.connect("127.0.0.1", 2)  # no port: the base port, and the GPU's index
        assert ok
        data = np.full(1024, 3, "f4")
        ok, number = endpoint.reg(data.ctypes.data, 4096)
        assert endpoint.send(conn, number, data.ctypes.data, 4096) is True
        assert process.stdout.readline().strip() == "received (1, 3072.0)"
        endpoint.close()
        assert process.stdout.readline().strip() == "ended"
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.communicate()


def test_interpreters_that_a_script_starts_have_the_module_too(tmp_path):
    import subprocess

    child = "import uccl; from uccl import p2p; import uccl.p2p as again; print(uccl.__name__, p2p is again, p2p.Endpoint.__module__)"
    path = tmp_path / "script.py"
    path.write_text("import subprocess, sys; print(subprocess.run([sys.executable, '-c', %r], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout)" % child)
    done = subprocess.run(
        [sys.executable, "-m", "telpher.compat", "uccl", str(path)], env=environment(), stdout=subprocess.PIPE, text=True, timeout=DEADLINE
    )
    assert done.stdout.split() == ["telpher.compat.uccl", "True", p2p.Endpoint.__module__]


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_processes_of_multiprocessing_have_the_module_too(tmp_path, how):
    import subprocess

    path = tmp_path / "script.py"
    path.write_text("""
import multiprocessing
from uccl import p2p

def child(queue):
    queue.put(p2p.Endpoint.__module__)

if __name__ == "__main__":
    context = multiprocessing.get_context(%r)
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    process.join()
    print(queue.get() if process.exitcode == 0 else "the child has failed")
""" % how)
    done = subprocess.run(
        [sys.executable, "-m", "telpher.compat", "uccl", str(path)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE
    )
    assert done.stdout.split() == [p2p.Endpoint.__module__], done.stdout + done.stderr


def test_install_gives_the_module_by_its_name(monkeypatch):
    for name in ("uccl", "uccl.p2p"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    telpher.compat.install()
    try:
        import uccl.p2p
        from uccl.p2p import Endpoint

        assert uccl.p2p is p2p and Endpoint is p2p.Endpoint
        with pytest.raises(ValueError, match="nixl"):
            telpher.compat.install("nixl")
    finally:
        for name in ("uccl", "uccl.p2p"):
            sys.modules.pop(name, None)
