"""Transfers by telpher.compat.uccl.p2p, in both generations of UCCL's API, against a peer in a process of its own."""

import contextlib
import logging
import threading
import time

import pytest
from conftest import DEADLINE

np = pytest.importorskip("numpy", reason="needs NumPy (Debian: python3-numpy)")

from telpher.compat.uccl import p2p  # noqa: E402
from uccl_calls import finish, registered  # noqa: E402

SERVER = """
    import json, sys, traceback
    import numpy as np
    from telpher.compat.uccl import p2p
    arrays = {}
    def array(name, nbytes, fill=0):
        arrays[name] = np.full(nbytes, fill, "u1")
        return arrays[name].ctypes.data
    ep = p2p.Endpoint(0)
    print("metadata", ep.get_metadata().hex())
    for line in sys.stdin:
        try:
            print("=", repr(eval(line)))
        except Exception as e:
            traceback.print_exc()
            print("!", type(e).__name__, e)
"""


class Peer:
    """Evaluates expressions in the other process."""

    def __init__(self, started):
        self.script = started
        self.metadata = bytes.fromhex(started.expect("metadata"))

    def ask(self, expression):
        self.begin(expression)
        return self.answer()

    def begin(self, expression):
        self.script.tell(expression)

    def answer(self):
        return eval(self.script.expect("="))


@pytest.fixture(scope="module")
def both():
    """(peer, endpoint here, conn_id here, conn_id there)."""
    from conftest import Script

    started = Script(SERVER)
    try:
        peer = Peer(started)
        endpoint = p2p.Endpoint(0)
        ip, port, bdf = p2p.Endpoint.parse_metadata(peer.metadata)
        peer.begin("ep.accept()")
        ok, here = endpoint.connect(ip, bdf, remote_port=port)
        assert ok
        ok, there_ip, gpu, there = peer.answer()
        assert ok and there_ip == p2p.get_oob_ip() and gpu == 0
        yield peer, endpoint, here, there
        endpoint.close()
    finally:
        started.process.kill()
        started.process.communicate()


# --- one-sided -----------------------------------------------------------------------------------------------


def test_write_and_read_in_both_forms_of_advertise(both):
    peer, endpoint, here, there = both
    array, pointer, number = registered(endpoint, 5000, 7)
    ok, theirs = peer.ask("ep.reg(array('a', 5000, 1), 5000)")
    for form in ("ep.advertise(%d, arrays['a'].ctypes.data, 5000)" % theirs, "ep.advertise(%d, %d, arrays['a'].ctypes.data, 5000)" % (there, theirs)):
        ok, blob = peer.ask(form)
        assert ok and len(blob) == 64
        peer.ask("arrays['a'].fill(1)")
        assert endpoint.read(here, number, pointer, 5000, blob) is True
        assert (array == 1).all()
        array[:] = 7
        finish(endpoint, endpoint.write_async(here, number, pointer + 8, 100, bytearray(blob)))
        assert peer.ask("arrays['a'][:101].tolist()") == [7] * 100 + [1]
        finish(endpoint, endpoint.read_async(here, number, pointer + 100, 4900, blob))
        assert array[200:].tolist() == [1] * 4800 and array[:200].tolist() == [7] * 200


def test_many_threads_use_one_endpoint(both):
    peer, endpoint, here, there = both
    ok, theirs = peer.ask("ep.reg(array('n', 4000), 4000)")
    ok, blobs = peer.ask("ep.advertisev([%d] * 4, [arrays['n'].ctypes.data + 1000 * i for i in range(4)], [1000] * 4, 4)" % theirs)
    wrong = []

    def work(i):
        array, pointer, number = registered(endpoint, 1000, 0)
        back, target, other = registered(endpoint, 1000, 0)
        for k in range(30):
            array[:] = 50 * i + k
            finish(endpoint, endpoint.write_async(here, number, np.uint64(pointer), np.uint64(1000), blobs[i]))
            if not endpoint.read(here, other, target, 1000, blobs[i]) or not (back == array).all():
                wrong.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(DEADLINE)
    assert not wrong and peer.ask("arrays['n'][::1000].tolist()") == [29, 79, 129, 179]


def test_vectors_reach_their_own_pieces(both):
    peer, endpoint, here, there = both
    count = 9
    source = [registered(endpoint, 1000 + i, i + 1) for i in range(count)]
    sizes = [1000 + i for i in range(count)]
    peer.ask("[array('v%%d' %% i, 1000 + i) for i in range(%d)]" % count)
    ok, theirs = peer.ask("ep.regv([arrays['v%%d' %% i].ctypes.data for i in range(%d)], %r)" % (count, sizes))
    ok, blobs = peer.ask("ep.advertisev(%r, [arrays['v%%d' %% i].ctypes.data for i in range(%d)], %r, %d)" % (theirs, count, sizes, count))
    assert ok and [len(b) for b in blobs] == [64] * count
    order = [3, 1, 4, 0, 5, 8, 2, 6, 7]
    arguments = [[of[i] for i in order] for of in ([n for _, _, n in source], [p for _, p, _ in source], sizes, blobs)]
    assert endpoint.writev(here, *arguments, count) is True
    assert peer.ask("all((arrays['v%%d' %% i] == i + 1).all() for i in range(%d))" % count)
    for array, _, _ in source:
        array[:] = 0
    finish(endpoint, endpoint.readv_async(here, *arguments, count))
    assert all((array == i + 1).all() for i, (array, _, _) in enumerate(source))
    with pytest.raises(RuntimeError, match="10 pieces"):
        endpoint.writev(here, *arguments, 10)


def test_what_corrupts_in_uccl_is_false_and_says_why(both, caplog):
    peer, endpoint, here, there = both
    array, pointer, number = registered(endpoint, 4096, 9)
    ok, theirs = peer.ask("ep.reg(array('c', 2048), 2048)")
    ok, blob = peer.ask("ep.advertise(%d, arrays['c'].ctypes.data, 2048)" % theirs)

    def refused(words, result, failed=False):
        assert result == failed
        assert words in caplog.records[-1].getMessage() and caplog.records[-1].name == "telpher.compat"

    with caplog.at_level(logging.WARNING, "telpher.compat"):
        refused("2048 that were advertised", endpoint.write(here, number, pointer, 4096, blob))
        refused("do not lie inside memory", endpoint.write(here, number, pointer + 4000, 200, blob))
        refused("no memory is registered as 4242", endpoint.write(here, 4242, pointer, 10, blob))
        refused("no connection has the id 4242", endpoint.write_async(4242, number, pointer, 10, blob), (False, 0))
        refused("has been changed", endpoint.write(here, number, pointer, 10, bytes(64)))
        refused("not a range of memory", endpoint.reg(0, 10), (False, 0))
        refused("no transfer has the id 4242", endpoint.poll_async(4242), (False, True))
        assert peer.ask("ep.dereg(%d)" % theirs) is True
        assert peer.ask("ep.dereg(%d)" % theirs) is False
        refused("write returns False", endpoint.write(here, number, pointer, 2048, blob))
        ok, late = endpoint.write_async(here, number, pointer, 2048, blob)
        if ok:  # it was not known yet when it was posted
            end = time.monotonic() + DEADLINE
            while (answer := endpoint.poll_async(late)) == (True, False):
                assert time.monotonic() < end
            refused("poll_async returns False", answer, (False, True))
    with pytest.raises(RuntimeError, match="64 bytes"):
        endpoint.write(here, number, pointer, 10, b"short")
    assert peer.ask("int(arrays['c'].sum())") == 0


# --- two-sided -------------------------------------------------------------------------------------------------


def test_messages_meet_in_order_vectors_piece_by_piece(both):
    peer, endpoint, here, there = both
    parts = [registered(endpoint, 3000, i + 1) for i in range(3)]
    peer.ask("[ep.reg(array('m%d' % i, 3000), 3000)[1] for i in range(3)]")
    numbers = "[ep.reg(arrays['m%d' % i].ctypes.data, 3000)[1] for i in range(3)]"
    ids = peer.ask(numbers)
    pointers = "[arrays['m%d' % i].ctypes.data for i in range(3)]"
    peer.begin("ep.recvv(%d, %r, %s, [3000] * 3, 3)" % (there, ids, pointers))
    pending = [endpoint.send_async(here, n, p, 3000) for _, p, n in parts]
    for each in pending:
        finish(endpoint, each)
    assert peer.answer() is True
    assert peer.ask("[int(arrays['m%d' % i][0]) for i in range(3)]") == [1, 2, 3]
    # the other way on the same connection: a vector is as many messages
    peer.begin("ep.sendv(%d, %r, %s, [3000] * 3, 3)" % (there, ids, pointers))
    for i in (2, 0, 1):
        array, pointer, number = parts[i]
        assert endpoint.recv(here, number, pointer, 3000) is True
    assert peer.answer() is True
    assert [int(parts[i][0][0]) for i in (2, 0, 1)] == [1, 2, 3]
    # Of longer lists the first pieces count; room past the end of the memory is cut off, as recv does.
    peer.begin("ep.recvv(%d, %r, %s, [9999] * 3, 2)" % (there, ids, pointers))
    numbers, addresses = [n for _, _, n in parts], [p for _, p, _ in parts]
    for array, _, _ in parts:
        array[:] = 9
    assert endpoint.sendv(here, numbers, addresses, [3000] * 3, 2) is True
    assert peer.answer() is True
    assert peer.ask("[int(arrays['m%d' % i][-1]) for i in range(3)]") == [9, 9, 3]
    with pytest.raises(RuntimeError, match="4 pieces"):
        endpoint.sendv(here, numbers, addresses, [3000] * 3, 4)


def test_several_threads_poll_one_transfer(both):
    """All are told of its end, and the memory that was registered for it is closed once."""
    peer, endpoint, here, there = both
    ok, info = peer.ask("ep.advertise_ipc(%d, array('p', 100), 100)" % there)
    source = np.full(100, 4, "u1")
    answers = []

    def poll(number, start):
        start.wait(DEADLINE)
        while (answer := endpoint.poll_async(number)) == (True, False):
            pass
        answers.append(answer)

    for _ in range(20):
        ok, number = endpoint.write_ipc_async(here, source.ctypes.data, 100, info)
        start = threading.Barrier(3)
        threads = [threading.Thread(target=poll, args=(number, start)) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(DEADLINE)
    # Late ones come upon an id that has been told of.
    assert len(answers) == 60 and answers.count((True, True)) >= 20 and set(answers) <= {(True, True), (False, True)}
    assert peer.ask("int(arrays['p'].sum())") == 400


def test_a_message_that_is_too_long_fails_and_writes_nothing_past_the_room(both):
    peer, endpoint, here, there = both
    array, pointer, number = registered(endpoint, 2000, 5)
    ok, theirs = peer.ask("ep.reg(array('t', 1000), 1000)")
    peer.begin("ep.recv(%d, %d, arrays['t'].ctypes.data, 500)" % (there, theirs))
    endpoint.send(here, number, pointer, 2000)  # True when it came before the recv, and waits there
    assert peer.answer() is False
    assert peer.ask("int(arrays['t'][500:].sum())") == 0
    # room past the end of the registered memory, which UCCL's own test asks for, is cut to it
    peer.begin("ep.recv(%d, %d, arrays['t'].ctypes.data, 2000)" % (there, theirs))
    assert endpoint.send(here, number, pointer, 1000) is True
    assert peer.answer() is True
    assert peer.ask("int(arrays['t'].sum())") == 5000


# --- local, by pointer, by descriptor ----------------------------------------------------------------------------


def test_local_connections_and_memory_without_registration(both):
    peer, endpoint, _, _ = both
    peer.begin("ep.accept_local()")
    ok, here = endpoint.connect_local(0)
    assert ok
    ok, bdf, there = peer.answer()
    assert ok and bdf == p2p.Endpoint.parse_metadata(endpoint.get_metadata())[2]
    source = [np.full(600, i + 1, "u1") for i in range(3)]
    pointers = [each.ctypes.data for each in source]
    peer.ask("[array('i%d' % i, 600) for i in range(3)]")
    ok, infos = peer.ask("ep.advertisev_ipc(%d, [arrays['i%%d' %% i].ctypes.data for i in range(3)], [600] * 3)" % there)
    assert ok and [len(info) for info in infos] == [64] * 3
    assert endpoint.writev_ipc(here, pointers, [600] * 3, infos) is True
    assert endpoint.write_ipc(here, pointers[2], 100, infos[0]) is True
    assert peer.ask("[arrays['i%d' % i][k].item() for i in range(3) for k in (0, 599)]") == [3, 1, 2, 2, 3, 3]
    finish(endpoint, endpoint.readv_ipc_async(here, pointers, [600] * 3, infos[::-1]))
    assert [int(each[300]) for each in source] == [3, 2, 1]
    finish(endpoint, endpoint.read_ipc_async(here, pointers[1], 600, infos[0]))
    assert int(source[1][0]) == 3
    peer.begin("ep.recv_ipc(%d, arrays['i0'].ctypes.data, 600)" % there)
    assert endpoint.send_ipc(here, pointers[0], 600) is True
    assert peer.answer() is True and peer.ask("int(arrays['i0'].sum())") == 3 * 600


def test_the_first_generations_way_between_gpus_of_one_host(both):
    """Connects by metadata that has no secret, to a peer that never accepts; nothing is registered."""
    peer, endpoint, _, _ = both
    metadata = peer.ask("ep.get_endpoint_metadata()")
    assert len(metadata) in (10, 22)
    ok, here = endpoint.connect(metadata)
    assert ok
    ok, blob = peer.ask("(array('g', 512), ep.advertise(77, 0, arrays['g'].ctypes.data, 512))[1]")
    assert ok and len(blob) == 64
    source = np.full(512, 6, "u1")
    assert endpoint.send(here, 0, source.ctypes.data, 512, blob) is True
    assert peer.ask("int(arrays['g'].sum())") == 6 * 512


class Tensor:
    """As much of a tensor as register_memory asks for."""

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize


def test_two_registrations_have_two_keys():
    """With an endpoint of its own: what other tests registered, and freed since, may cover both arrays in a shared one."""
    arrays = [np.full(50, i + 1, "f4") for i in range(2)]
    with contextlib.closing(p2p.Endpoint(0)) as endpoint:
        first, second, again = endpoint.register_memory([Tensor(each) for each in (*arrays, arrays[0])])
        assert first.lkeys == first.rkeys == again.lkeys != second.lkeys


def test_registered_tensors_travel_as_descriptors(both):
    peer, endpoint, here, there = both
    arrays = [np.full(50, i + 1, "f4") for i in range(2)]
    mine = endpoint.register_memory([Tensor(each) for each in arrays])
    assert [(d.addr, d["size"]) for d in mine] == [(each.ctypes.data, 200) for each in arrays] and "lkeys" in mine[0]
    again, part = endpoint.register_memory([Tensor(arrays[0]), Tensor(arrays[0][10:20])])
    assert again.mr_id != mine[0].mr_id and again.lkeys == mine[0].lkeys == part.rkeys
    theirs = endpoint.register_memory([Tensor(np.zeros(1, "f4"))])  # one's own are read as a peer's are
    assert endpoint.deserialize_descs(endpoint.get_serialized_descs(theirs))[0].lkeys == theirs[0].lkeys
    peer.ask("[array('d%d' % i, 200) for i in range(2)]")
    wanted = "[type('T', (), dict(data_ptr=lambda s, a=arrays['d%d' % i]: a.ctypes.data, numel=lambda s: 200, element_size=lambda s: 1))() for i in range(2)]"
    remote = endpoint.deserialize_descs(peer.ask("ep.get_serialized_descs(ep.register_memory(%s))" % wanted))
    finish(endpoint, endpoint.transfer(here, "write", mine, remote))
    assert peer.ask("[arrays['d%d' % i].view('f4').tolist() for i in range(2)]") == [[1.0] * 50, [2.0] * 50]
    arrays[0][:] = 0
    finish(endpoint, endpoint.transfer(here, "read", [part], [remote[1]]))
    assert arrays[0].tolist() == [0] * 10 + [2] * 10 + [0] * 30
    endpoint.deregister_memory(mine + [again, part])
    assert endpoint.transfer(here, "read", [part], [remote[1]]) == (False, 0)
    for wrong, words in ((("move", mine, remote), "op_name"), (("read", mine, remote[:1]), "2 local and 1 remote")):
        with pytest.raises(RuntimeError, match=words):
            endpoint.transfer(here, *wrong)
    with pytest.raises(RuntimeError, match="no tensor"):
        endpoint.register_memory([123])
    regions = endpoint._engine.metrics()["regions"]
    with pytest.raises(RuntimeError, match="item 1 cannot be registered"):
        endpoint.register_memory([Tensor(np.zeros(4, "f4")), Tensor(np.zeros(0, "f4"))])
    assert endpoint._engine.metrics()["regions"] == regions
    with pytest.raises(RuntimeError, match="not serialized descriptors"):
        endpoint.deserialize_descs(endpoint.get_serialized_descs(mine)[:-5])


# --- its end -------------------------------------------------------------------------------------------------------


def test_a_peer_that_dies_ends_transfers(both):
    """The last: it kills the peer."""
    peer, endpoint, here, there = both
    array, pointer, number = registered(endpoint, 4096, 1)
    ok, theirs = peer.ask("ep.reg(array('k', 4096), 4096)")
    ok, blob = peer.ask("ep.advertise(%d, arrays['k'].ctypes.data, 4096)" % theirs)
    ok, waiting = endpoint.recv_async(here, number, pointer, 4096)
    assert ok
    peer.script.process.kill()
    end = time.monotonic() + DEADLINE
    while (answer := endpoint.poll_async(waiting)) == (True, False):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert answer == (False, True)
    assert endpoint.write(here, number, pointer, 4096, blob) is False
