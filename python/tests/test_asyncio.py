"""Awaiting and callbacks."""

import asyncio
import logging
import sys
import threading

import pytest
import telpher
from conftest import DEADLINE


def test_await(pair):
    async def main():
        into = [bytearray(8) for _ in range(50)]
        receives = [pair.ba.receive(each, tag=i) for i, each in enumerate(into)]

        async def send(i):
            await asyncio.sleep(0.001 * (i % 5))
            return await pair.ab.send(b"%08d" % i, tag=i)

        assert await asyncio.gather(*receives_as_tasks(receives), *(send(i) for i in range(50))) == [8] * 100
        assert [bytes(each) for each in into] == [b"%08d" % i for i in range(50)]
        # The loop goes on while a transfer is awaited.
        late = pair.ba.receive(bytearray(8), tag=99)
        waiting = asyncio.ensure_future(wait_for(late))
        ticks = 0
        while ticks < 20:
            await asyncio.sleep(0.005)
            ticks += 1
        assert not waiting.done()
        await pair.ab.send(b"!", tag=99)
        assert await asyncio.wait_for(waiting, DEADLINE) == 1
        # An error of the transfer is the awaiter's; its cancellation is not the transfer's.
        with pytest.raises(telpher.TimedOut):
            await pair.ba.receive(bytearray(8), tag=100, deadline=0.1)
        left = pair.ba.receive(bytearray(8), tag=101)
        task = asyncio.ensure_future(wait_for(left))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert left.state == "pending"
        pair.ab.send(b"ok", tag=101)
        assert await left == 2

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_loop_that_is_closed_before_the_end(pair, caplog):
    """Nobody waits there any more: the end disturbs nobody, and other loops can wait for it."""
    receive = pair.ba.receive(bytearray(4))

    async def give_up():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait_for(receive), 0.05)

    asyncio.run(give_up())
    told = threading.Event()
    receive.add_done_callback(lambda _: told.set())  # after the closed loop's
    with caplog.at_level(logging.ERROR, "telpher"):
        pair.ab.send(b"four").wait(DEADLINE)
        assert told.wait(DEADLINE)
    assert caplog.text == ""
    assert asyncio.run(wait_for(receive)) == 4


def receives_as_tasks(transfers):
    return [wait_for(transfer) for transfer in transfers]


async def wait_for(transfer):
    return await transfer


def test_callbacks(pair, caplog):
    """Each is called once, with the transfer, on one thread; what one raises is logged and touches nobody else."""
    called, threads, end = [], set(), threading.Event()

    def note(transfer):
        threads.add(threading.current_thread().name)
        called.append(transfer.state)
        if len(called) == 3:
            end.set()

    def fail(transfer):
        raise ZeroDivisionError("a bug of the user")

    with caplog.at_level(logging.ERROR, "telpher"):
        receive = pair.ba.receive(bytearray(4), tag=1)
        receive.add_done_callback(note)
        receive.add_done_callback(fail)
        receive.add_done_callback(lambda _: sys.exit(1))
        receive.add_done_callback(note)
        failing = pair.ba.receive(bytearray(4), tag=2, deadline=0.1)
        failing.add_done_callback(note)
        del failing  # held until its end
        pair.ab.send(b"four", tag=1).wait(DEADLINE)
        assert end.wait(DEADLINE)
    assert sorted(called) == ["done", "done", "timed_out"] and threads == {"telpher-callbacks"}
    assert "ZeroDivisionError" in caplog.text and "SystemExit" in caplog.text
    receive.add_done_callback(note)
    assert called[-1] == "done" and threading.current_thread().name in threads


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_raised_in_the_caller_s_thread(pair, kind):
    """By a callback of a transfer that has ended; on the callback thread it is logged, as it has no program to end."""
    def end(transfer):
        raise kind()

    send = pair.ab.send(b"x")
    send.wait(DEADLINE)
    with pytest.raises(kind):
        send.add_done_callback(end)
    # Those of a posting that another one overtakes: all are called.
    lags, goes_on, called = threading.Event(), threading.Event(), []
    slow, receive = pair.ba.receive(bytearray(4), tag=2), pair.ba.prepare_receive(bytearray(4), tag=1).post()
    slow.add_done_callback(lambda _: (lags.set(), goes_on.wait(DEADLINE)))
    pair.ab.send(b"slow", tag=2).wait(DEADLINE)
    assert lags.wait(DEADLINE)
    receive.add_done_callback(end)
    receive.add_done_callback(called.append)
    pair.ab.send(b"four", tag=1).wait(DEADLINE)
    assert receive.wait(DEADLINE) == 4
    with pytest.raises(kind):
        receive.post()
    assert called == [receive] and receive.state == "done"
    goes_on.set()
    pair.ab.send(b"more", tag=1).wait(DEADLINE)
    assert receive.run(DEADLINE) == 4


def test_a_callback_may_use_the_engine(pair):
    end = threading.Event()
    back = bytearray(4)

    def answer(transfer):
        pair.ba.send(b"pong").add_done_callback(lambda _: end.set())

    pair.ba.receive(bytearray(4)).add_done_callback(answer)
    receive = pair.ab.receive(back)
    pair.ab.send(b"ping").wait(DEADLINE)
    assert receive.wait(DEADLINE) == 4 and back == b"pong" and end.wait(DEADLINE)


def test_a_callback_thread_that_lags_loses_no_end(tcp_pair):
    target = tcp_pair.b.allocate(4)
    write = tcp_pair.ab.prepare_write(b"four", target.remote)
    lags, goes_on, caught_up, until = (threading.Event() for _ in range(4))
    slow = tcp_pair.ba.receive(bytearray(4))
    slow.add_done_callback(lambda _: (lags.set(), goes_on.wait(DEADLINE)))
    tcp_pair.ab.send(b"slow").wait(DEADLINE)
    assert lags.wait(DEADLINE)
    called = []
    for i in range(3):
        write.post().add_done_callback(lambda _, i=i: called.append(i))
        write.wait(DEADLINE)
    write.post()
    last = tcp_pair.ba.receive(bytearray(4))
    last.add_done_callback(lambda _: caught_up.set())
    tcp_pair.ab.send(b"last").wait(DEADLINE)
    goes_on.set()
    assert caught_up.wait(DEADLINE)
    write.add_done_callback(lambda _: until.set())
    assert until.wait(DEADLINE) and called == [0, 1, 2]


def test_prepared_transfers_call_back_for_each_posting(pair):
    target = pair.b.allocate(4)
    write = pair.ab.prepare_write(b"four", target.remote)
    with pytest.raises(RuntimeError, match="not posted"):
        write.add_done_callback(print)
    for _ in range(20):
        end = threading.Event()
        write.post().add_done_callback(lambda _: end.set())
        assert end.wait(DEADLINE) and write.wait() == 4
    # Posted again before the callback thread has come to the end before: each is called once, and after its own posting.
    states = []
    for i in range(200):
        write.post().add_done_callback(lambda t, i=i: states.append((i, t.state)))
        write.wait(DEADLINE)
    until = threading.Event()
    write.post().add_done_callback(lambda _: until.set())
    assert until.wait(DEADLINE)
    assert sorted(states) == [(i, "done") for i in range(200)]
