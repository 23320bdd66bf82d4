"""What the tests of telpher.compat.uccl share: the calls that each of them would make."""

import time

import numpy as np
from conftest import DEADLINE


def registered(endpoint, nbytes, fill):
    array = np.full(nbytes, fill, "u1")
    ok, number = endpoint.reg(array.ctypes.data, nbytes)
    assert ok
    return array, array.ctypes.data, number


def finish(endpoint, started):
    ok, number = started
    assert ok
    end = time.monotonic() + DEADLINE
    done = False
    while not done:
        ok, done = endpoint.poll_async(number)
        assert ok and time.monotonic() < end
        time.sleep(0)
    return number
