"""Children of a process that has a JVM, or is about to."""

import pytest


@pytest.fixture
def script(script):
    """Of which Python 3.12 and newer say that they should not fork: that is what they are about."""
    return lambda text: script(text, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"})


def test_a_forked_child_is_told(script):
    forking = script(
        """
        import gc, multiprocessing, os, sys, telpher
        endpoint = telpher.Endpoint()
        other = telpher.Endpoint()
        connection = endpoint.connect(other.address)
        region = endpoint.register(bytearray(10))
        transfer = connection.receive(bytearray(4))
        pid = os.fork()
        if pid == 0:
            for call in (telpher.Endpoint, lambda: endpoint.address, lambda: connection.write(region, region.remote), transfer.wait,
                         lambda: endpoint.register(bytearray(1)), lambda: telpher.EndpointAddress.of("h", 1, b"s" * 16)):
                try:
                    call()
                    print("went on"); os._exit(1)
                except telpher.ForkedError as e:
                    assert "spawn" in str(e) and str(os.getpid()) in str(e)
            connection.close(); region.close(); endpoint.close()
            del region, transfer, connection, endpoint, other
            gc.collect()
            print("child", flush=True)
            sys.exit(7)  # with all handlers of the interpreter's end
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        # The parent has not noticed.
        connection.send(b"four").wait(30)
        print("parent")
        """
    )
    assert forking.end() == ("child\n7\nparent\n", "")


def test_a_fork_before_the_first_endpoint_is_harmless(script):
    forking = script(
        """
        import multiprocessing, telpher
        def child(queue):
            with telpher.Endpoint() as endpoint:
                queue.put(bytes(endpoint.allocate(10).view))
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        processes = [context.Process(target=child, args=(queue,)) for _ in range(2)]
        for each in processes: each.start()
        print([queue.get(timeout=60) for _ in processes] == [bytes(10)] * 2)
        for each in processes: each.join(60)
        print([each.exitcode for each in processes])
        """
    )
    assert forking.end() == ("True\n[0, 0]\n", "")


def test_a_child_that_is_forked_while_another_thread_starts_the_jvm(script):
    """It is told, and does not wait for a lock that nobody gives back; who starts hears nothing of it. A start that failed keeps no child from its own."""
    forking = script(
        """
        import os, signal, telpher, threading
        from telpher import _jvm
        real, starting, forked = _jvm.table, threading.Event(), threading.Event()

        def slow():
            starting.set()
            forked.wait(60)
            return real()

        def child(what):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                try:
                    telpher.Endpoint().close()
                    print("opened", flush=True)
                except telpher.ForkedError as e:
                    print(str(os.getppid()) in str(e), flush=True)
                os._exit(0)
            print(what, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        def fail(): raise telpher.JvmError("none here")

        _jvm.table = fail
        try: telpher.Endpoint()
        except telpher.JvmError as e: print(e, flush=True)
        _jvm.table = real
        child("after a failure")
        _jvm.table = slow
        opened = []
        thread = threading.Thread(target=lambda: opened.append(telpher.Endpoint()))
        thread.start()
        starting.wait(60)
        child("meanwhile")
        forked.set()
        thread.join(60)
        print(len(opened))
        """
    )
    out, err = forking.end()
    assert out.split("\n") == ["none here", "opened", "after a failure 0", "True", "meanwhile 0", "1", ""] and err == ""


def test_locks_that_others_held_at_the_fork_keep_no_child_from_being_told(script):
    forking = script(
        """
        import os, signal, telpher, threading
        from telpher import _ends
        endpoint, other = telpher.Endpoint(), telpher.Endpoint()
        connection = endpoint.connect(other.address)
        receive = connection.receive(bytearray(4))
        prepared = connection.prepare_send(bytearray(4))
        held, over = threading.Event(), threading.Event()

        def hold():
            with endpoint._lock, _ends.lock:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            for call in (lambda: connection.send(bytearray(4)), lambda: connection.prepare_send(bytearray(4)),
                         lambda: endpoint.register(bytearray(4)), lambda: receive.add_done_callback(print),
                         prepared.post, prepared.run, lambda: telpher.post_all([prepared])):
                try: call()
                except telpher.ForkedError: print("told", flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        over.set()
        thread.join(60)
        """
    )
    assert forking.end() == ("told\n" * 7 + "0\n", "")
