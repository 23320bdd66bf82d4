"""Transfers, messages, notifications, counters: the bytes are where they should be, and what goes wrong says so."""

import array
import gc
import pickle
import threading
import time
import weakref

import pytest
import telpher
from conftest import DEADLINE


def test_write_and_read(pair):
    target = pair.b.allocate(1000)
    source = pair.a.register(bytearray(range(200)) * 5)
    transfer = pair.ab.write(source[100:300], target.remote[500:700])
    assert transfer.wait(DEADLINE) == 200
    assert (transfer.state, transfer.bytes_moved, transfer.remote_quiet) == ("done", 200, True)
    assert transfer.path in ("self", "tcp") and transfer.exception() is None
    assert bytes(target.view[500:700]) == bytes((100 + i) % 200 for i in range(200))
    assert not any(target.view[:500]) and not any(target.view[700:])

    back = bytearray(200)
    assert pair.ab.read(back, target.remote[500:700]).wait(DEADLINE) == 200
    assert back == target.view[500:700]


def test_every_field_crosses(pair):
    """Options, notification, counter, tag: each arrives as what it is."""
    target, word = pair.b.allocate(64), pair.b.allocate(16)
    update = telpher.CounterUpdate(word.remote[8:], "add", -(1 << 40))
    pair.ab.write(b"x" * 64, target.remote, notification=b"note\0\xff", counter=update, deadline=20, priority="high").wait()
    assert pair.ba.wait_notification(DEADLINE) == b"note\0\xff"
    assert array.array("q", bytes(word.view)).tolist() == [0, -(1 << 40)]
    pair.ab.write(b"y", target.remote, counter=telpher.CounterUpdate(word.remote, "set", 7)).wait()
    assert array.array("q", bytes(word.view)).tolist() == [7, -(1 << 40)]
    assert bytes(target.view) == b"y" + b"x" * 63


def test_messages_match_by_tag(pair):
    big = -(1 << 63)
    one, two = bytearray(100), bytearray(100_000)
    late = pair.ba.receive(two, tag=big)
    early = pair.ba.receive(one, tag=3)
    pair.ab.send(b"b" * 90_000, tag=big).wait(DEADLINE)
    pair.ab.send(b"a" * 10, tag=3).wait(DEADLINE)
    assert early.wait(DEADLINE) == 10 and late.wait(DEADLINE) == 90_000
    assert bytes(one[:11]) == b"a" * 10 + b"\0" and two.count(b"b") == 90_000


def test_truncated_has_both_sizes(pair):
    receive = pair.ba.receive(bytearray(10), tag=1)
    send = pair.ab.send(bytes(20), tag=1)
    with pytest.raises(telpher.Truncated, match="20 bytes") as caught:
        receive.wait(DEADLINE)
    assert (caught.value.sent, caught.value.capacity) == (20, 10)
    with pytest.raises(telpher.Truncated):
        send.wait(DEADLINE)


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


def test_a_prepared_transfer_that_nobody_holds_goes_on(pair):
    """With memory that was registered for it alone."""
    into = bytearray(300_000)
    for _ in range(2):
        pair.ab.prepare_send(bytearray(b"\7") * 300_000).post()
        gc.collect()
        assert pair.ba.receive(into).wait(DEADLINE) == 300_000
    assert into.count(7) == 300_000
    until = time.monotonic() + DEADLINE
    while pair.ab._held and time.monotonic() < until:  # until this side has heard of the end
        pair.ab.send(b"!").wait(DEADLINE)
        pair.ba.receive(bytearray(1)).wait(DEADLINE)
    gc.collect()
    assert not pair.ab._held and pair.a.metrics()["regions"] == 0


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
    assert len(_region._busy) > kept and "stays until the process ends" in caplog.text


def test_notifications_keep_their_order(pair):
    assert pair.ba.poll_notification() is None
    for i in range(100):
        pair.ab.notify(b"%d" % i)
    pair.ab.notify(b"")
    pair.ab.notify(b"z" * 70_000)
    assert [pair.ba.wait_notification(DEADLINE) for _ in range(100)] == [b"%d" % i for i in range(100)]
    assert pair.ba.wait_notification(DEADLINE) == b""
    assert pair.ba.wait_notification(DEADLINE) == b"z" * 70_000
    with pytest.raises(telpher.TimedOut, match="0.2 s"):
        pair.ba.wait_notification(0.2)


def test_a_wait_is_over_and_the_transfer_goes_on(pair):
    into = bytearray(4)
    receive = pair.ba.receive(into)
    with pytest.raises(telpher.TimedOut, match="goes on"):
        receive.wait(0.1)
    assert receive.state == "pending" and not receive.done()
    pair.ab.send(b"late").wait(DEADLINE)
    assert receive.wait(DEADLINE) == 4 and into == b"late"


def test_deadline_and_cancel(pair):
    late = pair.ba.receive(bytearray(1), tag=5, deadline=0.1)
    with pytest.raises(telpher.TimedOut) as caught:
        late.wait(DEADLINE)
    assert isinstance(caught.value, TimeoutError) and late.state == "timed_out"
    withdrawn = pair.ba.receive(bytearray(1), tag=6)
    assert withdrawn.cancel()
    with pytest.raises(telpher.Cancelled):
        withdrawn.wait(DEADLINE)
    assert withdrawn.state == "cancelled" and not withdrawn.cancel()


def test_a_region_closed_while_in_use(pair):
    region = pair.b.register(bytearray(10))
    receive = pair.ba.receive(region)
    region.close()
    with pytest.raises(telpher.StaleRegion):
        receive.wait(DEADLINE)
    region.close()
    with pytest.raises(telpher.Error, match="given back|closed"):
        pair.ba.receive(region)


def test_stale_denied_and_outside(pair):
    target = pair.b.allocate(100, access="r")
    remote = target.remote
    with pytest.raises(telpher.AccessDenied) as caught:
        pair.ab.write(bytes(10), remote).wait(DEADLINE)
    assert isinstance(caught.value, PermissionError)
    target.close()
    with pytest.raises(telpher.StaleRegion):
        pair.ab.read(bytearray(10), remote).wait(DEADLINE)
    with pytest.raises(ValueError, match="101 local bytes do not fit into 100"):
        pair.ab.write(bytes(101), remote)
    with pytest.raises(IndexError, match="does not lie inside 100"):
        remote[50:101]


def test_closed_things_say_so():
    endpoint, other = telpher.Endpoint(), telpher.Endpoint()
    connection = endpoint.connect(other.address)
    region = endpoint.allocate(10)
    connection.close()
    assert not connection.is_open and isinstance(connection.failure, telpher.Closed)
    with pytest.raises(telpher.Closed):
        connection.write(region, region.remote).wait(DEADLINE)
    endpoint.close()
    endpoint.close()
    assert endpoint.closed and region.closed
    with pytest.raises(telpher.Closed, match="endpoint"):
        endpoint.allocate(1)
    with pytest.raises(ConnectionError):
        connection.notify(b"").wait(DEADLINE)
    other.close()


def test_connect_says_what_was_tried():
    with telpher.Endpoint() as endpoint:
        nobody = telpher.EndpointAddress.of("127.0.0.1", 9, b"s" * 16)
        with pytest.raises(telpher.ConnectFailed) as caught:
            endpoint.connect(nobody, 5)
        assert any("127.0.0.1" in attempt for attempt in caught.value.attempts)
        with pytest.raises(ValueError, match="telpher1:"):
            endpoint.connect("somewhere:7070")
        with pytest.raises(telpher.TimedOut, match="0.1 s"):
            endpoint.accept(0.1)


def test_options_and_their_errors(monkeypatch):
    monkeypatch.setenv("TELPHER_DEADLINE", "7s")
    with telpher.Endpoint(liveness=2.5, transports=["tcp"], secret="0123456789abcdef") as endpoint:
        options = endpoint.options()
        assert (options["deadline"], options["liveness"], options["transports"]) == (7.0, 2.5, ["tcp"])
        assert options["secret"] is None and "0123456789abcdef" not in str(options)
    with pytest.raises(TypeError, match="no option lane;"):
        telpher.Endpoint(lane=1)
    with pytest.raises(ValueError, match="TELPHER_LANES=-1|lanes"):
        telpher.Endpoint(lanes=-1)
    with pytest.raises(ValueError, match="secret"):
        telpher.Endpoint(secret=b"short")


@pytest.mark.parametrize("call, error, match", [
    (lambda a, ab, to: ab.write(b"8 bytes.", to, notification="text"), TypeError, "notification is bytes, not a str: encode"),
    (lambda a, ab, to: ab.write(b"8 bytes.", to, notification=5), TypeError, "notification is bytes, not int"),
    (lambda a, ab, to: ab.notify(5), TypeError, "notification is bytes"),
    (lambda a, ab, to: ab.write(b"8 bytes.", to, deadline="1"), TypeError, "deadline is a number of seconds.*'1'"),
    (lambda a, ab, to: ab.write(b"8 bytes.", to, deadline=float("nan")), ValueError, "deadline.*nan"),
    (lambda a, ab, to: ab.write(b"8 bytes.", None), TypeError, "remote side is a RemoteMemory.*not NoneType"),
    (lambda a, ab, to: ab.write(b"8 bytes.", to, priority="low"), ValueError, "priority 'low'"),
    (lambda a, ab, to: ab.send(b"8 bytes.", tag="x"), TypeError, "'str'"),
    (lambda a, ab, to: ab.send(a.allocate(8), tag=1.0), TypeError, "'float'"),
    (lambda a, ab, to: ab.receive(a.allocate(8), tag=1 << 63), ValueError, "9223372036854775808 does not fit"),
    (lambda a, ab, to: ab.receive(bytearray(8)).wait(float("nan")), ValueError, "timeout.*nan"),
    (lambda a, ab, to: ab.lookup(b"name"), TypeError, "name is a str, not bytes"),
    (lambda a, ab, to: a.accept("1"), TypeError, "timeout is a number of seconds"),
    (lambda a, ab, to: a.allocate(1e3), TypeError, "'float'"),
    (lambda a, ab, to: a.allocate(1 << 70), ValueError, "does not fit into 64 bits"),
    (lambda a, ab, to: a.allocate(8)[0:1.5], TypeError, "'float'"),
    (lambda a, ab, to: a.allocate(8).strided(1, 1 << 70, 2), ValueError, "does not fit"),
    (lambda a, ab, to: a.allocate(8).blocks(1, 4), TypeError, r"\[1\] is one"),
    (lambda a, ab, to: a.publish("name", b"memory"), TypeError, "MemoryRegion or RemoteMemory is published, not bytes"),
    (lambda a, ab, to: a.connect("telpher1:???"), ValueError, "has been changed"),
    (lambda a, ab, to: a.connect(5), TypeError, "endpoint address is bytes, not int"),
    (lambda a, ab, to: telpher.RemoteMemory(48), TypeError, "descriptor of memory is bytes, not int"),
    (lambda a, ab, to: telpher.CounterUpdate(a.allocate(8), "add", 1), TypeError, "RemoteMemory, not MemoryRegion"),
    (lambda a, ab, to: telpher.CounterUpdate(to, "add", 1.5), TypeError, "'float'"),
    (lambda a, ab, to: telpher.CounterUpdate(to, "add", 1 << 63), ValueError, "does not fit"),
    (lambda a, ab, to: telpher.Endpoint(secret=20), TypeError, "secret is bytes, not int"),
])
def test_wrong_arguments_are_named(tcp_pair, call, error, match):
    target = tcp_pair.b.allocate(8)
    with pytest.raises(error, match=match):
        call(tcp_pair.a, tcp_pair.ab, target.remote)
    assert target.view == bytes(8) and tcp_pair.ba.poll_notification() is None


def test_infinite_times(tcp_pair):
    region = tcp_pair.b.allocate(8)
    tcp_pair.b.publish("memory", region)
    remote = tcp_pair.ab.lookup("memory", None)
    assert remote == tcp_pair.ab.lookup("memory", float("inf"))
    assert tcp_pair.ab.write(b"8 bytes.", remote, deadline=float("inf")).wait(float("inf")) == 8 and region.view == b"8 bytes."


def test_values_travel(pair):
    address = pickle.loads(pickle.dumps(pair.a.address))
    assert address == pair.a.address == telpher.EndpointAddress(address.text)
    assert hash(address) == hash(pair.a.address) and "secret" not in repr(address)
    region = pair.b.allocate(100)
    remote = pickle.loads(pickle.dumps(region.remote[10:20]))
    assert remote == region.remote[10:20] and len(bytes(remote)) == 48 and remote.nbytes == 10
    pair.ab.write(b"pickled...", remote).wait(DEADLINE)
    assert bytes(region.view[10:20]) == b"pickled..."
    pair.b.publish("name", remote)
    assert pair.ab.lookup("name", DEADLINE) == remote
    with pytest.raises(telpher.TimedOut):
        pair.ab.lookup("nothing", 0.2)
    for bad in (bytes(47), bytes(40) + b"\x09" * 8):
        with pytest.raises(ValueError, match="descriptor"):
            telpher.RemoteMemory(bad)


def test_metrics_and_explain(pair):
    target = pair.b.allocate(100)
    pair.ab.write(bytes(100), target.remote).wait()
    totals = pair.a.metrics()["totals"]
    assert totals["bytes_sent"] >= 100 and totals["transfers_done"] >= 1
    assert pair.ab.metrics()["paths"] and "lane" in pair.ab.explain() and pair.a.explain()


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


def test_arrays_over_allocated_memory_are_tracked():
    endpoint = telpher.Endpoint()
    region = endpoint.allocate(100)
    view = region.view
    view[:3] = b"abc"
    for close in (region.close, endpoint.close):
        with pytest.raises(BufferError, match="alive"):
            close()
    part = view[1:3]
    del view
    with pytest.raises(BufferError):
        region.close()
    assert bytes(part) == b"bc" and not region.closed
    del part
    region.close()
    endpoint.close()


def test_a_held_buffer_cannot_be_resized(pair):
    memory = bytearray(10)
    with pair.a.register(memory):
        with pytest.raises(BufferError):
            memory.append(1)
    memory.append(1)


def test_wait_all(pair):
    receives = [pair.ba.receive(bytearray(4), tag=i) for i in range(4)]
    for i in range(4):
        pair.ab.send(bytes(8 if i == 2 else 4), tag=i)
    with pytest.raises(telpher.Truncated):
        telpher.wait_all(receives, DEADLINE)
    assert [receive.state for receive in receives] == ["done", "done", "failed", "done"]
    with pytest.raises(telpher.TimedOut):
        telpher.wait_all([pair.ba.receive(bytearray(4), tag=9)], 0.1)


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


def test_many_threads_use_one_connection(pair):
    """Sixteen threads write, read back and check, all at once; and two wait for the same transfers."""
    errors = []

    def work(number):
        try:
            target = pair.b.allocate(4096)
            source, back = bytearray([number]) * 4096, bytearray(4096)
            for _ in range(50):
                pair.ab.write(source, target.remote).wait(DEADLINE)
                pair.ab.read(back, target.remote).wait(DEADLINE)
                assert back == source
        except BaseException as e:
            errors.append(e)

    shared = [pair.ba.receive(bytearray(4), tag=1000 + i) for i in range(200)]

    def wait_too():
        try:
            assert [each.wait(DEADLINE) for each in shared] == [4] * 200
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)] + [
        threading.Thread(target=wait_too) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for i in range(200):
        pair.ab.send(b"four", tag=1000 + i)
    for thread in threads:
        thread.join(DEADLINE)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_a_waiting_thread_lets_others_run(pair):
    """The GIL is free during a wait."""
    receive = pair.ba.receive(bytearray(1))
    thread = threading.Thread(target=receive.wait, args=(DEADLINE,))
    thread.start()
    started = time.monotonic()
    count = 0
    while time.monotonic() - started < 0.3:
        count += 1
    assert count > 1000
    pair.ab.send(b"!").wait()
    thread.join(DEADLINE)
    assert receive.done()
