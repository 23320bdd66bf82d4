"""Ctrl-C, in waits and in postings."""

import os
import signal
import time

import pytest
import telpher
from conftest import DEADLINE
from telpher import _table

WAITS = {
    "transfer": "connection.receive(bytearray(4)).wait()",
    "notification": "connection.wait_notification()",
    "accept": "endpoint.accept()",
    "lookup": "connection.lookup('never', 60)",
    "run": "connection.prepare_receive(bytearray(4)).run()",
    "connect": "endpoint.connect(address, 60)",
}


@pytest.mark.parametrize("what", sorted(WAITS))
def test_ctrl_c_ends_a_wait(script, what):
    """The wait raises KeyboardInterrupt, and everything works afterwards."""
    waiting = script(
        """
        import os, signal, socket, sys, telpher
        signal.signal(signal.SIGINT, signal.default_int_handler)
        endpoint, other = telpher.Endpoint(), telpher.Endpoint()
        connection = endpoint.connect(other.address)
        accepted = other.accept()
        silent = socket.create_server(("127.0.0.1", 0))  # takes connections in and says nothing
        address = telpher.EndpointAddress.of("127.0.0.1", silent.getsockname()[1], b"s" * 16)
        print("waiting")
        try:
            %s
        except KeyboardInterrupt:
            print("interrupted")
        # By its number in the order of the tag, after the receive that was left behind.
        into = bytearray(4)
        receive = accepted.receive(into)
        connection.send(b"last").wait(30)
        print(receive.wait(30), bytes(into))
        """
        % WAITS[what]
    )
    waiting.expect("waiting")
    time.sleep(0.3)
    before = time.monotonic()
    os.kill(waiting.process.pid, signal.SIGINT)
    waiting.expect("interrupted")
    assert time.monotonic() - before < 20
    assert waiting.expect() == "4 b'last'"
    out, err = waiting.end()
    assert (out, err) == ("", "")


INTERRUPTED = """
    import os, signal, telpher, threading
    from telpher._table import calls
    signal.signal(signal.SIGINT, signal.default_int_handler)
    endpoint, other = telpher.Endpoint(), telpher.Endpoint()
    connection = endpoint.connect(other.address)
    accepted = other.accept()
    into = bytearray(4)
    receive = accepted.prepare_receive(into)

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    def check(text):
        print(receive.state, receive.done())
        connection.send(text).wait(30)
        print(receive.wait(30), bytes(into))
"""


def test_ctrl_c_in_run_does_not_end_the_transfer(script):
    """It has been posted again when the interrupt comes, in place of what the call says: what it was before is over."""
    running = script(
        INTERRUPTED
        + """
    connection.send(b"1111")
    assert receive.run(30) == 4

    def interrupt_when_posted():
        while calls.poll(receive._handle) != 0:
            pass
        interrupt()

    for text in b"2222", b"3333":
        threading.Thread(target=interrupt_when_posted).start()
        try:
            receive.run()
        except KeyboardInterrupt:
            check(text)
    connection.send(b"last")
    print(receive.run(30), bytes(into))
    """
    )
    out, err = running.end()
    assert out.splitlines() == ["pending False", "4 b'2222'", "pending False", "4 b'3333'", "4 b'last'"] and err == ""


def test_ctrl_c_in_post_all(script):
    """After the call what it posted is pending; before it nothing is, and each transfer is what it was. All can be posted again."""
    posting = script(
        INTERRUPTED
        + """
    second = accepted.prepare_receive(bytearray(4), tag=2)
    connection.send(b"1111")
    assert receive.run(30) == 4
    real = calls.postAll

    def after(request):
        real(request)
        interrupt()

    def before(request):
        interrupt()

    for calls.postAll in before, after:
        try:
            telpher.post_all([receive, second])
        except KeyboardInterrupt:
            print(receive.state, second.state)
    check(b"2222")
    connection.send(b"more", tag=2)
    print(second.wait(30))
    calls.postAll = real
    telpher.post_all([receive, second])
    connection.send(b"same", tag=2)
    check(b"last")
    print(second.wait(30))
    """
    )
    out, err = posting.end()
    assert out.splitlines() == [
        "done idle", "pending pending", "pending False", "4 b'2222'", "4", "pending False", "4 b'last'", "4",
    ] and err == ""


def test_a_connection_that_comes_after_its_connect_was_given_up_is_closed(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with telpher.Endpoint() as endpoint, telpher.Endpoint() as other:
        monkeypatch.setattr(_table, "in_slices", interrupted)
        with pytest.raises(KeyboardInterrupt):
            endpoint.connect(other.address, DEADLINE)
        monkeypatch.undo()
        accepted = other.accept(DEADLINE)
        until = time.monotonic() + DEADLINE
        while accepted.is_open and time.monotonic() < until:
            time.sleep(0.01)
        assert not accepted.is_open


def test_a_lookup_that_was_given_up_leaves_no_thread(tcp_pair, monkeypatch):
    """It may have been one that waits for ever."""
    def threads():
        found = []
        for task in os.listdir("/proc/self/task"):
            try:
                with open("/proc/self/task/%s/comm" % task) as file:
                    found.append(file.read().startswith("telpher-python"))
            except OSError:
                pass  # it has ended
        return sum(found)

    def become(count):
        """Whether there are soon so many: a thread has no name at first, and is seen for a moment when it has ended."""
        until = time.monotonic() + DEADLINE
        while threads() != count and time.monotonic() < until:
            time.sleep(0.01)
        return threads() == count

    def interrupted(seconds, call):
        assert call(1_000_000) == 0 and become(1)
        raise KeyboardInterrupt

    for _ in range(3):
        monkeypatch.setattr(_table, "in_slices", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tcp_pair.ab.lookup("never", None)
        monkeypatch.undo()
    assert become(0)
    tcp_pair.b.publish("there", tcp_pair.b.allocate(8))
    assert tcp_pair.ab.lookup("there", DEADLINE).nbytes == 8
