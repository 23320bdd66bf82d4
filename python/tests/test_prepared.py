"""Transfers that are posted again and again, one by one and many in one call."""

import threading
import time

import pytest
import telpher
from conftest import DEADLINE
from telpher import _ends, _table


def test_prepared_transfers_run_again(pair):
    target = pair.b.allocate(8)
    source = bytearray(8)
    write = pair.ab.prepare_write(source, target.remote, notification=b"!")
    assert write.state == "idle" and not write.done()
    with pytest.raises(RuntimeError, match="not posted"):
        write.wait()
    for i in range(1, 6):
        source[0] = i
        assert (write.run(DEADLINE) if i % 2 else write.post().wait(DEADLINE)) == 8
        assert target.view[0] == i and pair.ba.wait_notification(DEADLINE) == b"!"
    assert not hasattr(pair.ab.write(source, target.remote), "post")


def test_of_several_threads_that_post_one_transfer_one_does(pair):
    """Each posting that was accepted happens once, and no other; the losers are told."""
    target = pair.b.allocate(8)
    write = pair.ab.prepare_write(bytearray(8), target.remote, notification=b"!")
    posted, errors = [], []

    def work():
        for _ in range(300):
            try:
                write.run(DEADLINE)
                posted.append(1)
            except RuntimeError as e:
                errors.append(str(e))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    write.run(DEADLINE)
    # One whose wait was overtaken by another's posting has been posted all the same.
    overtaken = sum("posted this transfer again" in error for error in errors)
    assert sum("pending" in error for error in errors) + overtaken == len(errors)
    for _ in range(len(posted) + overtaken + 1):
        pair.ba.wait_notification(DEADLINE)
    assert pair.ba.poll_notification() is None


def test_post_all(pair):
    """Independent transfers posted by one call: each has an end of its own."""
    count = 40
    target = pair.b.allocate(8 * count)
    source = pair.a.register(bytearray(8 * count))
    writes = [pair.ab.prepare_write(source[8 * i : 8 * i + 8], target.remote[8 * i : 8 * i + 8]) for i in range(count)]
    receive = pair.ba.prepare_receive(bytearray(4), tag=5)
    called = []
    for turn in range(1, 4):
        source.view[:] = bytes([turn]) * (8 * count)
        telpher.post_all([receive, *writes])
        receive.add_done_callback(called.append)
        assert [write.wait(DEADLINE) for write in writes] == [8] * count and target.view == bytes([turn]) * (8 * count)
        assert not receive.done()
        pair.ab.send(b"four", tag=5).wait(DEADLINE)
        assert receive.wait(DEADLINE) == 4
    telpher.post_all(iter([]))
    until = time.monotonic() + DEADLINE
    while len(called) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert called == [receive] * 3


def test_callbacks_ask_other_transfers_of_post_all(script):
    """They do while those are posted again, from the callback thread and from the one that posts: nobody waits for himself, and no end counts twice."""
    asking = script(
        """
        import telpher
        a, b = telpher.Endpoint(), telpher.Endpoint()
        ab, ba = a.connect(b.address, 60), b.accept(60)
        into = [bytearray(4) for _ in range(8)]
        ts = [ba.prepare_receive(into[i], tag=i) for i in range(8)]
        called = 0

        def ask(_):
            global called
            called += 1
            [t.done() for t in ts]

        for turn in range(300):
            telpher.post_all(ts)
            assert not any(t.done() for t in ts), turn
            for t in ts:
                t.add_done_callback(ask)
            for i in range(8):
                ab.send(turn.to_bytes(4, "big"), tag=i)
            telpher.wait_all(ts, 60)
            assert into == [turn.to_bytes(4, "big")] * 8, turn
        a.close()
        b.close()
        print("asked", called > 0)
        """
    )
    out, err = asking.end()
    assert (out, err) == ("asked True\n", "")


def test_post_all_posts_nothing_where_one_is_pending(pair):
    target = pair.b.allocate(8)
    source = pair.a.register(bytearray(b"\1" * 8))
    first, second = (pair.ab.prepare_write(source, target.remote) for _ in range(2))
    assert first.run(DEADLINE) == 8
    target.view[:] = bytes(8)
    receive = pair.ba.prepare_receive(bytearray(4)).post()
    for wrong in ([first, receive, second], [first, second, first]):
        with pytest.raises(RuntimeError, match="pending"):
            telpher.post_all(wrong)
    with pytest.raises(AttributeError):
        telpher.post_all([first, object()])
    # What they were they still are, and can be posted.
    assert (first.state, first.wait(), second.state) == ("done", 8, "idle") and target.view == bytes(8)
    telpher.post_all([first, second])
    telpher.wait_all([first, second], DEADLINE)
    assert target.view == b"\1" * 8


def test_post_all_raises_when_the_others_are_posted(pair):
    """One whose connection is gone keeps no other from being posted."""
    other = telpher.Endpoint()
    connection = other.connect(pair.b.address, DEADLINE)
    target = pair.b.allocate(16)
    gone = connection.prepare_write(other.register(bytearray(8)), target.remote[:8])
    source = pair.a.register(bytearray(b"\1" * 8))
    write = pair.ab.prepare_write(source, target.remote[8:])
    other.close()
    try:
        telpher.post_all([gone, write])
    except telpher.Closed:
        pass  # it was not posted; or it was, and has ended so
    else:
        with pytest.raises((telpher.Closed, telpher.StaleRegion)):
            gone.wait(DEADLINE)
    assert write.wait(DEADLINE) == 8 and target.view == bytes(8) + b"\1" * 8


@pytest.mark.parametrize("was", ["idle", "done"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_in_a_posting_leaves_nothing_pending_for_ever(tcp_pair, monkeypatch, when, was):
    """Before it was claimed, between the claim and the call (as Python 3.9 and 3.10 may), and after the call."""
    calls = _table.calls
    receive = tcp_pair.ba.prepare_receive(bytearray(4))
    if was == "done":
        receive.post()
        tcp_pair.ab.send(b"one").wait(DEADLINE)
        assert receive.wait(DEADLINE) == 3
    post, take, settle = calls.post, receive._take, telpher.PreparedTransfer._take

    def interrupted_taking(transfer):
        if when == "before":
            raise KeyboardInterrupt
        take()
        raise KeyboardInterrupt

    def interrupted_call(handle):
        if when == "after":
            post(handle)
        raise KeyboardInterrupt

    for name, of, broken, whole in ("_take", telpher.PreparedTransfer, interrupted_taking, settle), ("post", calls, interrupted_call, post):
        for posting in (receive.post, lambda: telpher.post_all([receive])) if name == "_take" else (receive.post,):
            monkeypatch.setattr(of, name, broken)
            with pytest.raises(KeyboardInterrupt):
                posting()
            monkeypatch.setattr(of, name, whole)
            assert receive.state == ("pending" if (name, when) == ("post", "after") else was)
    if when == "before":
        receive.post()
    tcp_pair.ab.send(b"four").wait(DEADLINE)
    assert receive.wait(DEADLINE) == 4
    receive.post()
    tcp_pair.ab.send(b"more").wait(DEADLINE)
    assert receive.wait(DEADLINE) == 4


def test_who_cannot_post_leaves_it_to_who_has(tcp_pair, monkeypatch):
    """A signal's handler that has interrupted a posting is told so without waiting for the lock of the callback thread, which may wait for that posting."""
    held = []
    monkeypatch.setattr(_ends, "hold", held.append)
    receive = tcp_pair.ba.prepare_receive(bytearray(4)).post()
    assert held == [receive]
    for posting in receive.post, receive.run, lambda: telpher.post_all([receive]):
        with pytest.raises(RuntimeError, match="pending"):
            posting()
    assert held == [receive]


def test_a_signal_s_handler_may_ask_for_the_end_of_what_it_interrupts(tcp_pair, monkeypatch):
    """In the middle of a posting: it does not wait for itself, and no end of the posting before is taken for one of this."""
    receive = tcp_pair.ba.prepare_receive(bytearray(4)).post()
    tcp_pair.ab.send(b"four").wait(DEADLINE)
    receive.wait(DEADLINE)
    calls, post, heard = _table.calls, _table.calls.post, []

    def asked(handle):
        heard.append(receive.done())  # of the posting before
        with pytest.raises(RuntimeError, match="pending"):
            receive._result = None
            receive.post()
        word = post(handle)
        receive.done()
        return word

    monkeypatch.setattr(calls, "post", asked)
    receive.post()
    monkeypatch.setattr(calls, "post", post)
    assert heard == [True] and receive.state == "pending" and not receive.done()
    tcp_pair.ab.send(b"more").wait(DEADLINE)
    assert receive.wait(DEADLINE) == 4


def test_a_short_time_to_run_in_is_kept(pair, monkeypatch):
    """The call that posts and waits takes a slice; who has less time waits by another one."""
    receive = pair.ba.prepare_receive(bytearray(4))
    monkeypatch.setattr(_table.calls, "run", lambda _: pytest.fail("a whole slice"))
    monkeypatch.setattr(_table, "in_slices", lambda seconds, call: call(int(seconds * 1e9)))
    for seconds in 0, 0.005:
        with pytest.raises(telpher.TimedOut, match="%g s" % seconds):
            receive.run(seconds)
        pair.ab.send(b"four").wait(DEADLINE)
        monkeypatch.undo()
        assert receive.wait(DEADLINE) == 4
        monkeypatch.setattr(_table.calls, "run", lambda _: pytest.fail("a whole slice"))
    monkeypatch.undo()
    pair.ab.send(b"four").wait(DEADLINE)
    assert receive.run(DEADLINE) == 4
