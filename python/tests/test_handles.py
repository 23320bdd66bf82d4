"""Java objects that Python has handles of are given back."""

import gc
import time

import pytest
import telpher
from conftest import DEADLINE, Pair
from telpher import _table


def test_handles_are_given_back(pair):
    def many():
        for _ in range(300):
            pair.ab.send(b"x").wait(DEADLINE)
            pair.ba.receive(bytearray(1)).wait(DEADLINE)
        gc.collect()
        _table.collect(1)
        return _table.calls.handles(0)

    before = many()
    after = many()
    until = time.monotonic() + DEADLINE
    while after != before and time.monotonic() < until:  # some ends are still being written down by the callback thread
        time.sleep(0.01)
        before, after = after, many()
    assert after == before


def test_loops_that_only_look_up_and_fail_give_back_too(tcp_pair):
    before = _table.calls.handles(0)
    for _ in range(120):
        with pytest.raises(telpher.TimedOut):
            tcp_pair.ab.lookup("nothing", 0)
    assert _table.calls.handles(0) < before + 120
    _table.collect(1)
    assert _table.calls.handles(0) <= before


def test_loops_that_only_connect_give_back_too():
    pair = Pair(transports=["shm"])
    before = _table.calls.handles(0)
    for _ in range(70):
        pair.a.connect(pair.b.address, DEADLINE)
    assert _table.calls.handles(0) < before + 100
    pair.close()
