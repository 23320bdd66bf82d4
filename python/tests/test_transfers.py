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
from telpher import _table


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


def test_wait_all(pair):
    receives = [pair.ba.receive(bytearray(4), tag=i) for i in range(4)]
    for i in range(4):
        pair.ab.send(bytes(8 if i == 2 else 4), tag=i)
    with pytest.raises(telpher.Truncated):
        telpher.wait_all(receives, DEADLINE)
    assert [receive.state for receive in receives] == ["done", "done", "failed", "done"]
    with pytest.raises(telpher.TimedOut):
        telpher.wait_all([pair.ba.receive(bytearray(4), tag=9)], 0.1)


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


def test_an_error_keeps_nobody_s_locals(pair):
    """What a transfer remembers is not what was raised, which knows the frames that it went through."""
    class Local(bytearray):
        pass

    region = pair.b.allocate(4)

    def wait(transfer):
        transfer.post().wait(DEADLINE)

    def run(transfer):
        transfer.run(DEADLINE)

    def wait_all(transfer):
        telpher.wait_all([transfer.post()])

    def failing(how):
        local = Local(1)
        transfer = pair.ba.prepare_receive(region, tag=5, deadline=0.01)
        with pytest.raises(telpher.TimedOut) as caught:
            how(transfer)
        assert caught.value is not transfer.exception() and str(caught.value) == str(transfer.exception())
        del caught
        return weakref.ref(local)

    gc.collect()
    gc.disable()
    try:
        assert [failing(how)() for how in (wait, run, wait_all)] == [None] * 3
    finally:
        gc.enable()


def test_errors_are_pickled_whole():
    error = telpher.NativeFailure("open failed")
    error.call, error.errno, error.arguments = "open", 24, ["/there"]
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.call, again.errno, again.arguments) == (telpher.NativeFailure, str(error), "open", 24, ["/there"])
    cut = telpher.Truncated("too long")
    cut.sent, cut.capacity = 8, 4
    again = pickle.loads(pickle.dumps(cut))
    assert (str(again), again.sent, again.capacity) == ("too long", 8, 4)


def test_wait_all_takes_all_before_it_waits():
    """So that those of a generator, which posts them, are under way together."""
    order = []

    class Posted:
        def __init__(self):
            order.append("post")

        def wait(self, timeout):
            order.append("wait")

    telpher.wait_all(Posted() for _ in range(3))
    assert order == ["post"] * 3 + ["wait"] * 3


def test_a_waiting_thread_lets_others_run(pair):
    """The GIL is free during a foreign call: this one returns because another thread goes on."""
    receive = pair.ba.receive(bytearray(1))
    words = []
    started = threading.Event()

    def wait():
        started.set()
        words.append(_table.calls.waitFor(_table.PAIR.pack(receive._handle, DEADLINE * 10**9)))

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    pair.ab.send(b"!").wait(DEADLINE)
    thread.join(DEADLINE)
    assert words and words[0] >= _table.DONE, "the call has waited in vain"
    assert receive.wait(DEADLINE) == 1


def test_every_function_frees_the_gil():
    with telpher.Endpoint(transports=["shm"]):
        flags = {name: function._flags_ for name, function in vars(_table.calls).items()}
    python_api = 4  # FUNCFLAG_PYTHONAPI of ctypes: such a call keeps it
    assert len(flags) > 40 and not [name for name, flag in flags.items() if flag & python_api]
