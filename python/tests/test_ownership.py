"""What holds memory, transfers and connections that the caller drops, and until when."""

import gc
import threading
import time
import weakref

import pytest
import telpher
from conftest import DEADLINE
from telpher import _table


def test_a_prepared_transfer_that_nobody_holds_goes_on(pair):
    """With memory that was registered for it alone."""
    into = bytearray(300_000)
    for _ in range(2):
        pair.ab.prepare_send(bytearray(b"\7") * 300_000).post()
        gc.collect()
        assert pair.ba.receive(into).wait(DEADLINE) == 300_000
    assert into.count(7) == 300_000
    until = time.monotonic() + DEADLINE
    while pair.a.metrics()["regions"] and time.monotonic() < until:  # until this side has heard of the end
        time.sleep(0.01)
    assert pair.a.metrics()["regions"] == 0


def test_memory_that_cannot_be_given_back_is_nobody_else_s_error(pair, monkeypatch, caplog):
    """A peer is in the middle of a copy of memory that was registered for one transfer; another call comes upon its end."""
    from telpher import _region

    into = bytearray(300_000)
    pair.ab.send(bytes([7]) * 300_000)
    assert pair.ba.receive(into).wait(DEADLINE) == 300_000
    close = _region.MemoryRegion._close

    def busy(region):
        raise telpher.RegionBusy("a peer is in the middle of a copy")

    monkeypatch.setattr(_region.MemoryRegion, "_close", busy)
    kept = len(_region._busy)
    until = time.monotonic() + DEADLINE
    while len(_region._busy) == kept and time.monotonic() < until:
        pair.ab.send(b"unrelated").wait(DEADLINE)
        assert pair.ba.receive(into).wait(DEADLINE) == 9
    monkeypatch.setattr(_region.MemoryRegion, "_close", close)
    while "stays until the process ends" not in caplog.text and time.monotonic() < until:  # it is logged after that
        time.sleep(0.01)
    assert len(_region._busy) > kept and "stays until the process ends" in caplog.text


def test_a_dropped_tensor_lives_as_long_as_its_region(pair):
    class Owned(bytearray):
        pass

    memory = Owned(100)
    alive = weakref.ref(memory)
    region = pair.b.register(memory)
    remote = region.remote
    del memory
    gc.collect()
    assert alive() is not None
    pair.ab.write(b"a" * 100, remote).wait(DEADLINE)
    assert bytes(alive()) == b"a" * 100
    del region
    gc.collect()
    assert alive() is None
    with pytest.raises(telpher.StaleRegion):
        pair.ab.write(b"b" * 100, remote).wait(DEADLINE)


def test_what_nobody_holds_is_sent_all_the_same(pair):
    """Unregistered objects and their transfers are kept until the end."""
    into = bytearray(300_000)
    for _ in range(3):
        pair.ab.send(bytes([7]) * 300_000)
    gc.collect()
    for _ in range(3):
        assert pair.ba.receive(into).wait(DEADLINE) == 300_000
        assert into.count(7) == 300_000
        into[:] = bytes(300_000)


def is_mapped(address):
    """Whether it is a region's: once unmapped it may be anybody else's."""
    with open("/proc/self/maps") as maps:
        regions = [line.split()[0].split("-") for line in maps if "memfd:telpher-region" in line]
    return any(int(first, 16) <= address < int(last, 16) for first, last in regions)


@pytest.mark.parametrize("first", ["region", "endpoint", "array"])
def test_allocated_memory_goes_with_its_region_or_its_last_array(pair, first):
    """Whichever is later; the region is closed for everybody else at once."""
    region = pair.b.allocate(100)
    address, remote = region.address, region.remote
    view = region.view
    view[:3] = b"abc"
    part = view[1:3]
    assert region._export() is view.obj
    del view
    if first == "array":
        assert is_mapped(address)
        del part
        region.close()
        assert not is_mapped(address)
        return
    (region if first == "region" else pair.b).close()
    assert region.closed
    with pytest.raises((telpher.StaleRegion, telpher.PeerLost, telpher.Closed)):
        pair.ab.write(b"xyz", remote[:3], deadline=DEADLINE).wait(DEADLINE)
    with pytest.raises(telpher.Closed):
        region.view
    assert bytes(part) == b"bc"
    part[:] = b"mn"
    assert bytes(part) == b"mn" and is_mapped(address)
    del part, region
    gc.collect()
    assert not is_mapped(address)


def test_a_body_s_error_is_not_masked_by_a_living_array():
    arrays = []
    with pytest.raises(KeyError, match="the user's"):
        with telpher.Endpoint() as endpoint:
            arrays.append(endpoint.allocate(64).view)
            raise KeyError("the user's")
    assert endpoint.closed
    with telpher.Endpoint() as endpoint:
        arrays.append(endpoint.allocate(64).view)
    assert endpoint.closed and [bytes(each) for each in arrays] == [bytes(64)] * 2


def test_a_view_that_another_thread_s_close_meets(monkeypatch):
    """It is refused, or keeps the memory: never memory that has gone."""
    real = _table.calls.regionClose
    with telpher.Endpoint(transports=["shm"]) as endpoint:
        for when in "before", "after":
            region = endpoint.allocate(1 << 20)
            views = []

            def close(handle):
                if when == "before":
                    views.append(region.view)
                word = real(handle)
                if when == "after":
                    with pytest.raises(telpher.Closed):
                        region.view
                return word

            monkeypatch.setattr(_table.calls, "regionClose", close)
            region.close()
            monkeypatch.undo()
            for view in views:
                view[-1] = 7
            assert len(views) == (when == "before") and region.closed


def test_a_held_buffer_cannot_be_resized(pair):
    memory = bytearray(10)
    with pair.a.register(memory):
        with pytest.raises(BufferError):
            memory.append(1)
    memory.append(1)


def test_memory_of_a_message_that_nobody_waits_for_is_let_go(pair):
    """By nobody's next call: this connection makes none."""
    class Owned(bytearray):
        pass

    into, memory = bytearray(300_000), Owned(b"\7" * 300_000)
    alive = weakref.ref(memory)
    pair.ab.send(memory)
    del memory
    assert pair.ba.receive(into).wait(DEADLINE) == 300_000 and into.count(7) == 300_000
    until = time.monotonic() + DEADLINE
    while alive() is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert alive() is None


def test_memory_is_let_go_without_a_lock(pair):
    """So that a finaliser of it may take one that others hold while they send."""
    lock, finalised, into = threading.Lock(), threading.Event(), bytearray(300_000)

    class Owned(bytearray):
        def __del__(self):
            finalised.set()
            with lock:
                pass

    with lock:
        pair.ab.send(Owned(b"\7" * 300_000))
        assert pair.ba.receive(into).wait(DEADLINE) == 300_000 and finalised.wait(DEADLINE)
        sending = threading.Thread(target=pair.ab.send, args=(b"\7" * 300_000,))
        sending.start()
        sending.join(DEADLINE)
        assert not sending.is_alive()
    assert pair.ba.receive(into).wait(DEADLINE) == 300_000


NO_THREADS = """
    import atexit, threading, time
    atexit.register(lambda: print("closed", a._handle == b._handle == 0))
    import telpher
    from telpher import _ends
    a, b = telpher.Endpoint(), telpher.Endpoint()
    ab, ba = a.connect(b.address, 60), b.accept(60)
    into = bytearray(300_000)

    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    whole, threading.Thread = threading.Thread, NoThread
    ab.send(b"\7" * 300_000)
"""
"""What this sends is pending, and nobody's; there is no thread to hear of its end."""


def test_a_send_that_no_thread_can_be_started_for_is_sent(script):
    """It is let go when there is a thread."""
    sending = script(
        NO_THREADS
        + """
    print(ba.receive(into).wait(60), into.count(7))
    receive = ba.receive(bytearray(1))
    called = threading.Event()
    for threading.Thread in NoThread, whole:
        try:
            receive.add_done_callback(lambda _: called.set())
        except RuntimeError as e:
            print(e)
    ab.send(b"x")
    print(called.wait(60))
    until = time.monotonic() + 60
    while _ends.watched and time.monotonic() < until:
        time.sleep(0.01)
    print(len(_ends.watched), a.metrics()["regions"])
    """
    )
    out, err = sending.end()
    assert (out.splitlines(), err) == (["300000 300000", "can't start new thread", "True", "0 0", "closed True"], "")


def test_endpoints_close_at_exit_where_no_thread_can_be_started(script):
    out, err = script(NO_THREADS).end()
    assert (out, err) == ("closed True\n", "")


def test_a_connection_that_nobody_holds_sends_all_the_same(pair):
    into = bytearray(300_000)
    pair.b.connect(pair.a.address, DEADLINE).send(b"\7" * 300_000, tag=9)
    gc.collect()
    accepted = [pair.ab, pair.a.accept(DEADLINE)]
    receives = [each.receive(into, tag=9, deadline=2 * DEADLINE) for each in accepted]
    until = time.monotonic() + DEADLINE
    while not any(each.done() for each in receives) and time.monotonic() < until:
        time.sleep(0.01)
    assert [each.state for each in receives if each.done()] == ["done"] and into.count(7) == 300_000
